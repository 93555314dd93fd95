// Pools of connections, and somebody who sends requests through them.
import type { Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { createConnector, targetOf } from '../../src/http-client/connect.ts';
import { fetchWhole, type WholeRequest } from '../../src/http-client/fetch-whole.ts';
import { READ_INTO_ONE_BUFFER } from '../../src/http-client/http1/connection.ts';
import { Http1Pool, type Http1PoolOptions } from '../../src/http-client/http1/pool.ts';
import { Http2Pool, type Http2PoolOptions } from '../../src/http-client/http2/pool.ts';
import type {
  OutgoingRequest,
  RequestControl,
  RequestPool,
  ResponseHandler,
} from '../../src/http-client/request.ts';

import { startRawOrigin } from '../proxy/raw-origin.ts';

export interface CountingPool extends Http1Pool {
  readonly dials: { times: number; errors: Error[] };
}

export function poolTo(origin: string, options: Partial<Http1PoolOptions> = {}): CountingPool {
  const dials = { times: 0, errors: [] as Error[] };
  const pool = new Http1Pool(origin, {
    connect: createConnector(targetOf(origin), {
      tls: {},
      timeoutMs: 2000,
      http2: false,
      onread: READ_INTO_ONE_BUFFER,
    }),
    maxConnections: 4,
    maxPending: 100,
    idleTimeoutMs: 60_000,
    onConnect: () => (dials.times += 1),
    onConnectError: (error) => dials.errors.push(error),
    ...options,
  });
  onTestFinished(async () => pool.destroy());
  return Object.assign(pool, { dials });
}

export function http2PoolTo(origin: string, options: Partial<Http2PoolOptions> = {}): Http2Pool {
  const pool = new Http2Pool(origin, {
    connect: createConnector(targetOf(origin), { tls: {}, timeoutMs: 2000, http2: true }),
    maxConnections: 4,
    maxPending: 100,
    idleTimeoutMs: 60_000,
    http1: undefined,
    ...options,
  });
  onTestFinished(async () => pool.destroy());
  return pool;
}

/** The body of an answer to a GET. */
export async function textOf(
  pool: RequestPool,
  path = '/',
  request: Partial<WholeRequest> = {},
): Promise<string> {
  const { body } = await fetchWhole(pool, { method: 'GET', path, ...request });
  return body.toString();
}

export const GET: OutgoingRequest = {
  method: 'GET',
  path: '/',
  headers: [],
  body: undefined,
  headersTimeoutMs: 0,
  bodyTimeoutMs: 0,
};

/** Hears one answer, and keeps everything. */
export class Asker implements ResponseHandler {
  control: RequestControl | undefined;
  readonly informational: number[] = [];
  status = 0;
  headers: readonly string[] = [];
  body = '';
  bytes = 0;
  trailers: readonly string[] = [];
  error: (Error & { code?: string }) | undefined;
  complete = false;
  /** How often the last call came. */
  ends = 0;
  readonly done: Promise<this>;
  /** Reads only after `control.resume()`. */
  slow = false;
  private settle: () => void = () => undefined;

  constructor() {
    this.done = new Promise((resolve) => {
      this.settle = () => resolve(this);
    });
  }

  onConnect(control: RequestControl): void {
    this.control = control;
  }

  onHeaders(status: number, headers: readonly string[]): boolean {
    if (status < 200) {
      this.informational.push(status);
      return true;
    }
    this.status = status;
    this.headers = headers;
    return !this.slow;
  }

  onData(chunk: Buffer): boolean {
    this.bytes += chunk.length;
    if (this.bytes < 1_000_000) this.body += chunk.toString('latin1');
    return !this.slow;
  }

  onComplete(trailers: readonly string[]): void {
    this.trailers = trailers;
    this.complete = true;
    this.ends += 1;
    this.settle();
  }

  onError(error: Error): void {
    this.error = error;
    this.ends += 1;
    this.settle();
  }
}

export function send(pool: RequestPool, request: Partial<OutgoingRequest> = {}, asker = new Asker()): Asker {
  pool.send({ ...GET, ...request }, asker);
  return asker;
}

export async function ask(pool: RequestPool, request: Partial<OutgoingRequest> = {}): Promise<Asker> {
  return send(pool, request).done;
}

/** Answers when it is told to. */
export async function startHolding() {
  const held: { socket: Socket; path: string }[] = [];
  const origin = await startRawOrigin((socket, text) => {
    if (!text.endsWith('\r\n\r\n')) return;
    held.push({ socket, path: /(\/\S*) HTTP\/1\.1\r\n(?![^]*HTTP)/.exec(text)?.[1] ?? '' });
  });
  return { origin, held };
}
