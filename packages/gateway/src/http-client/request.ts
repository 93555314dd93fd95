// The interface between the senders of requests and the connection pools.
import type { Readable } from 'node:stream';

/** What is sent to a server. */
export interface OutgoingRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** Names and values by turns. How the body is framed and what becomes of the connection is the pool's business. */
  readonly headers: readonly string[];
  readonly body: Readable | undefined;
  /** For whom it is sent: connections are shared fairly between clients. Left out: nobody in particular. */
  readonly client?: string | undefined;
  /** How long the head of the response may take. 0: no limit. */
  readonly headersTimeoutMs: number;
  /** How long the body of the response may be silent. 0: no limit. */
  readonly bodyTimeoutMs: number;
}

/** What can still be done about a request. Once it has ended, nothing happens. */
export interface RequestControl {
  /** Ends it; the handler hears the reason. */
  abort(reason: Error): void;
  /** After a handler returned false: it wants more. */
  resume(): void;
}

/**
 * Hears a server's response: `onComplete` or `onError` is the last call. What a handler throws ends its own request
 * only.
 */
export interface ResponseHandler {
  onConnect(control: RequestControl): void;
  /**
   * Also for each 1xx. Names and values by turns, as they were sent. False: wait for `resume` before more of the body
   * comes; what has arrived with the head may still come.
   */
  onHeaders(status: number, headers: readonly string[]): boolean;
  /** False: wait for `resume` before more comes. */
  onData(chunk: Buffer): boolean;
  onComplete(trailers: readonly string[]): void;
  onError(error: Error): void;
}

/** Connections to one server. */
export interface RequestPool {
  send(request: OutgoingRequest, handler: ResponseHandler): void;
  /** Takes no new requests; resolves when those in flight are done. May be called twice. */
  close(): Promise<void>;
  /** Fails the requests in flight, too. */
  destroy(): Promise<void>;
}

export type HttpClientErrorCode =
  // Surely not sent:
  /** As many requests wait for a connection as may. */
  | 'QUEUE_FULL'
  /** The name leads to an address that must not be dialled. */
  | 'ADDRESS_FORBIDDEN'
  /** The server was to speak HTTP/2 and does not. */
  | 'NO_HTTP2'
  | 'CONNECT_TIMEOUT'
  /** The pool takes no new requests, or gave up those in flight. */
  | 'POOL_CLOSED'
  // Perhaps sent:
  /** The connection ended before the response did. */
  | 'CONNECTION_LOST'
  | 'HEADERS_TIMEOUT'
  | 'BODY_TIMEOUT'
  /** What the server sent is not HTTP, or could be read in two ways. */
  | 'BAD_RESPONSE'
  /** What was to be sent is not HTTP; it was not sent, or not to its end. */
  | 'BAD_REQUEST';

/** Why a request got no response, where the system has no error of its own (`ECONNREFUSED`). */
export class HttpClientError extends Error {
  override readonly name = 'HttpClientError';
  readonly code: HttpClientErrorCode;

  constructor(code: HttpClientErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export function poolClosed(): HttpClientError {
  return new HttpClientError('POOL_CLOSED', 'The pool of connections is closed.');
}

export function errorOf(failure: unknown): Error {
  return failure instanceof Error ? failure : new Error(String(failure));
}
