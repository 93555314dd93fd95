import type { Dispatcher } from 'undici';
import { inNewStyle } from './handler-style.ts';

/**
 * `QUEUE_FULL`: as many requests wait for a connection as may (503). `ADDRESS_FORBIDDEN`: the name leads to an address that is not allowed
 * (502). `NO_HTTP2`: the server was to speak HTTP/2 and does not (502).
 */
export type UpstreamErrorCode = 'QUEUE_FULL' | 'ADDRESS_FORBIDDEN' | 'NO_HTTP2';

/** Why an upstream did not get a request, where undici has no error of its own. It was surely not sent. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly code: UpstreamErrorCode;

  constructor(code: UpstreamErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Ends a request that was never sent. */
export function failUnsent(handler: Dispatcher.DispatchHandler, error: Error): void {
  inNewStyle(handler).onResponseError?.(new EndedController(error), error);
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
