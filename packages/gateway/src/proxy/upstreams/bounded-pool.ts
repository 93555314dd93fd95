import { Pool, type Dispatcher } from 'undici';
import { failUnsent, UpstreamError } from './upstream-error.ts';

export interface BoundedPoolOptions {
  readonly pool: Pool.Options;
  readonly maxConnections: number;
  /** Requests that may wait for a connection. */
  readonly maxPending: number;
  /** What TLS verifies. Without it undici takes the Host header, and a client's choice would end connections. */
  readonly serverName: string | undefined;
}

/** HTTP/1.1 connections to one server: one request at a time on each, and a bounded queue before them. */
export class BoundedPool extends Pool {
  readonly #maxPending: number;
  readonly #maxUnderWay: number;
  readonly #serverName: string | undefined;
  readonly #origin: string;
  #busy = false;

  constructor(origin: string, { pool, maxConnections, maxPending, serverName }: BoundedPoolOptions) {
    super(origin, { ...pool, connections: maxConnections, pipelining: 1, allowH2: false });
    this.#origin = origin;
    this.#maxPending = maxPending;
    this.#maxUnderWay = maxConnections + maxPending;
    this.#serverName = serverName;
    this.on('drain', () => {
      this.#busy = false;
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // Counting them walks through all connections, so it is only done when none of them is free.
    if (this.#busy && this.stats.size >= this.#maxUnderWay) {
      const message = `${this.#origin} has no free connection, and ${this.#maxPending} requests wait for one`;
      failUnsent(handler, new UpstreamError('QUEUE_FULL', message));
      return false;
    }
    const named = this.#serverName === undefined ? options : { ...options, servername: this.#serverName };
    const free = super.dispatch(named, handler);
    this.#busy = !free;
    return free;
  }
}
