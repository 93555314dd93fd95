import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions, type TLSSocket } from 'node:tls';
import { splitHostPort } from 'spillgate/internal';
import { shown } from '../config/shown.ts';
import { grpcAnswer } from '../proxy/gateway-errors.ts';
import { sniff } from '../proxy/server/detect-http2.ts';
import { HandshakeFailureLog } from '../proxy/tls/server-tls.ts';
import type { Log } from '../telemetry/log.ts';
import type { MovedMetrics } from '../telemetry/traffic-tally.ts';
import { grpcServices } from './grpc-services.ts';
import { ServiceProblem, type CallRequest, type CallResponse } from './http/call.ts';
import { ServiceDesk } from './http/endpoints.ts';
import { FrameConnection } from './http2/connection.ts';
import { encodeHeaders } from './http2/hpack.ts';
import { nodeCall } from './http2/node-call.ts';
import type { ServiceStream } from './http2/stream.ts';
import type { ServiceSnapshot } from './snapshot.ts';

export interface ServiceServerOptions {
  /** The configuration in use, asked for once per call. */
  readonly snapshot: () => ServiceSnapshot;
  readonly address: string;
  /** Calls that come earlier wait for it. */
  readonly openedUp: Promise<void>;
  /** Certificates and what else TLS needs; undefined: no TLS. */
  readonly secureContext: () => TlsOptions | undefined;
  /** Why no decision can be made now; undefined if one can. */
  readonly storeProblem: () => Promise<string | undefined>;
  readonly moved: MovedMetrics;
  readonly log: Log;
  readonly version: string;
}

export interface ServiceServer {
  readonly address: AddressInfo;
  /** The configuration or its certificates have changed: that holds for connections from now on. */
  follow(): void;
  /** Takes no more calls, and resolves when those in flight are done; what is not done in time is cut off. */
  close(options?: { readonly withinMs: number }): Promise<void>;
}

/** Listens for callers. Rejects with the system's error if the address cannot be listened on. */
export async function startService(options: ServiceServerOptions): Promise<ServiceServer> {
  const server = new RunningService(options);
  await server.listen();
  return server;
}

/** How long a client may take to say which version of HTTP it speaks, and for its headers. */
const HEADER_TIMEOUT_MS = 10_000;
/** For a whole call with its body. */
const REQUEST_TIMEOUT_MS = 30_000;
const IDLE_TIMEOUT_MS = 120_000;
/** How often both are looked at. */
const TIMEOUT_LOOK_MS = 1000;
/** The same for HTTP/2, where a look costs nothing of a call: it ends between the timeout and a look later. */
const HTTP2_LOOK_MS = REQUEST_TIMEOUT_MS;
const IDLE_LOOKS = IDLE_TIMEOUT_MS / HTTP2_LOOK_MS;
const MAX_HEADER_BYTES = 65_536;
const HTTP1_OPTIONS = {
  headersTimeout: HEADER_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: IDLE_TIMEOUT_MS,
  connectionsCheckingInterval: TIMEOUT_LOOK_MS,
  maxHeaderSize: MAX_HEADER_BYTES,
};

/** What serves connections: with TLS one server for both versions of HTTP, without it one for each. */
interface ServiceFront {
  readonly secureContext: TlsOptions | undefined;
  readonly take: (socket: Socket) => void;
  readonly useSecureContext: (options: TlsOptions) => void;
}

class RunningService implements ServiceServer {
  private readonly options: ServiceServerOptions;
  private readonly desk: ServiceDesk;
  private readonly grpc: ReturnType<typeof grpcServices>;
  private readonly listener: Server;
  private readonly connections = new ServiceConnections();
  private front: ServiceFront;
  private looking: NodeJS.Timeout | undefined;
  private closing = false;
  private opened = false;

  constructor(options: ServiceServerOptions) {
    const { snapshot, log, version, storeProblem, moved } = options;
    const answered = (endpoint: string, status: number): void =>
      moved.count('serviceCalls', endpoint, `${Math.floor(status / 100)}xx`);
    this.options = options;
    this.desk = new ServiceDesk({
      log,
      parts: () => ({ snapshot: snapshot(), version, storeProblem, draining: () => this.closing }),
      lastOfConnection: ({ socket }) => this.connections.isEnding(socket),
      answered,
    });
    this.grpc = grpcServices({
      snapshot,
      isServing: async () => !this.closing && (await storeProblem()) === undefined,
      answered,
      log,
    });
    this.front = this.makeFront(options.secureContext());
    this.listener = createServer({ noDelay: true }, (socket) => this.accept(socket));
    void this.openUp();
  }

  get address(): AddressInfo {
    const address = this.listener.address();
    if (address === null || typeof address === 'string') throw new Error('the service has no address');
    return address;
  }

