// What node:http and everything built on it have in common. The types say only what is used, so that they fit the objects
// of Node, Express and their like, with or without their type packages.
import type { Answer } from '../http/answer.ts';
import type { HttpLimiter, RequestFacts } from '../http/http-limiter.ts';
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

/** A `ServerResponse`, or what a framework makes of it. */
export interface NodeResponse {
  statusCode: number;
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  getHeader(name: string): number | string | readonly string[] | undefined;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
  once(event: 'close', listener: () => void): unknown;
}

/** True when the request goes on; false when it has got its answer, or its client has gone before its turn. */
export async function admit<Request extends NodeRequest>(
  limiter: HttpLimiter<Request>,
  request: Request,
  response: NodeResponse,
): Promise<boolean> {
  const ruling = await limiter.rule(request, factsOf(request));
  if (response.destroyed) return false;
  if (!ruling.passes) {
    send(response, ruling.answer);
    return false;
  }
  appendHeaders(headersOf(response), ruling.headers);
  return ruling.delayMs === 0 || takesItsTurn(response, ruling.delayMs);
}

export function send(response: NodeResponse, { status, headers, body }: Answer): void {
  // The status last: what a broken header of the application throws must not go out as a denial.
  writeHeaders(headersOf(response), headers);
  response.statusCode = status;
  response.end(body);
}

function factsOf({ socket, rawHeaders }: NodeRequest): RequestFacts {
  return { peer: socket.remoteAddress, headerLines: (name) => headerLines(rawHeaders, name) };
}

/** Read from the lines as they came: `request.headers` drops or joins what was sent twice, each header in its own way. */
function headerLines(rawHeaders: readonly string[], name: string): readonly string[] {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [header = '', line = ''] = [rawHeaders[at], rawHeaders[at + 1]];
    if (header.length === name.length && header.toLowerCase() === name) lines.push(line);
  }
  return lines;
}

function headersOf(response: NodeResponse): HeaderBag {
  return {
    get: (name) => {
      const value = response.getHeader(name);
      return typeof value === 'object' ? value.join(', ') : value?.toString();
    },
    set: (name, value) => response.setHeader(name, value),
  };
}

function takesItsTurn(response: NodeResponse, delayMs: number): Promise<boolean> {
  const turn = turnAfter(delayMs);
  response.once('close', turn.callOff);
  return turn.comes;
}
