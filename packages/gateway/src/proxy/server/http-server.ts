import { createServer as createHttpServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { TlsOptions, TLSSocket } from 'node:tls';
import type { Config } from '../../config/config.ts';
import type { ProxyContext } from '../context.ts';
import { answerConnect, answerParseError, Http1Connection } from './http1-connection.ts';
import { HandshakeFailureLog } from '../tls/server-tls.ts';
import { ClientMessage, Http1Head } from './http1-exchange.ts';
import { Http2Connection } from './http2-connection.ts';
import { sniff } from './detect-http2.ts';
import { UpgradeRequest } from '../upgrade-request.ts';

/** How often timeouts of headers and of idle connections are looked at. */
const SWEEP_MS = 1000;
/** How often it is looked at what HTTP/2 clients sent besides requests: in the meantime it is not bounded. */
const FRAME_SWEEP_MS = 100;
/** Before its end, a connection that is silent for so long is hardly about to send. */
const SURELY_IDLE_MS = 1000;

const LINE_END = 0x0a;

type Connection = Http1Connection | Http2Connection;

/** What a front is made with. Everything else that the configuration says about connections holds as it changes. */
export interface HttpServerSettings {
  readonly secure: boolean;
  readonly minVersion: string;
  /** Cipher suites and curves. */
  readonly ciphers: string;
  readonly clientAuth: string;
  readonly http2: boolean;
  readonly maxHeaderBytes: number;
  readonly maxUriBytes: number;
  readonly maxHeaders: number;
  readonly maxStreams: number;
}

export function httpServerSettings({ server }: Config, secure: boolean): HttpServerSettings {
  return {
    secure,
    minVersion: secure ? server.tls.min_version : '',
    ciphers: secure ? [...server.tls.cipher_suites, ...server.tls.curves].join(':') : '',
    clientAuth: secure ? server.tls.client_auth : '',
    http2: server.http2,
    maxHeaderBytes: server.max_header_bytes,
    maxUriBytes: server.max_uri_bytes,
    maxHeaders: server.max_headers,
    maxStreams: server.max_streams_per_connection,
  };
}

/** Serves the connections it is given: both versions of HTTP, with or without TLS. It has no port of its own. */
export class HttpServer {
  readonly settings: HttpServerSettings;
  private readonly server: Server;
  private readonly http2: Http2Server | undefined;
  private readonly context: ProxyContext;
  /** Before TLS, if there is any. */
  private readonly sockets = new Set<Socket>();
  private readonly connections = new Map<Socket, Connection | undefined>();
  private readonly sessions = new Set<Http2Connection>();
  private readonly serveHttp1: (socket: Socket) => void;
  private readonly scheme: 'http' | 'https';
  private readonly sweep: NodeJS.Timeout;
  private readonly frameSweep: NodeJS.Timeout;
  private drainingSince = Infinity;
  private emptied: (() => void) | undefined;

  /** Throws if TLS cannot be spoken like that. */
  constructor(context: ProxyContext, settings: HttpServerSettings, secureContext: TlsOptions | undefined) {
    this.settings = settings;
    this.context = context;
    this.scheme = secureContext === undefined ? 'http' : 'https';
    this.server = this.makeServer(secureContext);
    this.http2 = settings.http2 ? this.makeHttp2() : undefined;
    const event = secureContext === undefined ? 'connection' : 'secureConnection';
    // We say which connections it gets, and when.
    const [serve] = this.server.listeners(event);
    this.serveHttp1 = (socket) => {
      serve?.call(this.server, socket);
    };
    this.server.removeAllListeners(event);
    if (secureContext !== undefined) this.server.on(event, (socket: Socket) => this.established(socket));
    // It has no port, and looks at its timeouts only if it believes that it has one.
    this.server.emit('listening');
    this.sweep = setInterval(() => this.closeIdle(), SWEEP_MS).unref();
    this.frameSweep = setInterval(() => this.chargeFrames(), FRAME_SWEEP_MS).unref();
  }

  /** Serves a connection that has just been opened. */
  accept(socket: Socket): void {
    this.sockets.add(socket);
    socket.once('close', () => {
      this.sockets.delete(socket);
      if (this.sockets.size === 0) this.emptied?.();
    });
    if (this.scheme === 'http') {
      this.established(socket);
      return;
    }
    // The end of a TLS stream is the end of the connection.
    socket.allowHalfOpen = false;
    this.follow();
    this.server.emit('connection', socket);
  }

  useSecureContext(options: TlsOptions): void {
    if (this.server instanceof HttpsServer) this.server.setSecureContext(options);
  }

  /**
   * Closes everything after its next answer, and what gets no request any more. A connection that has been idle for
   * long is not closed at once: clients turn to their spare connections in the very moment in which they are told not
   * to use the others again.
   */
  async drain(): Promise<void> {
    this.context.draining = true;
    // What has arrived already is read first, so that no connection with a request in it counts as idle.
    await turn();
    this.drainingSince = performance.now();
    for (const connection of this.connections.values()) {
      if (connection instanceof Http2Connection) connection.drain();
    }
    setTimeout(() => this.closeIdle(), SURELY_IDLE_MS + 1).unref();
  }

  /** Drains for as long as it takes, and ends behind its last connection. */
  async retire(gone: () => void): Promise<void> {
    await this.drain();
    this.emptied = () => {
      this.destroy();
      gone();
    };
    if (this.sockets.size === 0) this.emptied();
  }

  get size(): number {
    return this.connections.size;
  }

  /** At once, whatever requests are in flight. */
  destroy(): void {
    clearInterval(this.sweep);
    clearInterval(this.frameSweep);
    for (const socket of this.connections.keys()) socket.destroy();
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }

  private makeServer(secureContext: TlsOptions | undefined): Server {
    const { maxHeaderBytes, maxUriBytes, http2 } = this.settings;
    const { header_timeout, idle_timeout } = this.context.snapshot().config.server;
    const options = {
      IncomingMessage: ClientMessage,
      // The request line counts too; what is exactly too much we say ourselves.
      maxHeaderSize: maxHeaderBytes + maxUriBytes + 1024,
      headersTimeout: header_timeout,
      // How long bodies may take is watched per request.
      requestTimeout: 0,
      keepAliveTimeout: idle_timeout,
      connectionsCheckingInterval: SWEEP_MS,
      insecureHTTPParser: false,
      requireHostHeader: false,
      noDelay: true,
    };
    const server =
      secureContext === undefined
        ? createHttpServer(options)
        : createHttpsServer({
            ...secureContext,
            ...options,
            handshakeTimeout: header_timeout,
            ALPNProtocols: http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
          });
    const handshakes = new HandshakeFailureLog(this.context.log);
    server.on('tlsClientError', (error: Error, socket: TLSSocket) => handshakes.failed(error, socket));
    // 0 means no limit: headers beyond one would be dropped silently, and could not be refused.
    server.maxHeadersCount = 0;
    // A client that closed its sending side still gets its answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    const serve = (_request: unknown, response: ServerResponse): void =>
      this.http1Of(response.req.socket)?.received(response);
    server.on('request', serve).on('checkContinue', serve).on('checkExpectation', serve);
    server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      answerParseError(error, { socket, connection: this.http1Of(socket), context: this.context }),
    );
    server.on('connect', (request, socket) =>
      answerConnect(request, { socket, connection: this.http1Of(socket), context: this.context }),
    );
    server.on('upgrade', (request, socket, head) => {
      const connection = this.http1Of(socket);
      // Nobody may ask for another protocol before the last answer came: bytes of both would mix.
      if (connection === undefined || connection.busy) {
        socket.destroy();
        return;
      }
      connection.handOver();
      const upgrade = { head: new Http1Head(request, this.scheme), socket, rest: head };
      new UpgradeRequest(upgrade, this.context).start();
    });
    return server;
  }

  private makeHttp2(): Http2Server {
    const { maxHeaderBytes, maxUriBytes, maxHeaders, maxStreams } = this.settings;
    const server = createHttp2Server({
      settings: {
        maxConcurrentStreams: maxStreams,
        // Somewhat more than is allowed, so that the client hears what was wrong.
        maxHeaderListSize: 2 * (maxHeaderBytes + maxUriBytes),
        enablePush: false,
      },
      maxHeaderListPairs: 2 * maxHeaders,
      maxSessionInvalidFrames: 100,
      maxSessionRejectedStreams: 100,
      maxOutstandingPings: 10,
      maxSettings: 32,
    });
    server.on('session', (session) => {
      const socket = this.pending;
      if (socket === undefined) return;
      const connection = new Http2Connection(session, {
        socket,
        scheme: this.scheme,
        context: this.context,
      });
      this.connections.set(socket, connection);
      this.sessions.add(connection);
      session.once('close', () => this.sessions.delete(connection));
    });
    return server;
  }

  /** The socket that is being handed to HTTP/2; its session is made before the call returns. */
  private pending: Socket | undefined;

  /** What a reload changed holds from the next connection on. */
  private follow(): Config['server'] {
    const { server: settings } = this.context.snapshot().config;
    this.server.headersTimeout = settings.header_timeout;
    this.server.keepAliveTimeout = settings.idle_timeout;
    return settings;
  }

  /** Behind TLS, if there is any. */
  private established(socket: Socket): void {
    const { header_timeout: timeoutMs } = this.follow();
    this.connections.set(socket, undefined);
    this.context.traffic.connectionOpened();
    socket.once('close', () => {
      this.connections.delete(socket);
      this.context.traffic.connectionClosed();
    });
    if (this.scheme === 'https') this.hand(socket, alpnOf(socket) === 'h2');
    else if (this.http2 === undefined) this.hand(socket, false);
    else sniff(socket, timeoutMs, (http2, seen) => this.hand(socket, http2, !seen.includes(LINE_END)));
  }

  /** `lineIsOpen`: it is known to begin with a request line that has not come to its end yet. */
  private hand(socket: Socket, http2: boolean, lineIsOpen = false): void {
    if (http2) {
      // Nothing is left of a client that sends no more frames: it could not even make room for what it is sent. Not at
      // once, see `drain`.
      socket.once('end', () => setImmediate(() => socket.destroy()));
      this.pending = socket;
      this.http2?.emit('connection', socket);
      this.pending = undefined;
      return;
    }
    const connection = new Http1Connection(socket, this.scheme, this.context);
    connection.lineIsOpen = lineIsOpen;
    this.connections.set(socket, connection);
    this.serveHttp1(socket);
  }

  private http1Of(socket: unknown): Http1Connection | undefined {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only a key: what is no socket of ours is not found.
    const connection = this.connections.get(socket as Socket);
    return connection instanceof Http1Connection ? connection : undefined;
  }

  /** Charges what HTTP/2 clients sent besides requests. */
  chargeFrames(): void {
    for (const session of this.sessions) session.chargeEmptyBytes();
  }

  /** HTTP/1 closes its idle connections itself, except while it drains. */
  private closeIdle(): void {
    const { idle_timeout, header_timeout } = this.context.snapshot().config.server;
    const drained = performance.now() - this.drainingSince >= SURELY_IDLE_MS;
    for (const [socket, connection] of this.connections) {
      if (connection === undefined) {
        if (drained) socket.destroy();
        continue;
      }
      if (connection instanceof Http1Connection) connection.chargeEmptyBytes();
      const idleMs = connection.idleMs();
      if (idleMs === undefined) continue;
      if (connection instanceof Http2Connection) {
        if (idleMs >= (connection.used ? idle_timeout : header_timeout)) connection.session.destroy();
        else if (drained && idleMs >= SURELY_IDLE_MS) connection.drain();
      } else if (connection.drips && idleMs >= header_timeout) {
        socket.destroy();
      } else if (drained && idleMs >= SURELY_IDLE_MS) {
        socket.end();
      }
    }
  }
}

function alpnOf(socket: Socket): string | false | null | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- called only for what 'secureConnection' brought.
  return (socket as TLSSocket).alpnProtocol;
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
