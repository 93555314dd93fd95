import { type AccessLogFormat, type LoggedRequest, NO_LOGGED_HEADERS } from '../logged-request.ts';
import { withoutPort } from './json-formats.ts';
import { writtenMoment } from './moments.ts';

const MONTHS: ReadonlyMap<string, number> = new Map(
  ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'].map((name, at) => [
    name,
    at,
  ]),
);
const WRITTEN = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)$/;

let last: { readonly text: string; readonly ms: number | undefined } = { text: '', ms: undefined };

/**
 * `10/Oct/2000:13:55:36 -0700` in milliseconds since 1970. Lines of the same second follow each other, so the last one
 * is remembered.
 */
export function calendarMoment(text: string): number | undefined {
  if (text !== last.text) last = { text, ms: read(text) };
  return last.ms;
}

function read(text: string): number | undefined {
  const found = WRITTEN.exec(text);
  if (found === null) return undefined;
  const [, day, month = '', year, hour, minute, second, sign, zoneHours, zoneMinutes] = found;
  const monthAt = MONTHS.get(month);
  if (monthAt === undefined) return undefined;
  const utcMs = Date.UTC(Number(year), monthAt, Number(day), Number(hour), Number(minute), Number(second));
  const zoneMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  return sign === '-' ? utcMs + zoneMs : utcMs - zoneMs;
}

/** type time elb client:port target:port three-durations status target-status received sent "request" "user agent" */
const ALB_LINE =
  /^(?:https?|h2|grpcs|wss?) (\S+) \S+ (\S+) \S+ (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) \S+ \S+ \S+ \S+ "([^" ]+) ([^" ]+) [^"]*" "([^"]*)"/;
const ABSOLUTE = /^(https?|wss?):\/\/([^/?]*)(.*)$/i;

/** Application Load Balancers of AWS. */
export const ALB: AccessLogFormat = {
  name: 'alb',
  description: 'AWS Application Load Balancer',
  wholeSeconds: false,
  read(line) {
    const found = ALB_LINE.exec(line);
    if (found === null) return undefined;
    const [
      ,
      ended = '',
      client = '',
      first = '',
      second = '',
      third = '',
      method = '',
      url = '',
      agent = '',
    ] = found;
    const endedMs = writtenMoment(ended);
    const absolute = ABSOLUTE.exec(url);
    if (!Number.isFinite(endedMs) || absolute === null) return undefined;
    const [, scheme = '', host = '', target = ''] = absolute;
    const request: LoggedRequest = {
      atMs: endedMs - 1000 * (known(first) + known(second) + known(third)),
      endMs: endedMs,
      client: withoutPort(client),
      method,
      scheme: scheme.endsWith('s') || scheme.endsWith('S') ? 'https' : 'http',
      host,
      target: target === '' ? '/' : target,
      headers: agent === '-' ? [] : ['user-agent', agent],
    };
    return request;
  },
};

/** A duration of -1 is not known. */
function known(seconds: string): number {
  return Math.max(0, Number(seconds));
}

/**
 * host ident user [time] "request" status bytes "referer" "user agent", and with `vhost_combined` the virtual host
 * first.
 */
const COMBINED_LINE =
  /^(?:([^\s:]+):\d+ )?(\S+) \S+ (?:[^["]*|"[^"]*") \[([^\]]+)\] "([A-Z][A-Z-]*) (\S+)(?: HTTP\/[\d.]+)?" \d{3} \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;

/** The `common` and `combined` formats of Apache and nginx. */
export const COMBINED: AccessLogFormat = {
  name: 'combined',
  description: 'common and combined, of nginx and Apache',
  wholeSeconds: true,
  read: (line) => usualLine(line) ?? unusualLine(line),
};

/** A client, two dashes, a time and a plain request, as nearly every line has them; undefined for any other. */
function usualLine(line: string): LoggedRequest | undefined {
  const client = line.indexOf(USUAL);
  if (client <= 0) return undefined;
  const time = client + USUAL.length;
  const bracket = line.indexOf('] "', time);
  const quote = bracket + 3;
  const end = line.indexOf('" ', quote);
  if (bracket === -1 || end === -1) return undefined;
  const method = line.indexOf(' ', quote);
  const target = line.lastIndexOf(' HTTP/', end);
  if (method >= target || target === -1 || line.charCodeAt(method + 1) !== SLASH) return undefined;
  const name = line.slice(0, client);
  const path = line.slice(method + 1, target);
  const atMs = calendarMoment(line.slice(time, bracket));
  const verb = knownMethod(line, quote, method);
  // Whatever is not quite so is read with more care.
  if (atMs === undefined || verb === undefined || name.includes(' ') || path.includes(' ')) return undefined;
  if (!STATUS.test(line.slice(end + 2, end + 6)) || path.includes('"')) return undefined;
  return new CombinedRequest(atMs, name, verb, path, line, end);
}

const USUAL = ' - - [';
const SLASH = 0x2f;
const STATUS = /^\d{3} $/;
const METHODS = ['GET', 'POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'];

function knownMethod(line: string, from: number, to: number): string | undefined {
  for (const method of METHODS)
    if (method.length === to - from && line.startsWith(method, from)) return method;
  return undefined;
}

const AFTER_REQUEST = /^" \d{3} \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;

/** Reads headers only when somebody asks for them: nearly nobody does. */
class CombinedRequest implements LoggedRequest {
  atMs: number;
  readonly client: string;
  readonly method: string;
  readonly scheme = 'http';
  readonly host = '';
  readonly target: string;
  private readonly line: string;
  private readonly end: number;

  // oxlint-disable-next-line eslint/max-params -- one per line of a log
  constructor(atMs: number, client: string, method: string, target: string, line: string, end: number) {
    this.atMs = atMs;
    this.client = client;
    this.method = method;
    this.target = target;
    this.line = line;
    this.end = end;
  }

  get headers(): readonly string[] {
    const [, referer, agent] = AFTER_REQUEST.exec(this.line.slice(this.end)) ?? [];
    return headersOf(referer, agent);
  }
}

function unusualLine(line: string): LoggedRequest | undefined {
  const found = COMBINED_LINE.exec(line);
  if (found === null) return undefined;
  const [, host = '', client = '', time = '', method = '', target = '', referer, agent] = found;
  const atMs = calendarMoment(time);
  if (atMs === undefined) return undefined;
  return { atMs, client, method, scheme: 'http', host, target, headers: headersOf(referer, agent) };
}

function headersOf(referer = '-', agent = '-'): readonly string[] {
  if (referer === '-' && agent === '-') return NO_LOGGED_HEADERS;
  return [...(referer === '-' ? [] : ['referer', referer]), ...(agent === '-' ? [] : ['user-agent', agent])];
}
