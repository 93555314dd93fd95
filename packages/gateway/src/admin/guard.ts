import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Config } from '../config/config.ts';
import { shown } from '../config/shown.ts';
import { bearerTokens, WRONG_TOKENS, WRONG_TOKEN_WAIT_SECONDS } from '../api/bearer-token.ts';
import type { Log } from '../telemetry/log.ts';
import type { AdminCaller, AdminRole, Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';
import { AdminSessions, hasCsrfToken, type OpenedSession } from './sessions.ts';

const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** Decides who may call what. Each method throws the problem that ends the request. */
export interface AdminGuard {
  requireHost(request: IncomingMessage): void;
  /** Also a session, which the token has opened. */
  requireToken(request: IncomingMessage): AdminCaller;
  /** Those who may only read change nothing. */
  requireRole(caller: AdminCaller, endpoint: Pick<Endpoint, 'effect'>): void;
  /** Of a session: the change has to carry what only our own page knows. */
  requireCsrfToken(request: IncomingMessage, caller: AdminCaller): void;
  /** Only for requests that change something. */
  requireSameSite(request: IncomingMessage): void;
}

export function createGuard(config: () => Config['admin'], log: Log): AdminGuard {
  const standingOf = bearerTokens();
  const sessions = new AdminSessions();
  return {
    requireHost(request) {
      const served = servedHosts(config(), request.socket);
      const host = hostOf(request);
      if (served.includes(host)) return;
      throw new AdminProblem(
        'MISDIRECTED_HOST',
        `The host is ${shown(host)}; expected one of ${served.join(', ')}: ask for one of these, or add it to admin.allowed_hosts.`,
      );
    },
    requireCsrfToken(request, { session }) {
      if (session === undefined || hasCsrfToken(request, session)) return;
      throw new AdminProblem(
        'CROSS_SITE',
        'X-CSRF-Token is missing or wrong; expected the one of this session, as GET /v1/session tells it.',
      );
    },
    requireRole({ role }, { effect }) {
      if (role === 'operator' || effect !== 'change') return;
      throw new AdminProblem(
        'READ_ONLY',
        'The token is admin.read_only_token, which sees everything and changes nothing; expected admin.token.',
      );
    },
    requireToken: (request) => callerOf(request, { config, standingOf, sessions, log }),
    requireSameSite,
  };
}

interface KnownCallers {
  readonly config: () => Config['admin'];
  readonly standingOf: ReturnType<typeof bearerTokens>;
  readonly sessions: AdminSessions;
  readonly log: Log;
}

/** Who asks, by their session or their token. */
function callerOf(
  request: IncomingMessage,
  { config, standingOf, sessions, log }: KnownCallers,
): AdminCaller {
  const remote = request.socket.remoteAddress;
  const { token, read_only_token: readOnly } = config();
  const { authorization = '' } = request.headers;
  const callerBy = (via: AdminCaller['via'], role: AdminRole): AdminCaller => ({
    via,
    role,
    // Behind a proxy that speaks TLS, the page says so.
    open: (): OpenedSession =>
      sessions.open(
        (role === 'reader' ? readOnly : token) ?? '',
        request.headers.origin?.startsWith('https:') === true,
      ),
    close: () => sessions.close(request),
  });
  if (token === undefined) return callerBy('open', 'operator');
  if (authorization === '') {
    const session = sessions.of(request, token);
    if (session !== undefined) return { ...callerBy('session', 'operator'), session };
    const readers = sessions.of(request, readOnly);
    if (readers !== undefined) return { ...callerBy('session', 'reader'), session: readers };
  }
  switch (standingOf(remote, authorization, { token, readOnly })) {
    case 'accepted':
      return callerBy('token', 'operator');
    case 'readOnly':
      return callerBy('token', 'reader');
    case 'missing':
      log.debug({ remote }, 'a request to the admin server had no token');
      throw tokenRequired();
    case 'tooManyWrong':
      throw tooManyFailures(request);
    default:
      log.warn({ remote }, 'a request to the admin server had no valid token');
      throw tokenRequired();
  }
}

const LOOPBACK_HOSTS = ['localhost', '127.0.0.1', '[::1]'] as const;
/** An address that listens everywhere names no host. */
const NO_HOSTS = new Set(['', '0.0.0.0', '[::]']);

/**
 * In lower case, without port. Those that nobody had to write down are safe: for DNS rebinding a page has to have a
 * name of the attacker's, which is never one of loopback, the operator's own, or the very address that the connection
 * came to.
 */
function servedHosts(
  { address, allowed_hosts: allowed }: Config['admin'],
  { localAddress = '' }: Socket,
): readonly string[] {
  const own = [withoutPort(address), hostOfAddress(localAddress)].filter((host) => !NO_HOSTS.has(host));
  return [...new Set([...LOOPBACK_HOSTS, ...own, ...allowed].map((name) => name.toLowerCase()))];
}

/** As a client writes it into Host. */
function hostOfAddress(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return plain.includes(':') ? `[${plain}]` : plain;
}

function tokenRequired(): AdminProblem {
  return new AdminProblem(
    'TOKEN_REQUIRED',
    'Send the token of the gateway as "Authorization: Bearer ..."; it is the setting admin.token.',
    { headers: { 'www-authenticate': 'Bearer realm="spillgate"' } },
  );
}

function tooManyFailures({ socket }: IncomingMessage): AdminProblem {
  const waitSeconds = WRONG_TOKEN_WAIT_SECONDS;
  return new AdminProblem(
    'TOO_MANY_FAILURES',
    `${socket.remoteAddress ?? 'This address'} sent ${WRONG_TOKENS.burst} wrong tokens; expected at most ${WRONG_TOKENS.average} in a minute: wait ${waitSeconds} seconds, then send the right one.`,
    { headers: { 'retry-after': String(waitSeconds) } },
  );
}

/** The host that was asked for in lower case and without port. */
function hostOf({ headersDistinct }: IncomingMessage): string {
  const [host = '', second] = headersDistinct['host'] ?? [];
  if (second !== undefined) {
    throw new AdminProblem('INVALID_REQUEST', 'The request names two hosts; expected one Host header.');
  }
  return withoutPort(host.toLowerCase());
}

function withoutPort(host: string): string {
  return host.replace(/:\d{1,5}$/, '');
}

/** A page of another site can make a browser send requests, but not with our origin and not with JSON. */
function requireSameSite({ headers, headersDistinct, method }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new AdminProblem(
      'CROSS_SITE',
      `Sec-Fetch-Site is ${shown(site)}; expected "same-origin" or none: only pages of this server may change things.`,
    );
  }
  const { origin } = headers;
  if (
    origin !== undefined &&
    (!URL.canParse(origin) || new URL(origin).host !== headers.host?.toLowerCase())
  ) {
    throw new AdminProblem(
      'CROSS_SITE',
      `Origin is ${shown(origin)}; expected none, or this server: only its own pages may change things.`,
    );
  }
  const [type = ''] = headersDistinct['content-type'] ?? [];
  // Browsers ask before they send a DELETE to another site, and are never told that they may.
  if (method !== 'DELETE' && !JSON_TYPE.test(type)) {
    throw new AdminProblem(
      'UNSUPPORTED_MEDIA_TYPE',
      `Content-Type is ${type === '' ? 'missing' : shown(type)}; expected "application/json".`,
    );
  }
}
