import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import type { FleetView } from '../fleet/fleet-view.ts';
import { operatorsKey } from '../rules/policy-readers.ts';
import type { Log } from '../telemetry/log.ts';
import { loggable } from '../telemetry/logger.ts';
import { AdminConnections } from './connections.ts';
import type { GatewayControl } from './control.ts';
import {
  NO_CALLER,
  type AdminMetrics,
  type AdminParts,
  type AdminReply,
  type AdminCaller,
} from './endpoint.ts';
import { ENDPOINTS, readJson, createRouter, type Route } from './endpoints.ts';
import { createGuard, type AdminGuard } from './guard.ts';
import { LiveHub } from './live/live-hub.ts';
import { liveSampler } from './live/live-sample.ts';
import { AdminProblem } from './problems.ts';

interface AdminServerOptions {
  readonly control: GatewayControl;
  readonly metrics: AdminMetrics;
  /** Read for each request; the timeouts for reading when someone says so (`follow`). */
  readonly config: () => Config['admin'];
  /** Default: the one of the configuration. */
  readonly address?: string | undefined;
  /** Requests that come earlier wait for it. Default: they do not wait. */
  readonly openedUp?: Promise<void> | undefined;
  /** Default: a new one, that knows nothing of wrong tokens yet. */
  readonly guard?: AdminGuard | undefined;
  readonly log: Log;
  readonly version: string;
  /** Settings of single keys, and the other instances. */
  readonly fleet: FleetView;
}

export interface AdminServer {
  readonly address: AddressInfo;
  /** How many pages follow what the gateway does. */
  watchers(): number;
  /** The configuration has changed: its timeouts hold from now on. */
  follow(): void;
  /**
   * Takes no more requests, and resolves when those in flight are done; what is not done in time (default: 2 s) is cut
   * off.
   */
  close(options?: { readonly withinMs?: number | undefined }): Promise<void>;
}

const MAX_HEADER_BYTES = 16_384;
const MAX_HEADERS = 100;
const CHECK_INTERVAL_MS = 500;
const CLOSE_WITHIN_MS = 2000;

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/** Serves operators. It rejects if the address cannot be listened on. */
export async function startAdmin(options: AdminServerOptions): Promise<AdminServer> {
  const { control, metrics, log, version, config } = options;
  const live = new LiveHub({
    sample: liveSampler({ control, metrics, version }),
    stories: () => control.stories,
    log,
  });
  const parts: AdminParts = { control, metrics, fleet: options.fleet, live, version };
  const desk = new Desk(parts, options.guard ?? createGuard(config, log), options);
  const server = createServer(
    { connectionsCheckingInterval: CHECK_INTERVAL_MS, maxHeaderSize: MAX_HEADER_BYTES },
    (request, response) => {
      const writing = cutOffAfter(response, config().write_timeout);
      connections.requested(request.socket);
      response.once('close', () => connections.answered(request.socket));
      void desk.serve(request, response, writing);
    },
  );
  const follow = (): void => {
    const { read_timeout, idle_timeout } = config();
    server.headersTimeout = read_timeout;
    server.requestTimeout = read_timeout;
    server.keepAliveTimeout = idle_timeout;
  };
  follow();
  // We say which connections it gets, and when.
  const [serve] = server.listeners('connection');
  const connections = new AdminConnections(log, (socket) => void serve?.call(server, socket));
  server.removeAllListeners('connection').on('connection', (socket) => connections.arrived(socket));
  server.maxHeadersCount = MAX_HEADERS;
  server.on('clientError', refuseBytes);
  await listen(server, options.address ?? config().address);
  // A connection that cannot be accepted (too many open files) must not end the process.
  server.on('error', (err) => log.error({ err }, 'the admin server did not accept a connection'));
  return {
    address: addressOf(server),
    watchers: () => live.watching,
    follow,
    close: async ({ withinMs = CLOSE_WITHIN_MS } = {}) => {
      desk.closing = true;
      live.close();
      connections.close();
      await closeServer(server, withinMs);
    },
  };
}

/** Takes requests to where they are answered, and every failure to an answer. */
class Desk {
  /** Every response is the last one of its connection. */
  closing = false;
  private readonly parts: AdminParts;
  private readonly guard: AdminGuard;
  private readonly log: Log;
  private readonly openedUp: Promise<void> | undefined;
  private readonly route = createRouter(ENDPOINTS);

  constructor(
    parts: AdminParts,
    guard: AdminGuard,
    { log, openedUp }: Pick<AdminServerOptions, 'log' | 'openedUp'>,
  ) {
    this.parts = parts;
    this.guard = guard;
    this.log = log;
    this.openedUp = openedUp;
  }

