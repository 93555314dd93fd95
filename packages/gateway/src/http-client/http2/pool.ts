import { connect as openSession, constants, type ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Connector } from '../connect.ts';
import {
  errorOf,
  HttpClientError,
  poolClosed,
  type OutgoingRequest,
  type RequestPool,
  type ResponseHandler,
} from '../request.ts';
import { FairQueue, type ClientRequests } from '../fair-queue.ts';
import { Http2Call } from './call.ts';

export interface Http2PoolOptions {
  readonly connect: Connector;
  readonly maxConnections: number;
  /** Requests that may wait. Where one client may not have everything, it may have half of the places. */
  readonly maxPending: number;
  /** The part of all requests at a time that may be those of one client. Default: 1, all. */
  readonly sharePerClient?: number | undefined;
  readonly idleTimeoutMs: number;
  /** How long a server that was silent may take to show that it is there. Default: 5 s. */
  readonly pingTimeoutMs?: number | undefined;
  /** Gets the requests if TLS does not agree on HTTP/2. Left out: they fail. */
  readonly http1: RequestPool | undefined;
  readonly onConnect?: (() => void) | undefined;
  readonly onConnectError?: ((error: Error) => void) | undefined;
}

interface WaitingCall {
  readonly call: Http2Call;
  readonly request: OutgoingRequest;
  readonly handler: ResponseHandler;
  readonly requests: ClientRequests<WaitingCall>;
}

const MAX_STREAMS = 100;
/** More than all streams may hold unread: a slow client never stops the others on the same connection. */
const CONNECTION_WINDOW_BYTES = 8 * 2 ** 20;
const SETTINGS_TIMEOUT_MS = 5000;
const PING_TIMEOUT_MS = 5000;

/** HTTP/2 connections to one server, each with many requests at a time; a further one is opened when all are full. */
export class Http2Pool implements RequestPool {
  private readonly origin: string;
  private readonly options: Http2PoolOptions;
  private readonly opened = new Set<Http2ClientConnection>();
  private readonly waiting: FairQueue<WaitingCall>;
  /** What the server takes on one connection. */
  private maxStreams = MAX_STREAMS;
  private dialling = 0;
  private speaksHttp1 = false;
  private closed: Promise<void> | undefined;
  private whenIdle: (() => void) | undefined;
  private destroyed = false;

  constructor(origin: string, options: Http2PoolOptions) {
    this.origin = origin;
    this.options = options;
    this.waiting = new FairQueue(this.maxRunningPerClient());
  }

  send(request: OutgoingRequest, handler: ResponseHandler): void {
    const { http1 } = this.options;
    if (this.closed !== undefined) {
      handler.onError(poolClosed());
      return;
    }
    if (this.speaksHttp1 && http1 !== undefined) {
      http1.send(request, handler);
      return;
    }
    const requests = this.waiting.requestsOf(request.client);
    if (this.isFullFor(requests)) {
      const message = `${this.origin} has no free connection, and ${this.waiting.length} requests wait for one`;
      handler.onError(new HttpClientError('QUEUE_FULL', message));
      return;
    }
    const call = new Http2Call(this.origin, request, handler);
    this.waiting.push({ call, request, handler, requests }, requests);
    this.runWaiting();
  }

  private isFullFor({ waiting, running, maxRunning }: ClientRequests<WaitingCall>): boolean {
    const { maxPending } = this.options;
    if (running >= maxRunning) return waiting.length >= Math.ceil(maxPending / 2);
    if (this.free() !== undefined || this.mayDial()) return false;
    // Those that a connection on its way will take do not wait for another one to end.
    return this.waiting.length >= maxPending + this.dialling * this.maxStreams;
  }

  private maxRunningPerClient(): number {
    const { sharePerClient = 1, maxConnections } = this.options;
    return sharePerClient >= 1 ? Infinity : Math.ceil(sharePerClient * maxConnections * this.maxStreams);
  }

  close(): Promise<void> {
    this.closed ??= new Promise((resolve) => {
      this.whenIdle = resolve;
    });
    this.settle();
    return this.closed;
  }

  destroy(): Promise<void> {
    const closed = this.close();
    const error = poolClosed();
    this.destroyed = true;
    for (const { call } of this.waiting.takeAll()) call.fail(error);
    for (const connection of this.opened) connection.destroy(error);
    this.settle();
    return closed;
  }

  /** Connections that are open. */
  get connections(): number {
    return this.opened.size;
  }

  private free(): Http2ClientConnection | undefined {
    for (const connection of this.opened) if (connection.free) return connection;
    return undefined;
  }

  private mayDial(): boolean {
    return this.opened.size + this.dialling < this.options.maxConnections;
  }

  private dialForWaiting(): void {
    if (this.waiting.runnable() <= this.dialling * this.maxStreams || !this.mayDial()) return;
    this.dialling += 1;
    this.options.connect().then(
      (socket) => this.connected(socket),
      (failure: unknown) => this.notConnected(failure),
    );
  }

  private connected(socket: Socket): void {
    if (this.destroyed) {
      socket.destroy();
      return;
    }
    if (isTls(socket) && socket.alpnProtocol !== 'h2') {
      this.dialling -= 1;
      socket.destroy();
      this.useHttp1();
      return;
    }
    const session = openConnection(this.origin, socket);
    const timer = setTimeout(() => session.destroy(), SETTINGS_TIMEOUT_MS);
    const mute = (): void => {
      clearTimeout(timer);
      this.notConnected(new HttpClientError('NO_HTTP2', `${this.origin} does not speak HTTP/2`));
    };
    session.once('close', mute);
    // Before the server says how many requests it takes at a time, it may refuse what is too much.
    session.once('remoteSettings', () => {
      clearTimeout(timer);
      session.off('close', mute);
      this.use(session);
    });
  }

