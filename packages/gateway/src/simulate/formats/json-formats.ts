import { type AccessLogFormat, NO_LOGGED_HEADERS } from '../logged-request.ts';

/** The fields of a line that is a JSON object; undefined for any other. */
function fieldsOf(line: string): ReadonlyMap<string, unknown> | undefined {
  // Most lines of other formats are known by their first letter.
  if (line.charCodeAt(0) !== BRACE) return undefined;
  try {
    return mapOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

const BRACE = 0x7b;

function mapOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? new Map(Object.entries(value))
    : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value !== '-' ? value : undefined;
}

/** A number, also one that is written as a text. */
function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** Milliseconds since 1970, of a date or of a number of seconds. */
function momentOf(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value * 1000 : undefined;
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) ? ms : undefined;
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
    const atMs = momentOf(fields?.get('start_time'));
    const method = textOf(fields?.get('method'));
    const target = textOf(fields?.get('path'));
    if (fields === undefined || atMs === undefined || method === undefined || target === undefined) {
      return undefined;
    }
    return {
      atMs,
      client: clientOf(fields),
      method,
      scheme: fields.get('scheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('authority')) ?? '',
      target,
      headers: HEADERS.flatMap(([field, header]) => {
        const value = textOf(fields.get(field));
        return value === undefined ? [] : [header, value];
      }),
    };
  },
};

/** Envoy has already found out who the client is; without that, the last hop is the one that it saw itself. */
function clientOf(fields: ReadonlyMap<string, unknown>): string | undefined {
  const remote =
    textOf(fields.get('downstream_remote_address')) ??
    textOf(fields.get('downstream_direct_remote_address')) ??
    textOf(fields.get('x_forwarded_for'))?.split(',').at(-1)?.trim();
  return remote === undefined ? undefined : withoutPort(remote);
}

/** The gateway's own log, of which the lines about requests count. */
export const OWN_LOG: AccessLogFormat = {
  name: 'spillgate',
  description: "Spillgate's own access log",
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const message = fields?.get('msg');
    const loggedMs = momentOf(fields?.get('time'));
    if (fields === undefined || loggedMs === undefined || typeof message !== 'string') return undefined;
    if (message !== 'request') return 'other';
    const method = textOf(fields.get('method'));
    const path = textOf(fields.get('path'));
    if (method === undefined || path === undefined) return undefined;
    return {
      // Lines are written when their requests end.
      atMs: momentOf(fields.get('at')) ?? loggedMs - (numberOf(fields.get('ms')) ?? 0),
      client: textOf(fields.get('client')),
      method,
      scheme: fields.get('scheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('host')) ?? '',
      target: path,
      headers: NO_LOGGED_HEADERS,
    };
  },
};

const HEADER = 'request_';

/** Traefik, one JSON object per line. Headers are there if `accessLog.fields.headers` keeps them. */
export const TRAEFIK: AccessLogFormat = {
  name: 'traefik',
  description: 'Traefik, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = fieldsOf(line);
    const method = textOf(fields?.get('RequestMethod'));
    const target = textOf(fields?.get('RequestPath'));
    const atMs = momentOf(fields?.get('StartUTC') ?? fields?.get('StartLocal') ?? fields?.get('time'));
    if (fields === undefined || method === undefined || target === undefined || atMs === undefined) {
      return undefined;
    }
    const client = textOf(fields.get('ClientHost')) ?? textOf(fields.get('ClientAddr'));
    return {
      atMs,
      client: client === undefined ? undefined : withoutPort(client),
      method,
      scheme: fields.get('RequestScheme') === 'https' ? 'https' : 'http',
      host: textOf(fields.get('RequestHost')) ?? '',
      target,
      headers: [...fields].flatMap(([name, value]) =>
        name.startsWith(HEADER) && typeof value === 'string'
          ? [name.slice(HEADER.length).toLowerCase(), value]
          : [],
      ),
    };
  },
};
