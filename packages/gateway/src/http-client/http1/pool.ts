import type { Socket } from 'node:net';
import { targetOf, type Connector } from '../connect.ts';
import {
  errorOf,
  HttpClientError,
  poolClosed,
  type OutgoingRequest,
  type RequestPool,
  type ResponseHandler,
} from '../request.ts';
import { FairQueue, type ClientRequests } from '../fair-queue.ts';
import { Http1Call, Http1ClientConnection, type CallOwner, type ConnectionOwner } from './connection.ts';
import { requestHead, type OutgoingHead } from './write-request.ts';

export interface Http1PoolOptions {
  /** Its connections read as `READ_INTO_ONE_BUFFER` says. */
  readonly connect: Connector;
  readonly maxConnections: number;
  /** Of them, those that may be busy with requests of one client. Default: all. */
  readonly maxConnectionsPerClient?: number | undefined;
  /** Requests that may wait for a connection. Where connections are shared, one client may have half of the places. */
  readonly maxPending: number;
  /** How long an unused connection is kept. A server may ask for less (Keep-Alive: timeout), never for more. */
  readonly idleTimeoutMs: number;
  /**
   * A request without an answer for so long makes connections suspect that were unused since before it. Default: 1 s.
   */
  readonly suspectAfterMs?: number | undefined;
  readonly onConnect?: (() => void) | undefined;
  readonly onConnectError?: ((error: Error) => void) | undefined;
}

const SUSPECT_AFTER_MS = 1000;

/** HTTP/1.1 connections to one server: one request at a time on each, and a bounded queue before them. */
export class Http1Pool implements RequestPool, ConnectionOwner, CallOwner {
  private readonly origin: string;
  private readonly host: string;
  private readonly options: Http1PoolOptions;
  private readonly connections = new Set<Http1ClientConnection>();
  /** The one that was used last is last, and used next: the others may grow old. */
  private readonly free: Http1ClientConnection[] = [];
  /** Their responses have just ended. */
  private resting: Http1ClientConnection[] = [];
  private readonly waiting: FairQueue<Http1Call>;
  private underWay = 0;
  private dialling = 0;
  private scheduled = false;
  private sweep: NodeJS.Timeout | undefined;
  private sweepAtMs = Infinity;
  private closed: Promise<void> | undefined;
  private whenIdle: (() => void) | undefined;
  private destroyed = false;

  constructor(origin: string, options: Http1PoolOptions) {
    this.origin = origin;
    this.host = targetOf(origin).host;
    this.options = options;
    this.waiting = new FairQueue(options.maxConnectionsPerClient ?? Infinity);
  }

  send(request: OutgoingRequest, handler: ResponseHandler): void {
    const requests = this.waiting.requestsOf(request.client);
    if (this.closed !== undefined) {
      handler.onError(poolClosed());
      return;
    }
    if (this.isFullFor(requests)) {
      const message = `${this.origin} has no free connection, and ${this.waiting.length} requests wait for one`;
      handler.onError(new HttpClientError('QUEUE_FULL', message));
      return;
    }
    let head: OutgoingHead;
    try {
      head = requestHead(request, this.host);
    } catch (failure) {
      handler.onError(errorOf(failure));
      return;
    }
    const call = new Http1Call(request, head, handler, this);
    call.heldBy(this);
    this.underWay += 1;
    this.waiting.push(call, requests);
    this.schedule();
    try {
      call.begin();
    } catch (failure) {
      this.abort(call, errorOf(failure));
    }
  }

  /** Of a request that waits. */
  abort(call: Http1Call, reason: Error): void {
    this.waiting.remove(call, this.waiting.requestsOf(call.request.client));
    call.request.body?.destroy();
    call.fail(reason);
  }

  resume(): void {
    // Nothing has arrived that could be held back.
  }

  released(connection: Http1ClientConnection): void {
    const idleMs = Math.min(this.options.idleTimeoutMs, connection.serverIdleMs);
    if (this.closed !== undefined || idleMs <= 0) {
      connection.destroy(poolClosed());
      return;
    }
    connection.idleSinceMs = performance.now();
    connection.idleUntilMs = connection.idleSinceMs + idleMs;
    this.resting.push(connection);
    this.schedule();
  }

