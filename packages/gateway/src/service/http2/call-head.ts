// What the headers of HTTP/2 ask for (RFC 9113 §8.3).
import type { IncomingHttpHeaders } from 'node:http2';

export interface HeaderField {
  readonly name: string;
  readonly value: string;
  /** As RFC 7541 §4.1 counts them. */
  readonly bytes: number;
}

export interface CallHead {
  /** As Node.js has them; never changed, because calls with equal headers share them. */
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  readonly path: string;
  /** Undefined: not said. */
  readonly contentLength: number | undefined;
  /** As they were sent. */
  readonly fields: readonly HeaderField[];
}

const PSEUDO = new Set([':method', ':scheme', ':path', ':authority']);
/** What belongs to a connection of HTTP/1 (RFC 9113 §8.2.2). */
const OF_CONNECTION = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
]);
/** Of these the first one counts, as in Node.js; others are put together. */
const SINGLE = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'user-agent',
  'content-encoding',
  'content-language',
  'content-location',
  'content-md5',
  'content-range',
  'date',
  'dnt',
  'if-match',
  'if-none-match',
  'if-range',
  'range',
  'te',
  'tk',
  'upgrade-insecure-requests',
  'access-control-allow-credentials',
  'access-control-max-age',
  'access-control-request-method',
  'x-content-type-options',
]);
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
/** Neither control characters nor space at its ends (RFC 9113 §8.2.1). */
const VALUE = /^(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?$/;
/** Somebody else may read another one of two than we do. */
const ONCE = new Set(['content-length', 'host']);
const PATH = /^\/[!-~]*$/;
const AUTHORITY = /^[!-~]*$/;
const DIGITS = /^\d{1,15}$/;

/** Undefined if they are malformed. */
export function callHeadOf(fields: readonly HeaderField[]): CallHead | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- new and empty, and only texts are put into it
  const headers = Object.create(null) as Record<string, string>;
  let pseudo = true;
  for (const { name, value } of fields) {
    const isPseudo = name.startsWith(':');
    if (isPseudo && (!pseudo || !PSEUDO.has(name) || headers[name] !== undefined)) return undefined;
    pseudo = isPseudo;
    if (!isPseudo && !isOrdinary(name, value)) return undefined;
    if (!VALUE.test(value)) return undefined;
    if (ONCE.has(name) && headers[name] !== undefined) return undefined;
    put(headers, name, value);
  }
  const { ':method': method, ':path': path, ':scheme': scheme, 'content-length': length } = headers;
  // No proxy stands here: CONNECT, which has neither path nor scheme, is not served.
  if (method === undefined || scheme === undefined || !isTarget(path, method)) return undefined;
  if (!NAME_OF_METHOD.test(method) || !AUTHORITY.test(headers[':authority'] ?? '')) return undefined;
  if (length !== undefined && !DIGITS.test(length)) return undefined;
  return { headers, method, path, contentLength: length === undefined ? undefined : Number(length), fields };
}

const NAME_OF_METHOD = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function isTarget(path: string | undefined, method: string): path is string {
  return path !== undefined && (PATH.test(path) || (path === '*' && method === 'OPTIONS'));
}

/** Whether trailers are well-formed; what they say concerns nobody. */
export function areTrailers(fields: readonly HeaderField[]): boolean {
  return fields.every(({ name, value }) => isOrdinary(name, value) && VALUE.test(value));
}

function isOrdinary(name: string, value: string): boolean {
  if (!NAME.test(name) || OF_CONNECTION.has(name)) return false;
  return name !== 'te' || value === 'trailers';
}

function put(headers: Record<string, string>, name: string, value: string): void {
  const known = headers[name];
  if (known === undefined) headers[name] = value;
  else if (!SINGLE.has(name)) headers[name] = `${known}${name === 'cookie' ? '; ' : ', '}${value}`;
}