  /** `writing` cuts off what takes too long; a stream has no end to be late for. */
  async serve(request: IncomingMessage, response: ServerResponse, writing: NodeJS.Timeout): Promise<void> {
    await this.openedUp;
    try {
      const reply = await this.answer(request);
      if (reply.stream !== undefined && request.method !== 'HEAD') {
        clearTimeout(writing);
        openStream(response, reply, reply.stream);
      } else send(response, reply, this.lastHeaders(request));
    } catch (failure) {
      const problem = failure instanceof AdminProblem ? failure : this.unexpected(failure);
      send(response, problemReply(problem), { ...problem.headers, ...this.lastHeaders(request) });
    }
  }

  /** What is left of a body that nobody wants would be read as the next request. */
  private lastHeaders({ complete }: IncomingMessage): Readonly<Record<string, string>> {
    return complete && !this.closing ? {} : { connection: 'close' };
  }

  private async answer(request: IncomingMessage): Promise<AdminReply> {
    const { method = '', url = '' } = request;
    const route = this.route(method, url);
    const { endpoint, parameters, query } = route;
    const access = endpoint.accessFor(query);
    if (access !== 'open') this.guard.requireHost(request);
    const caller = access === 'token' ? this.guard.requireToken(request) : NO_CALLER;
    if (endpoint.method === 'GET') {
      return endpoint.run({ parameters, query, body: undefined, caller }, this.parts);
    }
    this.guard.requireSameSite(request);
    this.guard.requireCsrfToken(request, caller);
    const run = async (): Promise<AdminReply> => {
      this.guard.requireRole(caller, endpoint);
      const body = await readJson(request, endpoint.maxBodyBytes);
      return endpoint.run({ parameters, query, body, caller }, this.parts);
    };
    const { parts, log } = this;
    return endpoint.effect === 'none' ? run() : audited({ request, route, caller, parts }, log, run);
  }

  private unexpected(failure: unknown): AdminProblem {
    this.log.error({ err: failure }, 'a request to the admin server failed');
    return new AdminProblem('INTERNAL', 'This is a mistake in the gateway; its log says more.');
  }
}

function problemReply(problem: AdminProblem): AdminReply {
  return {
    status: problem.status,
    contentType: 'application/problem+json',
    body: `${JSON.stringify(problem)}\n`,
  };
}

function send(
  response: ServerResponse,
  { status, contentType, body, headers: own }: AdminReply,
  headers: Readonly<Record<string, string>>,
): void {
  response.writeHead(status, {
    ...SECURITY_HEADERS,
    ...own,
    ...headers,
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
  });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

/** The last response of its connection: it ends when one side goes. */
function openStream(
  response: ServerResponse,
  { status, contentType }: AdminReply,
  stream: (response: ServerResponse) => void,
): void {
  response.writeHead(status, { ...SECURITY_HEADERS, connection: 'close', 'content-type': contentType });
  response.flushHeaders();
  stream(response);
}

/** A response that takes too long, or a client that does not read it. */
function cutOffAfter(response: ServerResponse, ms: number): NodeJS.Timeout {
  const timer = setTimeout(() => response.destroy(), ms);
  response.once('close', () => clearTimeout(timer));
  return timer;
}

/**
 * Bytes that are not HTTP, headers that are too large or too slow: a minimal response, and the connection is closed.
 */
function refuseBytes(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request';
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}

function listen(server: Server, address: string): Promise<void> {
  const { host, port } = splitHostPort(address);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, ...(host === '' ? {} : { host }) }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function addressOf(server: Server): AddressInfo {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the admin server has no address');
  return address;
}

function closeServer(server: Server, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), withinMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}

const MAX_LOGGED_LENGTH = 128;

/** A request that may change something. */
interface Attempt {
  readonly request: IncomingMessage;
  readonly route: Route;
  readonly caller: AdminCaller;
  readonly parts: AdminParts;
}

/** A line in the log for every change and for every attempt: who, from where, what, what it was and what it is. */
async function audited(attempt: Attempt, log: Log, write: () => Promise<AdminReply>): Promise<AdminReply> {
  const action = actionOf(attempt);
  try {
    const reply = await write();
    log.info({ ...action, status: reply.status, ...reply.change }, 'admin write');
    return reply;
  } catch (failure) {
    const refused = failure instanceof AdminProblem ? failure : undefined;
    log.warn({ ...action, status: refused?.status ?? 500, code: refused?.code ?? 'INTERNAL' }, 'admin write');
    throw failure;
  }
}

function actionOf({ request, route, caller, parts }: Attempt): object {
  const { via, role, session } = caller;
  return {
    audit: true,
    action: route.endpoint.id,
    ...whatOf(route.parameters, parts),
    remote: request.socket.remoteAddress,
    via,
    role,
    ...(session === undefined ? {} : { session: session.name }),
  };
}

/** A key that is the secret of a client is written as it is counted: as its hash. */
function whatOf(parameters: Route['parameters'], { control }: AdminParts): object {
  const { policy, key } = parameters;
  const named =
    policy === undefined || key === undefined
      ? parameters
      : { ...parameters, key: operatorsKey(control.live().config, policy, key, control.apiKeys()) };
  return Object.fromEntries(
    Object.entries(named).map(([name, value]) => [name, loggable(value, MAX_LOGGED_LENGTH)]),
  );
}
