// undici's requests and handlers, as the pools here take them.
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { RequestControl, ResponseHandler, Silence, UpstreamRequest } from './upstream-request.ts';

type Controller = Dispatcher.DispatchController;
type Handler = Dispatcher.DispatchHandler;
type Options = Dispatcher.DispatchOptions;

export function requestOf(options: Options, { headersTimeoutMs, bodyTimeoutMs }: Silence): UpstreamRequest {
  return {
    method: options.method,
    path: options.path,
    headers: lines(options.headers),
    body: streamOf(options.body),
    headersTimeoutMs: options.headersTimeout ?? headersTimeoutMs,
    bodyTimeoutMs: options.bodyTimeout ?? bodyTimeoutMs,
  };
}

/** undici 7 has handlers of two styles, and makes those of the older one itself. */
export function handlerOf(handler: Handler): ResponseHandler {
  return handler.onRequestStart === undefined ? new OlderHandler(handler) : new NewerHandler(handler);
}

/* oxlint-disable typescript/no-deprecated -- undici 7 itself still makes handlers of the older style */
class OlderHandler implements ResponseHandler {
  readonly #handler: Handler;
  #control: RequestControl | undefined;

  constructor(handler: Handler) {
    this.#handler = handler;
  }

  onConnect(control: RequestControl): void {
    this.#control = control;
    this.#handler.onConnect?.((reason?: Error) =>
      control.abort(reason ?? new Error('The request was aborted.')),
    );
  }

  onHeaders(status: number, headers: readonly string[]): boolean {
    const raw = headers.map((part) => Buffer.from(part, 'latin1'));
    return this.#handler.onHeaders?.(status, raw, () => this.#control?.resume(), '') !== false;
  }

  onData(chunk: Buffer): boolean {
    return this.#handler.onData?.(chunk) !== false;
  }

  onComplete(trailers: readonly string[]): void {
    this.#handler.onComplete?.([...trailers]);
  }

  onError(error: Error): void {
    this.#handler.onError?.(error);
  }
}
/* oxlint-enable typescript/no-deprecated */

class NewerHandler implements ResponseHandler, Controller {
  readonly #handler: Handler;
  #control: RequestControl | undefined;
  #paused = false;
  #reason: Error | null = null;

  constructor(handler: Handler) {
    this.#handler = handler;
  }

  get aborted(): boolean {
    return this.#reason !== null;
  }

  get paused(): boolean {
    return this.#paused;
  }

  get reason(): Error | null {
    return this.#reason;
  }

  abort(reason: Error): void {
    this.#reason ??= reason;
    this.#control?.abort(reason);
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#control?.resume();
  }

  onConnect(control: RequestControl): void {
    this.#control = control;
    this.#handler.onRequestStart?.(this, {});
  }

  onHeaders(status: number, headers: readonly string[]): boolean {
    this.#handler.onResponseStart?.(this, status, fieldsOf(headers));
    return !this.#paused;
  }

  onData(chunk: Buffer): boolean {
    this.#handler.onResponseData?.(this, chunk);
    return !this.#paused;
  }

  onComplete(trailers: readonly string[]): void {
    this.#handler.onResponseEnd?.(this, fieldsOf(trailers));
  }

  onError(error: Error): void {
    this.#reason ??= error;
    this.#handler.onResponseError?.(this, error);
  }
}

/** By name in lower case; a name with several lines has a list. */
function fieldsOf(headers: readonly string[]): IncomingHttpHeaders {
  const fields = new Map<string, string | string[]>();
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] ?? '').toLowerCase();
    const value = headers[at + 1] ?? '';
    const before = fields.get(name);
    fields.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(fields);
}

/** undici takes headers in three forms: names and values by turns, an object, or pairs. */
function lines(headers: Options['headers']): string[] {
  if (headers === null || headers === undefined) return [];
  if (Array.isArray(headers)) return headers.map(String);
  const entries = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  return entries.flatMap(([name, value]) => [value ?? []].flat().flatMap((line) => [name, line]));
}

function streamOf(body: Options['body']): Readable | undefined {
  if (body === null || body === undefined) return undefined;
  return body instanceof Readable ? body : Readable.from([body], { objectMode: false });
}
