// What node:http and everything built on it have in common. The types say only what is used, so that they fit the
// objects of Node, Express and their like, with or without their type packages.
import type { HttpAnswer } from '../http/answer.ts';
import { NAMING_HEADERS } from '../http/forwarding-headers.ts';
import type { HttpLimiter, HttpOutcome, HttpRequestFacts, MaybePromise } from '../http/http-limiter.ts';
import { queryOf } from '../http/key-values.ts';
import { appendHeaders, writeHeaders, type HeaderBag } from '../http/place-headers.ts';
import { CLIENT_CLOSED_REQUEST, type EndedResponse } from '../http/settle-response.ts';
import { startDelay } from '../http/delay.ts';

/** An `IncomingMessage`, or what a framework makes of it. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly rawHeaders: readonly string[];
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What a response of Node tells about its client. */
export interface NodeConnection {
  readonly destroyed: boolean;
  /** Only HTTP/2 has one, and says there what `destroyed` says otherwise. */
  readonly stream?:
    | { readonly destroyed: boolean; readonly writableFinished?: boolean | undefined }
    | undefined;
  readonly statusCode: number;
  readonly headersSent: boolean;
  readonly writableFinished?: boolean | undefined;
  once(event: 'close', listener: () => void): unknown;
}

/** A `ServerResponse`, or what a framework makes of it. */
export interface NodeResponse extends NodeConnection {
  statusCode: number;
  getHeader(name: string): number | string | readonly string[] | undefined;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** A request and its response, as a framework has them. The headers are those of the response. */
export interface NodeHttpExchange extends HeaderBag {
  readonly incoming: NodeRequest;
  readonly connection: NodeConnection;
  send(answer: HttpAnswer): void;
}

/** The same for a framework that is called back when the request goes on. */
export interface CallbackExchange extends NodeHttpExchange {
  /** What it throws is not ours to catch. */
  proceed(): void;
  /** Hears of a mistake of the program. */
  fail(error: unknown): void;
}

/** True when the request goes on; false when it has got its answer, or its client has gone before its turn. */
export function admit<Request>(
  limiter: HttpLimiter<Request>,
  request: Request,
  exchange: NodeHttpExchange,
): MaybePromise<boolean> {
  const outcome = limiter.check(request, new NodeFacts(exchange.incoming));
  return outcome instanceof Promise
    ? outcome.then((settled) => applyOutcome(settled, exchange))
    : applyOutcome(outcome, exchange);
}

function applyOutcome(outcome: HttpOutcome, exchange: NodeHttpExchange): MaybePromise<boolean> {
  const { connection } = exchange;
  const onEnd = outcome.passes ? outcome.onEnd : undefined;
  if (isGone(connection)) {
    onEnd?.(undefined);
    return false;
  }
  if (!outcome.passes) {
    exchange.send(outcome.answer);
    return false;
  }
  appendHeaders(exchange, outcome.headers);
  if (onEnd !== undefined) return applyHeld(exchange, outcome.delayMs, onEnd);
  return outcome.delayMs === 0 || holdBack(connection, outcome.delayMs);
}

/** The same where the end of the response is waited for. `close` comes after every end: finished, aborted or reset. */
function applyHeld(
  exchange: NodeHttpExchange,
  delayMs: number,
  onEnd: (response: EndedResponse | undefined) => void,
): MaybePromise<boolean> {
  const { connection } = exchange;
  let goesOn = delayMs === 0;
  connection.once('close', () => onEnd(goesOn ? endedResponse(exchange) : undefined));
  if (goesOn) return true;
  return holdBack(connection, delayMs).then((isItsTurn) => {
    goesOn = isItsTurn;
    return isItsTurn;
  });
}

function endedResponse(exchange: NodeHttpExchange): EndedResponse {
  const { statusCode, headersSent, stream, writableFinished } = exchange.connection;
  return {
    status: headersSent ? statusCode : CLIENT_CLOSED_REQUEST,
    // HTTP/2 says it of the stream.
    finished: writableFinished ?? stream?.writableFinished === true,
    header: (name) => exchange.get(name),
  };
}

/**
 * Lets the request go on as soon as it is admitted. A request that was answered, or whose client disconnected, does not
 * proceed.
 */
export function admitThenProceed<Request>(
  limiter: HttpLimiter<Request>,
  request: Request,
  exchange: CallbackExchange,
): void {
  let admitted: MaybePromise<boolean>;
  try {
    admitted = admit(limiter, request, exchange);
  } catch (error) {
    exchange.fail(error);
    return;
  }
  if (admitted instanceof Promise) {
    admitted.then(
      (isAdmitted) => (isAdmitted ? exchange.proceed() : undefined),
      (error: unknown) => exchange.fail(error),
    );
  } else if (admitted) {
    exchange.proceed();
  }
}

// Exchanges are classes: one is made per request, and a class makes one object where closures make one each.

/** The exchange of those who write to the response of Node themselves. */
export class NodeExchange implements NodeHttpExchange {
  readonly incoming: NodeRequest;
  readonly connection: NodeResponse;

