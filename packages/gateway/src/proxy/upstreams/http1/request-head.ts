// Heads of HTTP/1.1 requests. Whatever is asked for, nothing is written that a server could take for more than one request.
import { UpstreamError } from '../upstream-error.ts';
import type { UpstreamRequest } from '../upstream-request.ts';

/** The head of a request but for what frames its body and the empty line. */
export interface RequestHead {
  readonly text: string;
  /** As the client announced it; undefined if it did not. */
  readonly bodyLength: number | undefined;
  /** A method for which a body is expected: then a server is told when there is none (RFC 9110 §8.6). */
  readonly expectsBody: boolean;
  /** The connection takes another request after this one. */
  readonly keepAlive: boolean;
}

const METHOD = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;
const PATH = /^\/[!-~\x80-\xff]*$/;
const NAME = METHOD;
/** No control character but the tab, and nothing that is more than a byte: half of it could be a line feed. */
const VALUE = /^[\t -~\x80-\xff]*$/;
const LENGTH = /^\d{1,15}$/;

const EXPECT_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH']);

/** They belong to this connection, and are written by whoever owns it. */
const OWN: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'expect',
]);

/** `host`: where the request itself names none. Throws if a part of the request cannot be written. */
export function requestHead({ method, path, headers, body }: UpstreamRequest, host: string): RequestHead {
  if (!METHOD.test(method) || method === 'CONNECT') throw unsendable('method', method);
  if (!PATH.test(path) && !(path === '*' && method === 'OPTIONS')) throw unsendable('path', path);
  const expectsBody = EXPECT_BODY.has(method);
  // A server may answer HEAD with a body, or leave one unread that it did not expect: then the next answer would be the wrong one.
  const keepAlive = method !== 'HEAD' && (body === undefined || expectsBody);
  let lines = keepAlive ? 'connection: keep-alive\r\n' : 'connection: close\r\n';
  let namedHost: string | undefined;
  let bodyLength: number | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    if (!NAME.test(name)) throw unsendable('header name', name);
    if (!VALUE.test(value)) throw unsendable(`value of ${name}`, value);
    const special = specialName(name);
    if (special === undefined) lines += `${name}: ${value}\r\n`;
    else if (special === 'host' && namedHost === undefined) namedHost = value;
    else if (special === 'content-length' && bodyLength === undefined) bodyLength = lengthOf(value);
    else throw unsendable('header', name);
  }
  return {
    text: `${method} ${path} HTTP/1.1\r\nhost: ${namedHost ?? host}\r\n${lines}`,
    bodyLength,
    expectsBody,
    keepAlive,
  };
}

const SHORTEST = 'host'.length;
const LONGEST = 'transfer-encoding'.length;

function specialName(name: string): string | undefined {
  if (name.length < SHORTEST || name.length > LONGEST) return undefined;
  const lower = name.toLowerCase();
  return lower === 'host' || lower === 'content-length' || OWN.has(lower) ? lower : undefined;
}

function lengthOf(value: string): number {
  if (!LENGTH.test(value)) throw unsendable('Content-Length', value);
  return Number(value);
}

function unsendable(what: string, value: string): UpstreamError {
  return new UpstreamError(
    'BAD_REQUEST',
    `The ${what} ${JSON.stringify(value)} cannot be sent to an upstream.`,
  );
}
