import type { Socket } from 'node:net';
import { errors } from 'undici';
import { targetOf, type Connector, type Target } from '../connector.ts';
import { RequestPool } from '../request-pool.ts';
import { errorOf, UpstreamError } from '../upstream-error.ts';
import type { ResponseHandler, Silence, UpstreamRequest } from '../upstream-request.ts';
import { Http1Connection, type ConnectionOwner } from './connection.ts';
import { Http1Exchange, type ExchangeHolder } from './exchange.ts';
import { requestHead, type RequestHead } from './request-head.ts';

export interface Http1PoolOptions extends Silence {
  /** Its connections read as `READ_INTO_ONE_BUFFER` says. */
  readonly connect: Connector;
  readonly maxConnections: number;
  /** Requests that may wait for a connection. */
  readonly maxPending: number;
  /** How long an unused connection is kept. A server may ask for less (Keep-Alive: timeout), never for more. */
  readonly idleTimeoutMs: number;
  readonly onConnect: () => void;
  readonly onConnectError: (error: Error) => void;
}

/** HTTP/1.1 connections to one server: one request at a time on each, and a bounded queue before them. */
export class Http1Pool extends RequestPool implements ConnectionOwner, ExchangeHolder {
  private readonly origin: string;
  private readonly target: Target;
  private readonly options: Http1PoolOptions;
  private readonly connections = new Set<Http1Connection>();
  /** The one that was used last is last, and used next: the others may grow old. */
  private readonly free: Http1Connection[] = [];
  /** Their responses have just ended. */
  private resting: Http1Connection[] = [];
  private readonly waiting: Http1Exchange[] = [];
  private underWay = 0;
  private dialling = 0;
  private scheduled = false;
  private sweep: NodeJS.Timeout | undefined;
  private sweepAtMs = Infinity;
  private closed: Promise<void> | undefined;
  private whenIdle: (() => void) | undefined;
  private destroyed = false;

  constructor(origin: string, options: Http1PoolOptions) {
    super(options);
    this.origin = origin;
    this.target = targetOf(origin);
    this.options = options;
  }

  override send(request: UpstreamRequest, handler: ResponseHandler): void {
    const { maxConnections, maxPending } = this.options;
    if (this.closed !== undefined) {
      handler.onError(new errors.ClientClosedError());
      return;
    }
    if (this.underWay >= maxConnections + maxPending) {
      const message = `${this.origin} has no free connection, and ${maxPending} requests wait for one`;
      handler.onError(new UpstreamError('QUEUE_FULL', message));
      return;
    }
    let head: RequestHead;
    try {
      head = requestHead(request, this.target.host);
    } catch (failure) {
      handler.onError(errorOf(failure));
      return;
    }
    const exchange = new Http1Exchange(request, head, handler, this.ended);
    exchange.heldBy(this);
    this.underWay += 1;
    this.waiting.push(exchange);
    this.schedule();
    try {
      exchange.begin();
    } catch (failure) {
      this.abort(exchange, errorOf(failure));
    }
  }

  /** Of a request that waits. */
  abort(exchange: Http1Exchange, reason: Error): void {
    const at = this.waiting.indexOf(exchange);
    if (at !== -1) this.waiting.splice(at, 1);
    exchange.request.body?.destroy();
    exchange.fail(reason);
  }

  resume(): void {
    // Nothing has arrived that could be held back.
  }

  released(connection: Http1Connection): void {
    const idleMs = Math.min(this.options.idleTimeoutMs, connection.serverIdleMs);
    if (this.closed !== undefined || idleMs <= 0) {
      connection.destroy(new errors.ClientClosedError());
      return;
    }
    connection.idleUntilMs = performance.now() + idleMs;
    this.resting.push(connection);
    this.schedule();
  }

  lost(connection: Http1Connection): void {
    this.connections.delete(connection);
    if (!remove(this.free, connection)) remove(this.resting, connection);
    if (this.waiting.length > 0) this.schedule();
    this.settle();
  }

  protected override finish(): Promise<void> {
    this.closed ??= new Promise((resolve) => {
      this.whenIdle = resolve;
    });
    this.settle();
    return this.closed;
  }

