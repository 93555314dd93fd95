import type { Dispatcher } from 'undici';

/**
 * `QUEUE_FULL`: as many requests wait for a connection as may (503). `ADDRESS_FORBIDDEN`: the name leads to an address that is not allowed
 * (502). `NO_HTTP2`: the server was to speak HTTP/2 and does not (502). `STREAM_CLOSED`: it ended an HTTP/2 stream before the response was
 * complete (502). `HEADERS_TIMEOUT`, `BODY_TIMEOUT`: it was silent for too long (504). `CLOSED`: the pool was closed (503).
 */
export type UpstreamErrorCode =
  | 'QUEUE_FULL'
  | 'ADDRESS_FORBIDDEN'
  | 'NO_HTTP2'
  | 'STREAM_CLOSED'
  | 'HEADERS_TIMEOUT'
  | 'BODY_TIMEOUT'
  | 'CLOSED';

/** Why an upstream did not answer, where undici has no error of its own. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code: UpstreamErrorCode;
  /** The server surely did not begin with the request: it can be sent again, whatever its method. */
  readonly unprocessed: boolean;

  constructor(
    code: UpstreamErrorCode,
    message: string,
    { unprocessed = false, cause }: { readonly unprocessed?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.code = code;
    this.unprocessed = unprocessed;
  }
}

/** Ends a request that was never sent, for handlers of either style of undici. */
export function failUnsent(handler: Dispatcher.DispatchHandler, error: Error): void {
  if (handler.onResponseError !== undefined) {
    handler.onResponseError(new EndedController(error), error);
    return;
  }
  // oxlint-disable-next-line typescript/no-deprecated -- undici 7 itself still makes handlers of the older style
  handler.onError?.(error);
}

class EndedController implements Dispatcher.DispatchController {
  readonly aborted = true;
  readonly paused = false;
  readonly reason: Error;

  constructor(reason: Error) {
    this.reason = reason;
  }

  abort(): void {}
  pause(): void {}
  resume(): void {}
}