  private use(session: ClientHttp2Session): void {
    this.dialling -= 1;
    if (this.destroyed) {
      destroyLater(session);
      return;
    }
    const connection = new Http2ClientConnection(session, {
      idleTimeoutMs: this.options.idleTimeoutMs,
      pingTimeoutMs: this.options.pingTimeoutMs ?? PING_TIMEOUT_MS,
      onFree: () => this.runWaiting(),
      onSettings: (maxStreams) => this.learn(maxStreams),
      onClose: () => {
        this.opened.delete(connection);
        this.runWaiting();
      },
    });
    this.opened.add(connection);
    this.options.onConnect?.();
    this.learn(connection.maxStreams);
  }

  private learn(maxStreams: number): void {
    this.maxStreams = Math.max(1, maxStreams);
    this.waiting.limitTo(this.maxRunningPerClient());
    this.runWaiting();
  }

  /** Nobody waits for a server that cannot be reached: every request that does gets the reason. */
  private notConnected(failure: unknown): void {
    this.dialling -= 1;
    const error = errorOf(failure);
    this.options.onConnectError?.(error);
    if (this.dialling === 0 && this.opened.size === 0) {
      for (const { call } of this.waiting.takeAll()) call.fail(error);
    }
    this.settle();
  }

  private useHttp1(): void {
    const { http1 } = this.options;
    this.speaksHttp1 = http1 !== undefined;
    for (const { call, request, handler } of this.waiting.takeAll()) {
      if (http1 === undefined) {
        call.fail(new HttpClientError('NO_HTTP2', `${this.origin} does not speak HTTP/2`));
      } else {
        http1.send(request, handler);
      }
    }
    this.settle();
  }

  private runWaiting(): void {
    for (let connection = this.free(); connection !== undefined; connection = this.free()) {
      const next = this.waiting.next();
      if (next === undefined) break;
      connection.run(next.call, () => this.waiting.ended(next.requests));
    }
    this.dialForWaiting();
    this.settle();
  }

  /** Once closed: connections end as they become idle, and that is the end of the pool. */
  private settle(): void {
    const dialling = this.dialling > 0 && !this.destroyed;
    if (this.whenIdle === undefined || this.waiting.length > 0 || dialling) return;
    for (const connection of this.opened) connection.closeIfIdle();
    if (this.opened.size === 0) this.whenIdle();
  }
}

interface Http2ConnectionOptions {
  readonly idleTimeoutMs: number;
  readonly pingTimeoutMs: number;
  readonly onFree: () => void;
  readonly onSettings: (maxStreams: number) => void;
  readonly onClose: () => void;
}

class Http2ClientConnection {
  private readonly session: ClientHttp2Session;
  private readonly options: Http2ConnectionOptions;
  private readonly idle: NodeJS.Timeout;
  private streams = 0;
  private pinging = false;

  constructor(session: ClientHttp2Session, options: Http2ConnectionOptions) {
    this.session = session;
    this.options = options;
    this.idle = setTimeout(() => this.closeIfIdle(), options.idleTimeoutMs).unref();
    session.once('close', () => {
      clearTimeout(this.idle);
      options.onClose();
    });
    session.on('remoteSettings', () => options.onSettings(this.maxStreams));
  }

  get maxStreams(): number {
    return Math.min(MAX_STREAMS, this.session.remoteSettings.maxConcurrentStreams ?? MAX_STREAMS);
  }

  /** After GOAWAY the session is closed: streams in flight go on, new ones go elsewhere. */
  get free(): boolean {
    const { closed, destroyed } = this.session;
    return !closed && !destroyed && this.streams < this.maxStreams;
  }

  run(call: Http2Call, ended: () => void): void {
    this.streams += 1;
    call.run(this.session, {
      onEnd: () => {
        this.streams -= 1;
        ended();
        this.idle.refresh();
        this.options.onFree();
      },
      onSilence: () => this.ping(),
    });
  }

  closeIfIdle(): void {
    if (this.streams === 0 && !this.session.closed) this.session.close();
  }

  destroy(error: Error): void {
    destroyLater(this.session, error);
  }

  /** A request timed out: slow, or is nobody there any more? Without this, all requests would go on to time out. */
  private ping(): void {
    if (this.pinging || this.session.destroyed) return;
    this.pinging = true;
    const timer = setTimeout(() => this.session.destroy(), this.options.pingTimeoutMs).unref();
    this.session.ping(() => {
      clearTimeout(timer);
      this.pinging = false;
    });
  }
}

function openConnection(origin: string, socket: Socket): ClientHttp2Session {
  const session = openSession(origin, {
    createConnection: () => socket,
    peerMaxConcurrentStreams: MAX_STREAMS,
    settings: { enablePush: false },
  });
  session.once('connect', () => session.setLocalWindowSize(CONNECTION_WINDOW_BYTES));
  // Each stream hears of it too; without a listener it would end the process.
  session.on('error', () => {});
  return session;
}

/**
 * Not in the middle of what it reads: that corrupts the memory of the process (nodejs/node#65093). Requests in flight
 * hear of the error; the server, which did nothing wrong, does not.
 */
function destroyLater(session: ClientHttp2Session, error?: Error): void {
  setImmediate(() => session.destroy(error, constants.NGHTTP2_NO_ERROR));
}

function isTls(socket: Socket): socket is TLSSocket {
  return 'encrypted' in socket;
}
