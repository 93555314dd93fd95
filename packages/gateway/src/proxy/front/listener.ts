import { createServer as createHttpServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import { createServer as createHttpsServer, Server as HttpsServer } from 'node:https';
import { Server as NetServer, type Socket } from 'node:net';
import type { TlsOptions, TLSSocket } from 'node:tls';
import type { Config } from '../../config/config.ts';
import type { ProxyContext } from '../context.ts';
import { answerConnect, answerParseError } from './broken-request.ts';
import { ClientMessage } from './http1-message.ts';
import { Http1Connection } from './http1-connection.ts';
import { Http2Connection } from './http2-connection.ts';
import { sniff } from './sniff.ts';
import { serveUpgrade } from './upgrade.ts';

/** How often timeouts of headers and of idle connections are looked at. */
const SWEEP_MS = 1000;
/** At shutdown, a connection that is silent for so long is hardly about to send. */
const SURELY_IDLE_MS = 1000;

type Connection = Http1Connection | Http2Connection;

/** The port that clients connect to: both versions of HTTP, with or without TLS. */
export class Listener {
  readonly server: Server;
  private readonly http2: Http2Server | undefined;
  private readonly context: ProxyContext;
  private readonly connections = new Map<Socket, Connection | undefined>();
  private readonly serveHttp1: (socket: Socket) => void;
  private readonly scheme: 'http' | 'https';
  private readonly sweep: NodeJS.Timeout;
  private drainingSince = Infinity;
  /** Connections so far. */
  accepted = 0;

  constructor(context: ProxyContext, secureContext: TlsOptions | undefined) {
    const { config } = context.live();
    this.context = context;
    this.scheme = secureContext === undefined ? 'http' : 'https';
    this.http2 = config.server.http2 ? this.makeHttp2(config) : undefined;
    this.server = this.makeServer(config, secureContext);
    const event = secureContext === undefined ? 'connection' : 'secureConnection';
    // The server stays the listener, because only so its checks of timeouts run; but we say which connections it gets.
    const [serve] = this.server.listeners(event);
    this.serveHttp1 = (socket) => {
      serve?.call(this.server, socket);
    };
    this.server.removeAllListeners(event);
    this.server.on(event, (socket: Socket) => this.accept(socket));
    this.sweep = setInterval(() => this.closeIdle(), SWEEP_MS).unref();
  }

  async listen({ host, port }: { readonly host: string | undefined; readonly port: number }): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ host, port }, () => {
        this.server.off('error', reject);
        // A connection that cannot be accepted (too many open files) must not end the process.
        this.server.on('error', (error) =>
          this.context.log.error({ err: error }, 'a connection was not accepted'),
        );
        resolve();
      });
    });
  }

  useSecureContext(options: TlsOptions): void {
    if (this.server instanceof HttpsServer) this.server.setSecureContext(options);
  }

  stopAccepting(): void {
    // Not the HTTP server's own close(): that cuts idle connections and stops looking at timeouts.
    if (this.server.listening) NetServer.prototype.close.call(this.server);
  }

  /**
   * Closes everything after its next answer, and what gets no request any more. A connection that has been idle for long is not closed at
   * once: clients turn to their spare connections in the very moment in which they are told not to use the others again.
   */
  drain(): void {
    this.drainingSince = performance.now();
    for (const connection of this.connections.values()) {
      if (connection instanceof Http2Connection) connection.drain();
    }
    setTimeout(() => this.closeIdle(), SURELY_IDLE_MS + 1);
  }

  get size(): number {
    return this.connections.size;
  }

  destroy(): void {
    clearInterval(this.sweep);
    for (const socket of this.connections.keys()) socket.destroy();
    this.server.close();
  }

  private makeServer(config: Config, secureContext: TlsOptions | undefined): Server {
    const { max_header_bytes, max_uri_bytes, header_timeout, idle_timeout } = config.server;
    const options = {
      IncomingMessage: ClientMessage,
      // The request line counts too; what is exactly too much we say ourselves.
      maxHeaderSize: max_header_bytes + max_uri_bytes + 1024,
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
            ALPNProtocols: config.server.http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
          });
    // Counts connections also before TLS has agreed on anything.
    server.maxConnections = config.server.max_connections;
    // 0 is no limit: headers beyond one would be dropped without a word, and nobody could refuse them.
    server.maxHeadersCount = 0;
    // A client that closed its sending side still gets its answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    const serve = (_request: unknown, response: ServerResponse): void =>
      this.http1(response)?.received(response);
    server.on('request', serve).on('checkContinue', serve).on('checkExpectation', serve);
    server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      answerParseError(error, { socket, connection: this.http1Of(socket), context: this.context }),
    );
    server.on('connect', (request, socket) => answerConnect(request, { socket, context: this.context }));
    server.on('upgrade', (request, socket, head) => {
      const connection = this.http1Of(socket);
      const busy = connection?.busy === true;
      connection?.handOver();
      serveUpgrade({ request, socket, head, scheme: this.scheme, busy }, this.context);
    });
    return server;
  }

  private makeHttp2(config: Config): Http2Server {
    const { max_header_bytes, max_uri_bytes, max_headers, max_streams_per_connection } = config.server;
    const server = createHttp2Server({
      settings: {
        maxConcurrentStreams: max_streams_per_connection,
        // Somewhat more than is allowed, so that the client hears what was wrong.
        maxHeaderListSize: 2 * (max_header_bytes + max_uri_bytes),
        enablePush: false,
      },
      maxHeaderListPairs: 2 * max_headers,
      maxSessionInvalidFrames: 100,
      maxSessionRejectedStreams: 100,
      maxOutstandingPings: 10,
      maxSettings: 32,
    });
    server.on('session', (session) => {
      const connection = new Http2Connection(session, this.scheme, this.context);
      const socket = this.pending;
      if (socket !== undefined) this.connections.set(socket, connection);
      if (this.context.draining) connection.drain();
    });
    return server;
  }

  /** The socket that is being handed to HTTP/2; its session is made before the call returns. */
  private pending: Socket | undefined;

  /** What a reload changed holds from the next connection on. */
  private accept(socket: Socket): void {
    this.accepted += 1;
    const { server: settings } = this.context.live().config;
    this.server.maxConnections = settings.max_connections;
    this.server.headersTimeout = settings.header_timeout;
    this.server.keepAliveTimeout = settings.idle_timeout;
    if (this.connections.size >= settings.max_connections) {
      socket.destroy();
      return;
    }
    this.connections.set(socket, undefined);
    this.context.traffic.connectionOpened();
    socket.once('close', () => {
      this.connections.delete(socket);
      this.context.traffic.connectionClosed();
    });
    if (this.scheme === 'https') this.hand(socket, alpnOf(socket) === 'h2');
    else if (this.http2 === undefined) this.hand(socket, false);
    else sniff(socket, settings.header_timeout, (http2) => this.hand(socket, http2));
  }

  private hand(socket: Socket, http2: boolean): void {
    if (http2) {
      this.pending = socket;
      this.http2?.emit('connection', socket);
      this.pending = undefined;
      return;
    }
    this.connections.set(socket, new Http1Connection(socket, this.scheme, this.context));
    this.serveHttp1(socket);
  }

  private http1(response: ServerResponse): Http1Connection | undefined {
    return this.http1Of(response.req.socket);
  }

  private http1Of(socket: unknown): Http1Connection | undefined {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only a key: what is no socket of ours is not found.
    const connection = this.connections.get(socket as Socket);
    return connection instanceof Http1Connection ? connection : undefined;
  }

  /** HTTP/1 closes its idle connections itself, except at shutdown. */
  private closeIdle(): void {
    const { idle_timeout, header_timeout } = this.context.live().config.server;
    const drained = performance.now() - this.drainingSince >= SURELY_IDLE_MS;
    for (const [socket, connection] of this.connections) {
      if (connection === undefined) {
        if (drained) socket.destroy();
        continue;
      }
      const idleMs = connection.idleMs();
      if (idleMs === undefined) continue;
      if (connection instanceof Http2Connection) {
        if (idleMs >= (connection.used ? idle_timeout : header_timeout)) connection.session.destroy();
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
