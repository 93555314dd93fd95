import { type AccessLogFormat, type LoggedRequest, NO_LOGGED_HEADERS } from '../logged-request.ts';
import { withoutPort } from './json-formats.ts';

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
    const endedMs = Date.parse(ended);
    const absolute = ABSOLUTE.exec(url);
    if (!Number.isFinite(endedMs) || absolute === null) return undefined;
    const [, scheme = '', host = '', target = ''] = absolute;
    const request: LoggedRequest = {
      // A duration of -1 is not known.
      atMs: endedMs - 1000 * [first, second, third].reduce((sum, text) => sum + Math.max(0, Number(text)), 0),
      client: withoutPort(client),
      method,
      scheme: /s$/i.test(scheme) ? 'https' : 'http',
      host,
      target: target === '' ? '/' : target,
      headers: agent === '-' ? [] : ['user-agent', agent],
    };
    return request;
  },
};

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
  read(line) {
    const found = COMBINED_LINE.exec(line);
    if (found === null) return undefined;
    const [, host = '', client = '', time = '', method = '', target = '', referer, agent] = found;
    const atMs = calendarMoment(time);
    if (atMs === undefined) return undefined;
    return {
      atMs,
      client,
      method,
      scheme: 'http',
      host,
      target,
      headers: headersOf(referer, agent),
    };
  },
};

function headersOf(referer = '-', agent = '-'): readonly string[] {
  if (referer === '-' && agent === '-') return NO_LOGGED_HEADERS;
  return [...(referer === '-' ? [] : ['referer', referer]), ...(agent === '-' ? [] : ['user-agent', agent])];
}
