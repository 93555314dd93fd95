// What everything built on the Request and Response of fetch has in common. It runs on edge runtimes, without Node.js.
import type { HttpAnswer } from '../http/answer.ts';
import type { HttpLimiter, HttpRequestFacts, HttpOutcome } from '../http/http-limiter.ts';
import { queryOf } from '../http/key-values.ts';
import { appendHeaders, writeHeaders, type HeaderBag } from '../http/place-headers.ts';
import type { HeaderPair } from '../http/rate-limit-headers.ts';
import type { RateLimitOptions } from '../http/rate-limit-options.ts';
import { CLIENT_CLOSED_REQUEST, type EndedResponse } from '../http/settle-response.ts';
import { startDelay } from '../http/delay.ts';

export interface FetchExchange {
  readonly request: Request;
  /** The address at the other end of the socket. Called once, and only if the address is needed; may throw. */
  readonly peer: () => string | undefined;
}

/**
 * What `HttpLimiter` decides. A client that has gone in the meantime, or while its request was held back, does not
 * pass.
 */
export async function checkExchange<Subject>(
  limiter: HttpLimiter<Subject>,
  subject: Subject,
  exchange: FetchExchange,
): Promise<HttpOutcome> {
  const { signal } = exchange.request;
  let outcome;
  try {
    outcome = await limiter.check(subject, factsOf(exchange));
  } catch (error) {
    if (signal.aborted) return GONE;
    throw error;
  }
  if (!outcome.passes) return signal.aborted ? GONE : outcome;
  if (!signal.aborted && (outcome.delayMs === 0 || (await holdBack(signal, outcome.delayMs)))) return outcome;
  outcome.onEnd?.(undefined);
  return GONE;
}

/** Nobody gets it. In the application's log it is what nginx calls it: client closed request. */
const GONE: HttpOutcome = { passes: false, answer: { status: CLIENT_CLOSED_REQUEST, headers: [], body: '' } };

/** What the limits of a request have to tell the client, as long as there is not a response yet. */
const untold = new WeakMap<Request, Map<string, string>>();

/**
 * Lets a request go on, and adds the headers to what comes back. Of limits inside each other the first does so for all,
 * in the order in which they were asked.
 */
export async function passOn<Result>(
  request: Request,
  headers: readonly HeaderPair[],
  { proceed, tell }: PassOn<Result>,
): Promise<Result> {
  const ofOuterLimits = untold.get(request);
  const all = ofOuterLimits ?? new Map<string, string>();
  appendHeaders(mapAsBag(all), headers);
  if (ofOuterLimits !== undefined) return proceed();
  untold.set(request, all);
  try {
    const result = await proceed();
    return tell(result, [...all]);
  } finally {
    untold.delete(request);
  }
}

export interface PassOn<Result> {
  readonly proceed: () => Result | Promise<Result>;
  readonly tell: (result: Result, headers: readonly HeaderPair[]) => Result;
}

/**
 * Says when a response has ended: the body was read to its end, cancelled or failed, or the client has gone. `respond`
 * gets a function that makes a response the last one to say so.
 */
export async function holdUntilEnd<Result>(
  request: Request,
  onEnd: ((response: EndedResponse | undefined) => void) | undefined,
  respond: (watch: (response: Response) => Response) => Promise<Result>,
): Promise<Result> {
  if (onEnd === undefined) return respond((response) => response);
  const ending = new ResponseEnd(request, onEnd);
  try {
    const result = await respond((response) => ending.watch(response));
    ending.returned();
    return result;
  } catch (error) {
    ending.threw();
    throw error;
  }
}

/** What nobody answers with a response of their own is answered by the platform. */
const THROWN: EndedResponse = { status: 500, finished: true, header: () => undefined };
const LEFT: EndedResponse = { status: CLIENT_CLOSED_REQUEST, finished: false, header: () => undefined };

/** The end of one response; it comes once. */
class ResponseEnd {
  private readonly request: Request;
  private readonly onEnd: (response: EndedResponse | undefined) => void;
  private response: Response | undefined;
  private hasBody = false;
  private isOver = false;

  constructor(request: Request, onEnd: (response: EndedResponse | undefined) => void) {
    this.request = request;
    this.onEnd = onEnd;
    request.signal.addEventListener('abort', this.aborted, { once: true });
  }

  watch(response: Response): Response {
    this.response = response;
    // Of an answer to HEAD, platforms and frameworks drop the body without reading or cancelling it.
    if (this.request.method === 'HEAD' || !hasWatchableBody(response)) return response;
    this.hasBody = true;
    return watched(response, (finished) => this.end(finished));
  }

  /**
   * Without a body there is nothing to wait for: nothing was returned, or it is a WebSocket, of which fetch says no
   * more.
   */
  returned(): void {
    if (this.hasBody) return;
    if (this.response === undefined) this.finish(undefined);
    else this.end(true);
  }

  threw(): void {
    this.finish(THROWN);
  }