  constructor(incoming: NodeRequest, response: NodeResponse) {
    this.incoming = incoming;
    this.connection = response;
  }

  get(name: string): string | undefined {
    return joinedLines(this.connection.getHeader(name));
  }

  set(name: string, value: string): void {
    this.connection.setHeader(name, value);
  }

  send({ status, headers, body }: HttpAnswer): void {
    // The status last: what a broken header of the application throws must not go out as a denial.
    writeHeaders(this, headers);
    this.connection.statusCode = status;
    this.connection.end(body);
  }
}

/** Frameworks take a missing error for an admission and some strings for commands, so only an error is passed on. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error('rateLimit() failed', { cause: error });
}

/** One object where closures make one each; an application's function gets a plain one (`addressKeyOf`). */
class NodeFacts implements HttpRequestFacts {
  readonly peer: string | undefined;
  readonly isDirect: boolean;
  private readonly request: NodeRequest;

  constructor(request: NodeRequest) {
    this.peer = request.socket.remoteAddress;
    this.isDirect = !hasNamingHeader(request.rawHeaders);
    this.request = request;
  }

  headerLines(name: string): readonly string[] {
    return headerLines(this.request.rawHeaders, name);
  }

  query(): string {
    return queryOf(this.request.url ?? '');
  }
}

const NAMING: ReadonlySet<string> = new Set(NAMING_HEADERS);
const NAMING_LENGTHS: readonly boolean[] = Array.from(
  { length: Math.max(...NAMING_HEADERS.map((name) => name.length)) + 1 },
  (_, length) => NAMING_HEADERS.some((name) => name.length === length),
);

/** One look at all headers instead of one for each name; nearly all are told apart by their lengths. */
function hasNamingHeader(rawHeaders: readonly string[]): boolean {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const header = rawHeaders[at] ?? '';
    if (NAMING_LENGTHS[header.length] === true && NAMING.has(header.toLowerCase())) return true;
  }
  return false;
}

const NO_LINES: readonly string[] = [];

/**
 * Read from the lines as they came: `request.headers` drops or joins what was sent twice, each header in its own way.
 */
function headerLines(rawHeaders: readonly string[], name: string): readonly string[] {
  let lines: string[] | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const header = rawHeaders[at];
    if (header?.length === name.length && header.toLowerCase() === name)
      (lines ??= []).push(rawHeaders[at + 1] ?? '');
  }
  return lines ?? NO_LINES;
}

export function headersOf(response: Pick<NodeResponse, 'getHeader' | 'setHeader'>): HeaderBag {
  return {
    get: (name) => joinedLines(response.getHeader(name)),
    set: (name, value) => response.setHeader(name, value),
  };
}

/** The lines of a header as one, in the types that Node allows for them. */
export function joinedLines(value: number | string | readonly string[] | undefined): string | undefined {
  return typeof value === 'object' ? value.join(', ') : value?.toString();
}

function isGone({ destroyed, stream }: NodeConnection): boolean {
  return destroyed || stream?.destroyed === true;
}

function holdBack(connection: NodeConnection, delayMs: number): Promise<boolean> {
  const delay = startDelay(delayMs);
  connection.once('close', delay.cancel);
  return delay.ended;
}