  lost(connection: Http1ClientConnection): void {
    this.connections.delete(connection);
    if (!remove(this.free, connection)) remove(this.resting, connection);
    if (this.waiting.length > 0) this.schedule();
    this.settle();
  }

  /**
   * Perhaps nobody is at the other end any more, and no packet says so: otherwise each of them would cost a request its
   * time.
   */
  unanswered(sentAtMs: number): void {
    if (performance.now() - sentAtMs < (this.options.suspectAfterMs ?? SUSPECT_AFTER_MS)) return;
    for (const connection of this.free.filter(({ idleSinceMs }) => idleSinceMs < sentAtMs)) {
      connection.destroy(new HttpClientError('CONNECTION_LOST', 'The server may be gone.'));
    }
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
    for (const call of this.waiting.takeAll()) this.abort(call, error);
    for (const connection of this.connections) connection.destroy(error);
    this.settle();
    return closed;
  }

  /**
   * Requests go out when all sockets that had something to say have been heard: a connection that ended, or on which
   * more came than was asked for, is then gone. For the same reason a connection rests for a whole turn of the event
   * loop after each response.
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
    if (this.waiting.first() === undefined) return;
    const missing = this.waiting.runnable() - this.free.length - this.dialling;
    const places = this.options.maxConnections - this.connections.size - this.dialling;
    for (let count = Math.min(missing, places); count > 0; count -= 1) this.dial();
    if (this.free.length > 0) this.schedule();
  };

  private runWaiting(): void {
    const nowMs = performance.now();
    for (let connection = this.free.pop(); connection !== undefined; connection = this.free.pop()) {
      if (connection.idleUntilMs <= nowMs) {
        connection.destroy(idleForTooLong());
        continue;
      }
      const call = this.waiting.next();
      if (call === undefined) {
        this.free.push(connection);
        return;
      }
      connection.run(call);
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
    this.options.connect().then(
      (socket) => this.connected(socket),
      (failure: unknown) => this.notConnected(errorOf(failure)),
    );
  }

  private connected(socket: Socket): void {
    this.dialling -= 1;
    if (this.destroyed) {
      socket.on('error', ignore).destroy();
      return;
    }
    const connection = new Http1ClientConnection(socket, this);
    this.connections.add(connection);
    this.options.onConnect?.();
    const call = this.waiting.next();
    if (call === undefined) this.released(connection);
    else connection.run(call);
  }

  /** The request whose turn it is hears of it, unless another connection is on its way for it. */
  private notConnected(error: Error): void {
    this.dialling -= 1;
    this.options.onConnectError?.(error);
    if (this.waiting.runnable() > this.dialling) {
      const next = this.waiting.first();
      if (next !== undefined) this.abort(next, error);
    }
    if (this.waiting.length > 0) this.schedule();
    this.settle();
  }

  ended(call: Http1Call, wasRunning: boolean): void {
    this.underWay -= 1;
    if (wasRunning) this.waiting.ended(this.waiting.requestsOf(call.request.client));
    if (this.closed !== undefined) this.settle();
  }

  private isFullFor({ waiting, running, maxRunning }: ClientRequests<Http1Call>): boolean {
    const { maxConnections, maxPending } = this.options;
    const places = maxConnections + maxPending;
    if (this.underWay >= places) return true;
    return maxRunning < maxConnections && waiting.length + running >= Math.ceil(places / 2);
  }

  /** Once closed: connections end when nothing is in flight, and that is the end of the pool. */
  private settle(): void {
    if (this.whenIdle === undefined || this.underWay > 0) return;
    clearTimeout(this.sweep);
    const over = poolClosed();
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
    for (const connection of old) connection.destroy(idleForTooLong());
    const next = this.free.reduce((least, { idleUntilMs }) => Math.min(least, idleUntilMs), Infinity);
    if (next < Infinity) this.sweepBy(next);
  };
}

function remove(list: Http1ClientConnection[], connection: Http1ClientConnection): boolean {
  const at = list.indexOf(connection);
  if (at !== -1) list.splice(at, 1);
  return at !== -1;
}

function idleForTooLong(): HttpClientError {
  return new HttpClientError('CONNECTION_LOST', 'The connection was idle for too long.');
}

function ignore(): void {
  // The socket is not used; without a listener its errors would end the process.
}