  async listen(): Promise<void> {
    const { log, address } = this.options;
    const { host, port } = splitHostPort(address);
    await new Promise<void>((resolve, reject) => {
      this.listener.once('error', reject);
      this.listener.listen({ port, ...(host === '' ? {} : { host }) }, () => {
        this.listener.off('error', reject);
        // A connection that cannot be accepted (too many open files) must not end the process.
        this.listener.on('error', (err) => log.error({ err }, 'the service did not accept a connection'));
        resolve();
      });
    });
    this.looking = setInterval(() => this.connections.look(), HTTP2_LOOK_MS).unref();
    this.follow();
  }

  follow(): void {
    const { max_connections: maxConnections } = this.options.snapshot().config.service ?? {};
    if (maxConnections !== undefined) this.listener.maxConnections = maxConnections;
    const secureContext = this.options.secureContext();
    const { secureContext: before } = this.front;
    if (secureContext === before) return;
    // Another way to greet callers needs another server; new certificates of the same way do not.
    if (before !== undefined && secureContext !== undefined && sameGreeting(before, secureContext)) {
      this.front.useSecureContext(secureContext);
      this.front = { ...this.front, secureContext };
    } else this.front = this.makeFront(secureContext);
  }

  async close({ withinMs } = { withinMs: 0 }): Promise<void> {
    this.closing = true;
    clearInterval(this.looking);
    const closed = new Promise<void>((resolve) => {
      this.listener.close(() => resolve());
    });
    this.connections.endAll();
    const timer = setTimeout(() => this.connections.destroyAll(), withinMs);
    await closed;
    clearTimeout(timer);
  }

  private async openUp(): Promise<void> {
    await this.options.openedUp;
    this.opened = true;
  }

  private serveGrpc(request: CallRequest, response: CallResponse): void {
    const problem =
      this.desk.tokenProblem(request.headers, () => request.socket.remoteAddress) ??
      hostProblem(request.headers);
    if (problem === undefined) {
      if (isEndless(request.headers['grpc-timeout'])) delete request.headers['grpc-timeout'];
      this.grpc.serve(request, response);
      return;
    }
    const { status, headers } = grpcAnswer(problem.status, problem.message, []);
    request.resume();
    response.statusCode = status;
    for (const [name, value] of pairsOf(headers)) response.setHeader(name, value);
    // Nothing was sent so far: the status has to be in the only frame.
    response.end();
  }

  private serveStream(stream: ServiceStream, socket: Socket): void {
    const { headers } = stream.head;
    if (!this.opened || !this.grpc.takesStream(headers)) {
      const { request, response } = nodeCall(stream, socket);
      void this.serve(request, response);
      return;
    }
    const problem = this.desk.tokenProblem(headers, () => socket.remoteAddress);
    if (problem === undefined) this.grpc.serveStream(stream);
    else refuseStream(stream, problem);
  }

  private accept(socket: Socket): void {
    const { max_connection_age: maxAgeMs = 0 } = this.options.snapshot().config.service ?? {};
    this.connections.add(socket, maxAgeMs);
    this.front.take(socket);
  }

  private makeFront(secureContext: TlsOptions | undefined): ServiceFront {
    const http1 = createHttpServer(HTTP1_OPTIONS, (request, response) => void this.serve(request, response));
    // It looks at timeouts only if it believes that it has a port.
    http1.emit('listening');
    const serve = (socket: Socket, isHttp2: boolean): void => {
      if (isHttp2) this.serveHttp2(socket);
      else http1.emit('connection', socket);
    };
    if (secureContext === undefined) {
      return {
        secureContext,
        take: (socket) => sniff(socket, HEADER_TIMEOUT_MS, (isHttp2) => serve(socket, isHttp2)),
        useSecureContext: () => undefined,
      };
    }
    const tls = createTlsServer({ ...secureContext, ALPNProtocols: ['h2', 'http/1.1'] });
    tls.on('secureConnection', (socket: TLSSocket) => serve(socket, socket.alpnProtocol === 'h2'));
    const handshakes = new HandshakeFailureLog(this.options.log);
    tls.on('tlsClientError', (error: Error, socket: TLSSocket) => handshakes.failed(error, socket));
    return {
      secureContext,
      take: (socket) => void tls.emit('connection', socket),
      useSecureContext: (options) => tls.setSecureContext(options),
    };
  }

  private serveHttp2(socket: Socket): void {
    const connection = new FrameConnection(socket, {
      open: (stream) => this.serveStream(stream, socket),
      failed: (failure) => this.options.log.error({ err: failure }, 'a connection of the service failed'),
    });
    this.connections.speaksHttp2(socket, connection);
  }

  private async serve(request: CallRequest, response: CallResponse): Promise<void> {
    response.once('close', this.connections.began(request.socket));
    try {
      await this.options.openedUp;
      if (GRPC.test(request.headers['content-type'] ?? '')) this.serveGrpc(request, response);
      else await this.desk.serve(request, response);
    } catch (failure) {
      // Nobody else waits for this: one call must not end the process.
      this.options.log.error({ err: failure }, 'a call of the service failed');
      request.socket.destroy();
    }
  }
}

