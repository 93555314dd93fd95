import type { AccessLogFormat } from '../logged-request.ts';
import { fieldsOf, mapOf, momentOf, numberOf, textOf } from './json-fields.ts';

/** Caddy, one JSON object per line. */
export const CADDY: AccessLogFormat = {
  name: 'caddy',
  description: 'Caddy, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const loggedMs = momentOf(fields?.get('ts'));
    if (fields === undefined || loggedMs === undefined) return undefined;
    const request = mapOf(fields.get('request'));
    if (request === undefined) return fields.has('logger') || fields.has('msg') ? 'other' : undefined;
    const method = textOf(request.get('method'));
    const target = textOf(request.get('uri'));
    if (method === undefined || target === undefined) return undefined;
    return {
      atMs: loggedMs - 1000 * (numberOf(fields.get('duration')) ?? 0),
      client: textOf(request.get('client_ip')) ?? textOf(request.get('remote_ip')),
      method,
      scheme: request.has('tls') ? 'https' : 'http',
      host: textOf(request.get('host')) ?? '',
      target,
      headers: headersOf(mapOf(request.get('headers')) ?? new Map()),
    };
  },
};

function headersOf(logged: ReadonlyMap<string, unknown>): readonly string[] {
  const headers: string[] = [];
  for (const [name, lines] of logged) {
    for (const value of Array.isArray(lines) ? lines : [lines]) {
      if (typeof value === 'string') headers.push(name.toLowerCase(), value);
    }
  }
  return headers;
}