  protected override fail(error: Error): void {
    this.destroyed = true;
    for (const exchange of this.waiting.splice(0)) this.abort(exchange, error);
    for (const connection of this.connections) connection.destroy(error);
    this.settle();
  }

  /**
   * Requests go out when all sockets that had something to say have been heard: a connection that ended, or on which more came than was asked
   * for, is then gone. For the same reason a connection rests for a whole turn of the event loop after each response.
   */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(this.turn);
  }

  private readonly turn = (): void => {
    this.scheduled = false;
    if (this.waiting.length > 0) this.runWaiting();
    if (this.resting.length > 0) this.endRest();
    if (this.waiting.length === 0) return;
    for (let missing = this.waiting.length - this.free.length - this.dialling; missing > 0; missing -= 1) {
      if (this.connections.size + this.dialling >= this.options.maxConnections) break;
      this.dial();
    }
    if (this.free.length > 0) this.schedule();
  };

  private runWaiting(): void {
    const nowMs = performance.now();
    for (let connection = this.free.pop(); connection !== undefined; connection = this.free.pop()) {
      if (connection.idleUntilMs <= nowMs) {
        connection.destroy(new errors.InformationalError('idle for too long'));
        continue;
      }
      const exchange = this.waiting.shift();
      if (exchange === undefined) {
        this.free.push(connection);
        return;
      }
      connection.run(exchange);
    }
  }

  private endRest(): void {
    const rested = this.resting;
    this.resting = [];
    for (const connection of rested) {
      this.free.push(connection);
      this.sweepBy(connection.idleUntilMs);
    }
  }

  private dial(): void {
    this.dialling += 1;
    this.options.connect(this.target, (failure, socket) => {
      this.dialling -= 1;
      if (failure === null) this.connected(socket);
      else this.notConnected(failure);
    });
  }

  private connected(socket: Socket): void {
    if (this.destroyed) {
      socket.on('error', ignore).destroy();
      return;
    }
    const connection = new Http1Connection(socket, this);
    this.connections.add(connection);
    this.options.onConnect();
    const exchange = this.waiting.shift();
    if (exchange === undefined) this.released(connection);
    else connection.run(exchange);
  }

  /** The request that waited for the longest time hears of it, unless another connection is on its way for it. */
  private notConnected(error: Error): void {
    this.options.onConnectError(error);
    if (this.waiting.length > this.dialling) {
      const [oldest] = this.waiting;
      if (oldest !== undefined) this.abort(oldest, error);
    }
    if (this.waiting.length > 0) this.schedule();
    this.settle();
  }

  private readonly ended = (): void => {
    this.underWay -= 1;
    if (this.closed !== undefined) this.settle();
  };

  /** Once closed: connections end when nothing is under way, and that is the end of the pool. */
  private settle(): void {
    if (this.whenIdle === undefined || this.underWay > 0) return;
    clearTimeout(this.sweep);
    const over = new errors.ClientClosedError();
    for (const connection of [...this.free, ...this.resting]) connection.destroy(over);
    if (this.connections.size === 0) this.whenIdle();
  }

  private sweepBy(atMs: number): void {
    if (atMs >= this.sweepAtMs || this.closed !== undefined) return;
    clearTimeout(this.sweep);
    this.sweepAtMs = atMs;
    this.sweep = setTimeout(this.sweepNow, Math.max(1, atMs - performance.now())).unref();
  }

  private readonly sweepNow = (): void => {
    const nowMs = performance.now();
    this.sweepAtMs = Infinity;
    const old = this.free.filter(({ idleUntilMs }) => idleUntilMs <= nowMs);
    for (const connection of old) connection.destroy(new errors.InformationalError('idle for too long'));
    const next = this.free.reduce((least, { idleUntilMs }) => Math.min(least, idleUntilMs), Infinity);
    if (next < Infinity) this.sweepBy(next);
  };
}

function remove(list: Http1Connection[], connection: Http1Connection): boolean {
  const at = list.indexOf(connection);
  if (at !== -1) list.splice(at, 1);
  return at !== -1;
}

function ignore(): void {
  // The socket is not used; without a listener its errors would end the process.
}
