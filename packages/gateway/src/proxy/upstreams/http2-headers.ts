import { constants, type OutgoingHttpHeaders } from 'node:http2';
import type { UpstreamRequest } from './upstream-request.ts';

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
  { method, path, headers }: Pick<UpstreamRequest, 'method' | 'path' | 'headers'>,
): OutgoingHttpHeaders {
  // A map: an object has a `constructor` before any client has sent one.
  const fields = new Map<string, string | string[]>();
  for (let at = 0; at < headers.length; at += 2) {
    add(fields, (headers[at] ?? '').toLowerCase(), headers[at + 1] ?? '');
  }
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
