import type { AccessLogFormat } from '../logged-request.ts';

/** The fields of a line that is a JSON object; undefined for any other. */
export function fieldsOf(line: string): Fields | undefined {
  // Most lines of other formats are known by their first letter.
  if (line.charCodeAt(0) !== BRACE) return undefined;
  try {
    return fieldsIn(JSON.parse(line));
  } catch {
    return undefined;
  }
}

const BRACE = 0x7b;

/** As they were parsed: nothing that formats ask for is a property of every object. */
export interface Fields {
  readonly [name: string]: unknown;
}

function fieldsIn(value: unknown): Fields | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an object of JSON
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value !== '-' ? value : undefined;
}

/** A number, also one that is written as a text. */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** Milliseconds since 1970, of a date or of a number of seconds. */
export function momentOf(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value * 1000 : undefined;
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) ? ms : undefined;
}

function after(atMs: number, tookMs: number | undefined): number | undefined {
  return tookMs === undefined ? undefined : atMs + tookMs;
}

/** `203.0.113.7:4711` and `[2001:db8::1]:4711` without the port. */
export function withoutPort(address: string): string {
  const bracketed = /^\[([^\]]*)\]/.exec(address);
  if (bracketed !== null) return bracketed[1] ?? '';
  const colon = address.indexOf(':');
  return colon !== -1 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

/** Caddy, one JSON object per line. */
export const CADDY: AccessLogFormat = {
  name: 'caddy',
  description: 'Caddy, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const loggedMs = momentOf(fields?.['ts']);
    if (fields === undefined || loggedMs === undefined) return undefined;
    const request = fieldsIn(fields['request']);
    if (request === undefined)
      return fields['logger'] !== undefined || fields['msg'] !== undefined ? 'other' : undefined;
    const method = textOf(request['method']);
    const target = textOf(request['uri']);
    if (method === undefined || target === undefined) return undefined;
    return {
      atMs: loggedMs - 1000 * (numberOf(fields['duration']) ?? 0),
      endMs: loggedMs,
      client: textOf(request['client_ip']) ?? textOf(request['remote_ip']),
      method,
      scheme: request['tls'] !== undefined ? 'https' : 'http',
      host: textOf(request['host']) ?? '',
      target,
      headers: headersOf(fieldsIn(request['headers']) ?? {}),
    };
  },
};

function headersOf(logged: Fields): readonly string[] {
  const headers: string[] = [];
  for (const [name, lines] of Object.entries(logged)) {
    for (const value of Array.isArray(lines) ? lines : [lines]) {
      if (typeof value === 'string') headers.push(name.toLowerCase(), value);
    }
  }
  return headers;
}

/** What Envoy and Istio call their fields where they log JSON, and the headers that these are. */
const HEADERS: readonly (readonly [field: string, header: string])[] = [
  ['user_agent', 'user-agent'],
  ['referer', 'referer'],
  ['x_forwarded_for', 'x-forwarded-for'],
  ['request_id', 'x-request-id'],
];

/** Envoy and Istio, one JSON object per line. */
export const ENVOY: AccessLogFormat = {
  name: 'envoy',
  description: 'Envoy and Istio, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const atMs = momentOf(fields?.['start_time']);
    const method = textOf(fields?.['method']);
    const target = textOf(fields?.['path']);
    if (fields === undefined || atMs === undefined || method === undefined || target === undefined) {
      return undefined;
    }
    return {
      atMs,
      endMs: after(atMs, numberOf(fields['duration'])),
      client: clientOf(fields),
      method,
      scheme: fields['scheme'] === 'https' ? 'https' : 'http',
      host: textOf(fields['authority']) ?? '',
      target,
      headers: HEADERS.flatMap(([field, header]) => {
        const value = textOf(fields[field]);
        return value === undefined ? [] : [header, value];
      }),
    };
  },
};

/** Envoy has already found out who the client is; without that, the last hop is the one that it saw itself. */
function clientOf(fields: Fields): string | undefined {
  const remote =
    textOf(fields['downstream_remote_address']) ??
    textOf(fields['downstream_direct_remote_address']) ??
    textOf(fields['x_forwarded_for'])?.split(',').at(-1)?.trim();
  return remote === undefined ? undefined : withoutPort(remote);
}

const HEADER = 'request_';

/** Traefik, one JSON object per line. Headers are there if `accessLog.fields.headers` keeps them. */
export const TRAEFIK: AccessLogFormat = {
  name: 'traefik',
  description: 'Traefik, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const method = textOf(fields?.['RequestMethod']);
    const target = textOf(fields?.['RequestPath']);
    const atMs = momentOf(fields?.['StartUTC'] ?? fields?.['StartLocal'] ?? fields?.['time']);
    if (fields === undefined || method === undefined || target === undefined || atMs === undefined) {
      return undefined;
    }
    const client = textOf(fields['ClientHost']) ?? textOf(fields['ClientAddr']);
    // Traefik writes nanoseconds.
    const tookNs = numberOf(fields['Duration']);
    return {
      atMs,
      endMs: after(atMs, tookNs === undefined ? undefined : tookNs / 1e6),
      client: client === undefined ? undefined : withoutPort(client),
      method,
      scheme: fields['RequestScheme'] === 'https' ? 'https' : 'http',
      host: textOf(fields['RequestHost']) ?? '',
      target,
      headers: Object.entries(fields).flatMap(([name, value]) =>
        name.startsWith(HEADER) && typeof value === 'string'
          ? [name.slice(HEADER.length).toLowerCase(), value]
          : [],
      ),
    };
  },
};