  private end(finished: boolean): void {
    const { response } = this;
    if (response === undefined) return this.finish(LEFT);
    const { status, headers } = response;
    this.finish({ status, finished, header: (name) => headers.get(name) ?? undefined });
  }

  private readonly aborted = (): void => this.end(false);

  private finish(response: EndedResponse | undefined): void {
    if (this.isOver) return;
    this.isOver = true;
    this.request.signal.removeEventListener('abort', this.aborted);
    this.onEnd(response);
  }
}

function hasWatchableBody({ status, body }: Response): boolean {
  return status >= 200 && body !== null;
}

function watched(response: Response, end: (finished: boolean) => void): Response {
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await reader?.read();
        if (next?.value !== undefined) return controller.enqueue(next.value);
        end(true);
        controller.close();
      } catch (error) {
        end(false);
        controller.error(error);
      }
    },
    async cancel(reason) {
      end(false);
      await reader?.cancel(reason);
    },
  });
  return new Response(body, response);
}

/** The response to a request that does not pass. `present` are headers that it has already. */
export function refusal(
  request: Request,
  { status, headers, body }: HttpAnswer,
  present?: Headers,
): Response {
  const written = new Headers(present);
  const ofOuterLimits = untold.get(request);
  appendHeaders(headersAsBag(written), [...(ofOuterLimits ?? [])]);
  writeHeaders(headersAsBag(written), headers);
  // They are told now, and not once more by the limit that they come from.
  ofOuterLimits?.clear();
  const hasBody = request.method !== 'HEAD' && !NULL_BODY_STATUSES.has(status);
  return new Response(hasBody ? body : null, { status, headers: written });
}

/** https://fetch.spec.whatwg.org/#null-body-status: a response with a body cannot be made with one of these. */
const NULL_BODY_STATUSES: ReadonlySet<number> = new Set([204, 205, 304]);

/** The response with headers added: the same one if it can be changed, else a copy. The body is not touched. */
export function withHeaders(response: Response, headers: readonly HeaderPair[]): Response {
  // An accepted WebSocket (101) and Response.error() (0) cannot be copied, and have no room for headers.
  if (headers.length === 0 || response.status < 200) return response;
  // What has a type has a body, and can be sent only once. Without one an application may return it again, to someone
  // else.
  if (response.headers.has('Content-Type')) {
    try {
      appendHeaders(headersAsBag(response.headers), headers);
      return response;
    } catch {
      // The headers of what fetch() returned cannot be changed. The first of them says so, before anything is written.
    }
  }
  const copy = copyOf(response);
  appendHeaders(headersAsBag(copy.headers), headers);
  return copy;
}

/**
 * Bun finds out the type of a body when it sends it, and no longer knows it once someone has asked for `response.body`.
 */
const TYPE_IS_KNOWN_LATE = 'Bun' in globalThis;

function copyOf(response: Response): Response {
  if (!TYPE_IS_KNOWN_LATE) return new Response(response.body, response);
  const copy = response.clone();
  // A stream now has two ends. Nobody reads this one: unless it is cancelled, everything that is sent is also kept for
  // it.
  response.body?.cancel().catch(() => undefined);
  return copy;
}

/** Whether an address can be found only if the peer is known: no function finds it, and no proxy is trusted unseen. */
export function needsPeer({ clientAddress }: Pick<RateLimitOptions<never>, 'clientAddress'>): boolean {
  if (typeof clientAddress === 'function') return false;
  const trusted = clientAddress?.trustedProxies;
  return !(typeof trusted === 'object' && 'hops' in trusted && trusted.hops > 0);
}

function factsOf({ request, peer }: FetchExchange): HttpRequestFacts {
  let found: { readonly peer: string | undefined } | undefined;
  return {
    get peer() {
      found ??= { peer: peer() };
      return found.peer;
    },
    headerLines: (name) => headerLines(request.headers, name),
    signal: request.signal,
    query: () => queryOf(request.url),
  };
}

/**
 * fetch joins the lines of a header by a comma and a space, and nothing tells them from those inside a line. Taking all
 * of them for ends of lines changes nothing for a list, and a key with one in it is refused: it may be two. `Forwarded`
 * has them in quotes.
 */
function headerLines(headers: Headers, name: string): readonly string[] {
  const value = headers.get(name);
  if (value === null) return [];
  return name === 'forwarded' ? [value] : value.split(', ');
}

async function holdBack(signal: AbortSignal, delayMs: number): Promise<boolean> {
  const delay = startDelay(delayMs);
  signal.addEventListener('abort', delay.cancel);
  const ended = await delay.ended;
  signal.removeEventListener('abort', delay.cancel);
  return ended;
}

function headersAsBag(headers: Headers): HeaderBag {
  return {
    get: (name) => headers.get(name) ?? undefined,
    set: (name, value) => headers.set(name, value),
  };
}

function mapAsBag(headers: Map<string, string>): HeaderBag {
  return { get: (name) => headers.get(name), set: (name, value) => void headers.set(name, value) };
}
