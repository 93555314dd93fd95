// What node:http and everything built on it have in common. The types say only what is used, so that they fit the objects
// of Node, Express and their like, with or without their type packages.
import type { Answer } from '../http/answer.ts';
import { after, isPending, type Eventually } from '../http/eventually.ts';
import type { HttpLimiter, RequestFacts, Ruling } from '../http/http-limiter.ts';
import { appendHeaders, writeHeaders, type HeaderBag } from '../http/place-headers.ts';
import { turnAfter } from '../http/turn.ts';

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
  readonly stream?: { readonly destroyed: boolean } | undefined;
  once(event: 'close', listener: () => void): unknown;
}

/** A `ServerResponse`, or what a framework makes of it. */
export interface NodeResponse extends NodeConnection {
  statusCode: number;
  readonly headersSent: boolean;
  getHeader(name: string): number | string | readonly string[] | undefined;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** How a framework is told what was ruled. */
export interface Exchange {
  readonly incoming: NodeRequest;
  readonly connection: NodeConnection;
  readonly headers: HeaderBag;
  readonly send: (answer: Answer) => void;
}

/** True when the request goes on; false when it has got its answer, or its client has gone before its turn. */
export function admit<Request>(
  limiter: HttpLimiter<Request>,
  request: Request,
  exchange: Exchange,
): Eventually<boolean> {
  return after(limiter.rule(request, factsOf(exchange.incoming)), (ruling) => apply(ruling, exchange));
}

function apply(ruling: Ruling, { connection, headers, send: sendAnswer }: Exchange): Eventually<boolean> {
  if (isGone(connection)) return false;
  if (!ruling.passes) {
    sendAnswer(ruling.answer);
    return false;
  }
  appendHeaders(headers, ruling.headers);
  return ruling.delayMs === 0 || takesItsTurn(connection, ruling.delayMs);
}

/** What a framework does with a request that is admitted, and with a mistake of the program. */
export interface Continuation {
  readonly proceed: () => void;
  readonly fail: (error: unknown) => void;
}

/** Lets the request go on as soon as it is admitted. What `proceed` throws is not ours to catch. */
export function goOn(admission: () => Eventually<boolean>, { proceed, fail }: Continuation): void {
  let admitted: Eventually<boolean>;
  try {
    admitted = admission();
  } catch (error) {
    fail(error);
    return;
  }
  if (!isPending(admitted)) {
    if (admitted) proceed();
    return;
  }
  admitted.then((isAdmitted) => (isAdmitted ? proceed() : undefined), fail);
}

/** The exchange of those who write to the response of Node themselves. */
export function exchangeOf(incoming: NodeRequest, response: NodeResponse): Exchange {
  return {
    incoming,
    connection: response,
    headers: headersOf(response),
    send: (answer) => send(response, answer),
  };
}

export function send(response: NodeResponse, { status, headers, body }: Answer): void {
  // The status last: what a broken header of the application throws must not go out as a denial.
  writeHeaders(headersOf(response), headers);
  response.statusCode = status;
  response.end(body);
}

/** Frameworks take a missing error for an admission and some strings for commands, so only an error is passed on. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error('rateLimit() failed', { cause: error });
}

function factsOf({ socket, rawHeaders }: NodeRequest): RequestFacts {
  return { peer: socket.remoteAddress, headerLines: (name) => headerLines(rawHeaders, name) };
}

const NO_LINES: readonly string[] = [];

/** Read from the lines as they came: `request.headers` drops or joins what was sent twice, each header in its own way. */
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

function takesItsTurn(connection: NodeConnection, delayMs: number): Promise<boolean> {
  const turn = turnAfter(delayMs);
  connection.once('close', turn.callOff);
  return turn.comes;
}
