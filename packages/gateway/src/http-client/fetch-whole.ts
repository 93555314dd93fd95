import { Readable } from 'node:stream';
import { createConnector, targetOf, type ConnectorOptions } from './connect.ts';
import { READ_INTO_ONE_BUFFER } from './http1/connection.ts';
import { Http1Pool } from './http1/pool.ts';
import type { RequestControl, RequestPool, ResponseHandler } from './request.ts';

export interface WholeRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** Names and values by turns. */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array | undefined;
  /**
   * How much of the body is wanted, by the status. 0: the request ends with the head of the response. Default: all of
   * it.
   */
  readonly maxBodyBytes?: (status: number) => number;
  /** Ends the request; what it gives as its reason is what is thrown. */
  readonly signal?: AbortSignal | undefined;
}

export interface WholeResponse {
  readonly status: number;
  /** Names and values by turns, as they were sent. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** There was more than `maxBodyBytes`; its connection was closed. */
  readonly truncated: boolean;
}

/** Sends a request and collects the response: for callers that need all of it in memory. */
export async function fetchWhole(pool: RequestPool, request: WholeRequest): Promise<WholeResponse> {
  const { method, path, headers = [], body, signal } = request;
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const collector = new Collector(request, { resolve, reject });
    pool.send(
      {
        method,
        path,
        headers:
          body === undefined ? headers : [...headers, 'content-length', String(Buffer.byteLength(body))],
        body: body === undefined ? undefined : Readable.from([body], { objectMode: false }),
        headersTimeoutMs: 0,
        bodyTimeoutMs: 0,
      },
      collector,
    );
  });
}

/** Less than servers usually keep a connection that nobody uses. */
const IDLE_TIMEOUT_MS = 4000;

export interface ServiceOptions extends Pick<
  ConnectorOptions,
  'tls' | 'timeoutMs' | 'refusesAddress' | 'resolve'
> {
  readonly maxConnections: number;
}

/** A service at one URL. */
export interface HttpService {
  /** Whoever is asked here may be asked twice: a server may close a connection just when it is used again. */
  fetch(request: Omit<WholeRequest, 'path'>): Promise<WholeResponse>;
  close(): Promise<void>;
}

/** Redirects are not followed: they would lead where nobody has checked. */
export function serviceAt(url: string, { maxConnections, ...dialling }: ServiceOptions): HttpService {
  const { origin, pathname, search } = new URL(url);
  const pool = new Http1Pool(origin, {
    connect: createConnector(targetOf(origin), { ...dialling, http2: false, onread: READ_INTO_ONE_BUFFER }),
    maxConnections,
    maxPending: maxConnections,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
  });
  return {
    fetch: async (request) => {
      let begun = false;
      const maxBodyBytes = (status: number): number => {
        begun = true;
        return request.maxBodyBytes?.(status) ?? Infinity;
      };
      const whole = { ...request, path: pathname + search, maxBodyBytes };
      return fetchWhole(pool, whole).catch(async (failure: unknown) => {
        if (begun || request.signal?.aborted === true || !isClosedConnection(failure)) throw failure;
        return fetchWhole(pool, whole);
      });
    },
    close: async () => pool.destroy(),
  };
}

const CLOSED_CONNECTION = ['CONNECTION_LOST', 'ECONNRESET', 'EPIPE'];

function isClosedConnection(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && CLOSED_CONNECTION.includes(String(failure.code));
}

/** The values of all header lines with this name, which is in lower case. */
export function headerLines(headers: readonly string[], name: string): readonly string[] {
  const values: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]?.toLowerCase() === name) values.push(headers[at + 1] ?? '');
  }
  return values;
}

interface WholeResponsePromise {
  readonly resolve: (response: WholeResponse) => void;
  readonly reject: (reason: unknown) => void;
}

class Collector implements ResponseHandler {
  private readonly request: WholeRequest;
  private readonly settle: WholeResponsePromise;
  private control: RequestControl | undefined;
  private status = 0;
  private headers: readonly string[] = [];
  private readonly chunks: Buffer[] = [];
  private wantedBytes = Infinity;

  constructor(request: WholeRequest, settle: WholeResponsePromise) {
    this.request = request;
    this.settle = settle;
    request.signal?.addEventListener('abort', this.giveUp, { once: true });
  }

  onConnect(control: RequestControl): void {
    this.control = control;
    if (this.request.signal?.aborted === true) this.giveUp();
  }

  onHeaders(status: number, headers: readonly string[]): boolean {
    if (status < 200) return true;
    this.status = status;
    this.headers = headers;
    this.wantedBytes = this.request.maxBodyBytes?.(status) ?? Infinity;
    if (this.wantedBytes === 0) this.end(false);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (chunk.length > this.wantedBytes) {
      this.chunks.push(chunk.subarray(0, this.wantedBytes));
      this.end(true);
      return false;
    }
    this.wantedBytes -= chunk.length;
    this.chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    this.resolve(false);
  }

  onError(error: Error): void {
    this.stopListening();
    this.settle.reject(error);
  }

  /** The rest is not wanted. */
  private end(truncated: boolean): void {
    this.resolve(truncated);
    this.control?.abort(new Error('The rest of the response is not wanted.'));
  }

  private resolve(truncated: boolean): void {
    this.stopListening();
    const { status, headers, chunks } = this;
    this.settle.resolve({ status, headers, body: Buffer.concat(chunks), truncated });
  }

  private readonly giveUp = (): void => {
    this.settle.reject(this.request.signal?.reason);
    this.control?.abort(new Error('The request was given up.'));
  };

  private stopListening(): void {
    this.request.signal?.removeEventListener('abort', this.giveUp);
  }
}
