// The seam between whoever forwards a request and the pools of connections to servers.
import type { Readable } from 'node:stream';

/** What is sent to a server. */
export interface UpstreamRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** Names and values by turns. How the body is framed and what becomes of the connection is the pool's business. */
  readonly headers: readonly string[];
  readonly body: Readable | undefined;
  /** How long the head of the answer may take. 0: no limit. */
  readonly headersTimeoutMs: number;
  /** How long the body of the answer may be silent. 0: no limit. */
  readonly bodyTimeoutMs: number;
}

/** What can still be done about a request. Once it has ended, nothing happens. */
export interface RequestControl {
  /** Ends it; the handler hears the reason. */
  abort(reason: Error): void;
  /** After a handler answered false: it wants more. */
  resume(): void;
}

/** Who hears what a server answers: `onComplete` or `onError` is the last call. What a handler throws ends its own request only. */
export interface ResponseHandler {
  onConnect(control: RequestControl): void;
  /**
   * Also for each 1xx. Names and values by turns, as they were sent. False: wait for `resume` before more of the body comes; what has arrived
   * with the head may still come.
   */
  onHeaders(status: number, headers: readonly string[]): boolean;
  /** False: wait for `resume` before more comes. */
  onData(chunk: Buffer): boolean;
  onComplete(trailers: readonly string[]): void;
  onError(error: Error): void;
}

/** How long a server may be silent where a request does not say it itself. 0: no limit. */
export interface Silence {
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
}
