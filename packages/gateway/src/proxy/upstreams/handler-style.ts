import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';

type Controller = Dispatcher.DispatchController;
type Handler = Dispatcher.DispatchHandler;

/** A handler in undici's newer style, whichever it was written in. undici's own wrapper breaks headers with several lines. */
export function inNewStyle(handler: Handler): Handler {
  return handler.onRequestStart === undefined ? new OlderHandler(handler) : handler;
}

/* oxlint-disable typescript/no-deprecated -- undici 7 itself still makes handlers of the older style */
class OlderHandler implements Handler {
  readonly #handler: Handler;

  constructor(handler: Handler) {
    this.#handler = handler;
  }

  onRequestStart(controller: Controller): void {
    this.#handler.onConnect?.((reason?: Error) =>
      controller.abort(reason ?? new Error('The request was aborted.')),
    );
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders): void {
    const goOn = this.#handler.onHeaders?.(status, rawHeaders(headers), () => controller.resume(), '');
    if (goOn === false) controller.pause();
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#handler.onData?.(chunk) === false) controller.pause();
  }

  onResponseEnd(_controller: Controller, trailers: IncomingHttpHeaders): void {
    this.#handler.onComplete?.(rawHeaders(trailers).map((part) => part.toString('latin1')));
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.#handler.onError?.(error);
  }
}
/* oxlint-enable typescript/no-deprecated */

/** Bytes of names and values by turns, a pair for each line. */
function rawHeaders(headers: IncomingHttpHeaders): Buffer[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((line) => [Buffer.from(name, 'latin1'), Buffer.from(line, 'latin1')]),
  );
}
