// Settings of other gateways that have nothing to do here: leaving them out changes nothing that anybody relies on, so
// a file that has them can be used. Each gets a warning. What would loosen a limit or a check stays an error.
import { isTree, valueAt, type Path } from './path.ts';

export interface IdleSetting {
  readonly path: Path;
  /** What to do about it. */
  readonly suggestion: string;
}

/** The tree without its idle settings, and what they were. */
export function withoutIdleSettings(tree: unknown): {
  readonly tree: unknown;
  readonly idle: readonly IdleSetting[];
} {
  const idle = IDLE.filter(({ path, onlyIf }) => {
    const value = valueAt(tree, path);
    // A section is something else than the setting of that name.
    return value !== undefined && !isTree(value) && (onlyIf === undefined || value === onlyIf);
  });
  return { tree: idle.reduce<unknown>((rest, { path }) => without(rest, path), tree), idle };
}

function without(tree: unknown, [name, ...inner]: Path): unknown {
  if (!isTree(tree) || name === undefined) return tree;
  const { [name]: value, ...others } = tree;
  return inner.length === 0 ? others : { ...tree, [name]: without(value, inner) };
}

interface IdleRow extends IdleSetting {
  /** Idle with this value only: with any other one it asks for something. */
  readonly onlyIf?: unknown;
}

const ONE_CONNECTION = 'Remove it: one pipelined connection per server carries all calls.';
const NO_HTTP3 = 'Remove it: there is no HTTP/3 here, and clients use HTTP/2 or HTTP/1.1.';
const DIAL = 'Remove it: backend.transport.dial_timeout bounds the whole way to a connection.';
const PINGED = 'Remove it: after a time-out the connection is pinged, and replaced if it does not answer.';
const SYSTEM_KEEP_ALIVE = 'Remove it: backend.idle_conn_timeout closes connections that nobody uses.';

const IDLE: readonly IdleRow[] = [
  ...['redis', 'cache_redis'].flatMap((section) => [
    row(`${section}.write_timeout`, `Remove it: ${section}.read_timeout bounds a whole call.`),
    ...['min_idle_conns', 'max_idle_conns', 'max_conns', 'pool_timeout'].map((name) =>
      row(`${section}.${name}`, ONE_CONNECTION),
    ),
  ]),
  row('rate_limit.min_ttl', 'Remove it: a state expires when it says nothing any more.'),
  row('server.tls.http3_enabled', NO_HTTP3),
  row('server.tls.http3_advertise_port', NO_HTTP3),
  row(
    'backend.max_idle_conns',
    'Remove it: backend.max_conns bounds all connections, and backend.idle_conn_timeout closes unused ones.',
  ),
  {
    ...row(
      'backend.tls_insecure_skip_verify',
      'Remove it: certificates are verified unless you say otherwise.',
    ),
    onlyIf: false,
  },
  row('backend.transport.dial_keep_alive', SYSTEM_KEEP_ALIVE),
  row('backend.transport.tls_handshake_timeout', DIAL),
  row('backend.transport.websocket_dial_timeout', DIAL),
  row(
    'backend.transport.expect_continue_timeout',
    'Remove it: the gateway answers Expect itself and sends bodies at once.',
  ),
  row('backend.transport.h2_read_idle_timeout', PINGED),
  row('backend.transport.h2_ping_timeout', PINGED),
  row('backend.transport.h3_udp_receive_buffer_size', NO_HTTP3),
  row('backend.transport.h3_udp_send_buffer_size', NO_HTTP3),
];

function row(path: string, suggestion: string): IdleRow {
  return { path: path.split('.'), suggestion };
}
