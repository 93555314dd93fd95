/**
 * `QUEUE_FULL`: as many requests wait for a connection as may (503). `ADDRESS_FORBIDDEN`: the name leads to an address that is not allowed
 * (502). `NO_HTTP2`: the server was to speak HTTP/2 and does not (502). These three were surely not sent. `BAD_RESPONSE`: what the server sent
 * is not HTTP, or could be read in two ways (502). `BAD_REQUEST`: what was to be sent is not HTTP; it was not sent, or not to its end (502).
 */
export type UpstreamErrorCode =
  | 'QUEUE_FULL'
  | 'ADDRESS_FORBIDDEN'
  | 'NO_HTTP2'
  | 'BAD_RESPONSE'
  | 'BAD_REQUEST';

/** Why an upstream did not serve a request, where undici has no error of its own. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code: UpstreamErrorCode;

  constructor(code: UpstreamErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

export function errorOf(failure: unknown): Error {
  return failure instanceof Error ? failure : new Error(String(failure));
}
