import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';
import { fieldAt, JsonShapes, parsedObject } from './json-shapes.ts';
import { momentOf } from './moments.ts';

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value !== '-' ? value : undefined;
}

/** A number, also one that is written as a text. */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

function after(atMs: number, tookMs: number | undefined): number | undefined {
  return tookMs === undefined ? undefined : atMs + tookMs;
}

/** `203.0.113.7:4711` and `[2001:db8::1]:4711` without the port. */
export function withoutPort(address: string): string {
  const bracket = address.startsWith('[') ? address.indexOf(']') : -1;
  if (bracket !== -1) return address.slice(1, bracket);
  const colon = address.indexOf(':');
  return colon !== -1 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

interface JsonRequestParts extends Omit<LoggedRequest, 'headers'> {
  readonly line: string;
  readonly headersIn: (parsed: object) => readonly string[];
}

/** Parses its line only when somebody asks for headers: nearly nobody does. */
class JsonRequest implements LoggedRequest {
  atMs: number;
  readonly endMs: number | undefined;
  readonly client: string | undefined;
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly target: string;
  private readonly line: string;
  private readonly headersIn: (parsed: object) => readonly string[];
  private parsed: readonly string[] | undefined;

  constructor({ atMs, endMs, client, method, scheme, host, target, line, headersIn }: JsonRequestParts) {
    this.atMs = atMs;
    this.endMs = endMs;
    this.client = client;
    this.method = method;
    this.scheme = scheme;
    this.host = host;
    this.target = target;
    this.line = line;
    this.headersIn = headersIn;
  }

  get headers(): readonly string[] {
    this.parsed ??= this.headersIn(parsedObject(this.line) ?? {});
    return this.parsed;
  }
}

const CADDY_FIELDS = new JsonShapes([
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
]);

/** Caddy, one JSON object per line. */
export const CADDY: AccessLogFormat = {
  name: 'caddy',
  description: 'Caddy, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = CADDY_FIELDS.read(line);
    if (fields === undefined) return undefined;
    const [ts, logger, message, duration, request, verb, uri, clientIp, remoteIp, tls, host] = fields;
    const loggedMs = momentOf(ts);
    if (loggedMs === undefined) return undefined;
    if (!isObject(request)) return logger !== undefined || message !== undefined ? 'other' : undefined;
    const method = textOf(verb);
    const target = textOf(uri);
    if (method === undefined || target === undefined) return undefined;
    return new JsonRequest({
      atMs: loggedMs - 1000 * (numberOf(duration) ?? 0),
      endMs: loggedMs,
      client: textOf(clientIp) ?? textOf(remoteIp),
      method,
      scheme: tls !== undefined ? 'https' : 'http',
      host: textOf(host) ?? '',
      target,
      line,
      headersIn: caddyHeaders,
    });
  },
};

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

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

const ENVOY_FIELDS = new JsonShapes([
  'start_time',
  'method',
  'path',
  'duration',
  'scheme',
  'authority',
  'downstream_remote_address',
  'downstream_direct_remote_address',
  'x_forwarded_for',
]);

/** Envoy and Istio, one JSON object per line. */
export const ENVOY: AccessLogFormat = {
  name: 'envoy',
  description: 'Envoy and Istio, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = ENVOY_FIELDS.read(line);
    if (fields === undefined) return undefined;
    const [startTime, verb, path, duration, scheme, authority, remote, directRemote, forwardedFor] = fields;
    const atMs = momentOf(startTime);
    const method = textOf(verb);
    const target = textOf(path);
    if (atMs === undefined || method === undefined || target === undefined) return undefined;
    // Envoy has already found out who the client is; without that, the last hop is the one that it saw itself.
    const client = textOf(remote) ?? textOf(directRemote) ?? textOf(forwardedFor)?.split(',').at(-1)?.trim();
    return new JsonRequest({
      atMs,
      endMs: after(atMs, numberOf(duration)),
      client: client === undefined ? undefined : withoutPort(client),
      method,
      scheme: scheme === 'https' ? 'https' : 'http',
      host: textOf(authority) ?? '',
      target,
      line,
      headersIn: envoyHeaders,
    });
  },
};

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

const HEADER = 'request_';
const TRAEFIK_FIELDS = new JsonShapes([
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
]);

/** Traefik, one JSON object per line. Headers are there if `accessLog.fields.headers` keeps them. */
export const TRAEFIK: AccessLogFormat = {
  name: 'traefik',
  description: 'Traefik, as JSON',
  wholeSeconds: false,
  read(line) {
    const fields = TRAEFIK_FIELDS.read(line);
    if (fields === undefined) return undefined;
    const [verb, path, startUtc, startLocal, time, clientHost, clientAddr, duration, scheme, host] = fields;
    const method = textOf(verb);
    const target = textOf(path);
    const atMs = momentOf(startUtc ?? startLocal ?? time);
    if (method === undefined || target === undefined || atMs === undefined) return undefined;
    const client = textOf(clientHost) ?? textOf(clientAddr);
    // Traefik writes nanoseconds.
    const tookNs = numberOf(duration);
    return new JsonRequest({
      atMs,
      endMs: after(atMs, tookNs === undefined ? undefined : tookNs / 1e6),
      client: client === undefined ? undefined : withoutPort(client),
      method,
      scheme: scheme === 'https' ? 'https' : 'http',
      host: textOf(host) ?? '',
      target,
      line,
      headersIn: traefikHeaders,
    });
  },
};

function traefikHeaders(parsed: object): readonly string[] {
  return Object.entries(parsed).flatMap(([name, value]) =>
    name.startsWith(HEADER) && typeof value === 'string'
      ? [name.slice(HEADER.length).toLowerCase(), value]
      : [],
  );
}
