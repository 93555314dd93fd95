import { constants, type OutgoingHttpHeaders } from 'node:http2';
import type { Dispatcher } from 'undici';

/** They belong to one connection and do not exist in HTTP/2 (RFC 9113 §8.2.2). */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]);

/** The headers of a request as node:http2 takes them. The origin is in its normal form. */
export function http2Headers(
  origin: string,
  { method, path, headers }: Dispatcher.DispatchOptions,
): OutgoingHttpHeaders {
  // A map: an object has a `constructor` before any client has sent one.
  const fields = new Map<string, string | string[]>();
  for (const [name, value] of pairs(headers)) add(fields, name.toLowerCase(), value);
  const host = fields.get('host');
  fields.delete('host');
  return {
    ...Object.fromEntries(fields),
    [constants.HTTP2_HEADER_METHOD]: method,
    [constants.HTTP2_HEADER_PATH]: path,
    [constants.HTTP2_HEADER_SCHEME]: origin.slice(0, origin.indexOf(':')),
    [constants.HTTP2_HEADER_AUTHORITY]:
      typeof host === 'string' ? host : origin.slice(origin.indexOf('//') + 2),
  };
}

function add(fields: Map<string, string | string[]>, name: string, value: string): void {
  if (CONNECTION_FIELDS.has(name) || (name === 'te' && value.toLowerCase() !== 'trailers')) return;
  const before = fields.get(name);
  fields.set(name, before === undefined ? value : [before, value].flat());
}

/** undici takes headers in three forms: names and values by turns, an object, or pairs. */
function* pairs(headers: Dispatcher.DispatchOptions['headers']): Generator<readonly [string, string]> {
  if (headers === null || headers === undefined) return;
  if (Array.isArray(headers)) {
    for (let index = 0; index + 1 < headers.length; index += 2) {
      yield [String(headers[index]), String(headers[index + 1])];
    }
    return;
  }
  const entries = Symbol.iterator in headers ? headers : Object.entries(headers);
  for (const [name, value] of entries) {
    for (const line of [value ?? []].flat()) yield [name, line];
  }
}