/** connect-node makes a URL of the host, and throws where that cannot be done. */
function hostProblem({ ':authority': authority, host }: CallRequest['headers']): ServiceProblem | undefined {
  const asked = authority ?? host;
  if (asked !== undefined && URL.canParse(`http://${String(asked)}`)) return undefined;
  const said = asked === undefined ? 'missing' : shown(asked);
  return new ServiceProblem('INVALID_REQUEST', `The host is ${said}; expected one such as "localhost:8081".`);
}

function refuseStream(stream: ServiceStream, problem: ServiceProblem): void {
  const { status, headers } = grpcAnswer(problem.status, problem.message, []);
  const pairs = pairsOf(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  // Nothing was sent so far: the status has to be in the only frame.
  stream.respond(encodeHeaders(pairs, status), true);
}

function pairsOf(headers: readonly string[]): readonly (readonly [string, string])[] {
  return headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? ''] as const] : []));
}

/** connect-node sets a timer for it. One for longer than timers can wait ends at once, and the process warns of it. */
function isEndless(timeout: string | string[] | undefined): boolean {
  const match = /^(\d{1,8})([HMS])$/.exec(String(timeout));
  if (match === null) return false;
  return Number(match[1]) * (SECONDS.get(match[2] ?? '') ?? 0) > MAX_TIMER_S;
}

const SECONDS: ReadonlyMap<string, number> = new Map([
  ['H', 3600],
  ['M', 60],
  ['S', 1],
]);
const MAX_TIMER_S = 86_400;

const GRPC = /^application\/grpc(?:$|[+; \t])/i;

function sameGreeting(one: TlsOptions, other: TlsOptions): boolean {
  return (
    one.requestCert === other.requestCert &&
    one.rejectUnauthorized === other.rejectUnauthorized &&
    one.minVersion === other.minVersion
  );
}

/** A connection past its age may finish what it has begun, for so long. */
const AGE_GRACE_MS = 10_000;

interface ServiceConnection {
  readonly socket: Socket;
  session: FrameConnection | undefined;
  /** Calls in flight. */
  calls: number;
  /** The next answer is its last. */
  ending: boolean;
  /** How often in a row nothing had happened on it. */
  idleLooks: number;
}

/** What TLS and HTTP/2 wrap around a socket still knows these two. */
export interface SocketEnds {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** The open connections of the service: how old they are, and how they end without cutting off a call. */
class ServiceConnections {
  private readonly open = new Map<string, ServiceConnection>();

  /** `maxAgeMs`: 0 is forever. */
  add(socket: Socket, maxAgeMs: number): void {
    const connection: ServiceConnection = {
      socket,
      session: undefined,
      calls: 0,
      ending: false,
      idleLooks: 0,
    };
    const id = idOf(socket);
    this.open.set(id, connection);
    const timers: NodeJS.Timeout[] = [];
    if (maxAgeMs > 0) {
      timers.push(setTimeout(() => end(connection), maxAgeMs).unref());
      timers.push(setTimeout(() => socket.destroy(), maxAgeMs + AGE_GRACE_MS).unref());
    }
    socket.once('close', () => {
      for (const timer of timers) clearTimeout(timer);
      this.open.delete(id);
    });
    // 'close' follows.
    socket.on('error', () => undefined);
  }

  speaksHttp2(socket: SocketEnds, session: FrameConnection): void {
    const connection = this.open.get(idOf(socket));
    if (connection === undefined) return;
    connection.session = session;
    if (connection.ending) session.close();
  }

  /** Until the returned function is called. */
  began(socket: SocketEnds): () => void {
    const connection = this.open.get(idOf(socket));
    if (connection === undefined) return () => undefined;
    connection.calls += 1;
    return () => {
      connection.calls -= 1;
      // HTTP/2 ends by itself, behind streams that nobody counts here.
      if (connection.ending && connection.calls === 0 && connection.session === undefined)
        connection.socket.end();
    };
  }

  isEnding(socket: SocketEnds): boolean {
    return this.open.get(idOf(socket))?.ending ?? true;
  }

  /** Ends those of HTTP/2 that nobody uses, and calls that do not arrive. */
  look(): void {
    for (const connection of this.open.values()) {
      const { session } = connection;
      if (session === undefined) continue;
      session.breakSlowCalls();
      connection.idleLooks = session.wasIdle() ? connection.idleLooks + 1 : 0;
      if (connection.idleLooks >= IDLE_LOOKS) end(connection);
    }
  }

  /** All of them, behind what is in flight. */
  endAll(): void {
    for (const connection of this.open.values()) end(connection);
  }

  destroyAll(): void {
    for (const { socket } of this.open.values()) socket.destroy();
  }
}

function end(connection: ServiceConnection): void {
  connection.ending = true;
  // HTTP/2 says so with a GOAWAY, and closes behind its last stream.
  if (connection.session !== undefined) connection.session.close();
  else if (connection.calls === 0) connection.socket.end();
}

function idOf({ remoteAddress = '', remotePort = 0 }: SocketEnds): string {
  return `${remoteAddress} ${remotePort}`;
}
