import { withoutPort } from './addresses.ts';
import { jsonFormat } from './json-format.ts';
import { fieldAt, isObject, textOf } from './parsed-fields.ts';
import type { AccessLogFormat } from '../logged-request.ts';

function after(atMs: number, tookMs: number | undefined): number | undefined {
  return tookMs === undefined ? undefined : atMs + tookMs;
}

/** The places of Caddy's fields. */
const C = {
  ts: 0,
  logger: 1,
  message: 2,
  duration: 3,
  request: 4,
  method: 5,
  uri: 6,
  clientIp: 7,
  remoteIp: 8,
  tls: 9,
  host: 10,
} as const;

/** Caddy, one JSON object per line. */
export const CADDY: AccessLogFormat = jsonFormat({
  name: 'caddy',
  description: 'Caddy, as JSON',
  fields: [
    'ts',
    'logger',
    'msg',
    'duration',
    'request',
    'request.method',
    'request.uri',
    'request.client_ip',
    'request.remote_ip',
    'request.tls',
    'request.host',
  ],
  requestOf(fields) {
    const loggedMs = fields.moment(C.ts);
    if (loggedMs === undefined) return undefined;
    if (!fields.hasObject(C.request))
      return fields.has(C.logger) || fields.has(C.message) ? 'other' : undefined;
    const method = fields.text(C.method);
    const target = fields.text(C.uri);
    if (method === undefined || target === undefined) return undefined;
    return {
      atMs: loggedMs - 1000 * (fields.number(C.duration) ?? 0),
      endMs: loggedMs,
      client: fields.text(C.clientIp) ?? fields.text(C.remoteIp),
      method,
      scheme: fields.has(C.tls) ? 'https' : 'http',
      host: fields.text(C.host) ?? '',
      target,
    };
  },
  headersOf: caddyHeaders,
});

function caddyHeaders(parsed: object): readonly string[] {
  const logged = fieldAt(parsed, 'request.headers');
  const headers: string[] = [];
  for (const [name, lines] of isObject(logged) ? Object.entries(logged) : []) {
    for (const value of Array.isArray(lines) ? lines : [lines]) {
      if (typeof value === 'string') headers.push(name.toLowerCase(), value);
    }
  }
  return headers;
}

/** The places of Envoy's fields. */
const E = {
  startTime: 0,
  method: 1,
  path: 2,
  duration: 3,
  scheme: 4,
  authority: 5,
  remote: 6,
  directRemote: 7,
  forwardedFor: 8,
} as const;

/** Envoy and Istio, one JSON object per line. */
export const ENVOY: AccessLogFormat = jsonFormat({
  name: 'envoy',
  description: 'Envoy and Istio, as JSON',
  fields: [
    'start_time',
    'method',
    'path',
    'duration',
    'scheme',
    'authority',
    'downstream_remote_address',
    'downstream_direct_remote_address',
    'x_forwarded_for',
  ],
  requestOf(fields) {
    const atMs = fields.moment(E.startTime);
    const method = fields.text(E.method);
    const target = fields.text(E.path);
    if (atMs === undefined || method === undefined || target === undefined) return undefined;
    return {
      atMs,
      endMs: after(atMs, fields.number(E.duration)),
      // Envoy has already found out who the client is.
      client:
        fields.address(E.remote) ?? fields.address(E.directRemote) ?? lastHop(fields.text(E.forwardedFor)),
      method,
      scheme: fields.hasText(E.scheme, 'https') ? 'https' : 'http',
      host: fields.text(E.authority) ?? '',
      target,
    };
  },
  headersOf: envoyHeaders,
});

/** The one that Envoy saw itself. */
function lastHop(forwardedFor: string | undefined): string | undefined {
  const last = forwardedFor?.split(',').at(-1)?.trim();
  return last === undefined ? undefined : withoutPort(last);
}

/** What Envoy and Istio call their fields where they log JSON, and the headers that these are. */
const HEADERS: readonly (readonly [field: string, header: string])[] = [
  ['user_agent', 'user-agent'],
  ['referer', 'referer'],
  ['x_forwarded_for', 'x-forwarded-for'],
  ['request_id', 'x-request-id'],
];

function envoyHeaders(parsed: object): readonly string[] {
  return HEADERS.flatMap(([field, header]) => {
    const value = textOf(fieldAt(parsed, field));
    return value === undefined ? [] : [header, value];
  });
}

/** The places of Traefik's fields. */
const T = {
  method: 0,
  path: 1,
  startUtc: 2,
  startLocal: 3,
  time: 4,
  clientHost: 5,
  clientAddr: 6,
  duration: 7,
  scheme: 8,
  host: 9,
} as const;

/** Traefik, one JSON object per line. Headers are there if `accessLog.fields.headers` keeps them. */
export const TRAEFIK: AccessLogFormat = jsonFormat({
  name: 'traefik',
  description: 'Traefik, as JSON',
  fields: [
    'RequestMethod',
    'RequestPath',
    'StartUTC',
    'StartLocal',
    'time',
    'ClientHost',
    'ClientAddr',
    'Duration',
    'RequestScheme',
    'RequestHost',
  ],
  requestOf(fields) {
    const method = fields.text(T.method);
    const target = fields.text(T.path);
    const start = fields.has(T.startLocal) ? T.startLocal : T.time;
    const atMs = fields.moment(fields.has(T.startUtc) ? T.startUtc : start);
    if (method === undefined || target === undefined || atMs === undefined) return undefined;
    const tookNs = fields.number(T.duration);
    return {
      atMs,
      endMs: after(atMs, tookNs === undefined ? undefined : tookNs / 1e6),
      client: fields.address(T.clientHost) ?? fields.address(T.clientAddr),
      method,
      scheme: fields.hasText(T.scheme, 'https') ? 'https' : 'http',
      host: fields.text(T.host) ?? '',
      target,
    };
  },
  headersOf: traefikHeaders,
});

const HEADER = 'request_';

function traefikHeaders(parsed: object): readonly string[] {
  return Object.entries(parsed).flatMap(([name, value]) =>
    name.startsWith(HEADER) && typeof value === 'string'
      ? [name.slice(HEADER.length).toLowerCase(), value]
      : [],
  );
}
