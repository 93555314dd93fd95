import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';
import { calendarMoment } from './calendar-moments.ts';
import { withoutPort } from './addresses.ts';

const VARIABLE = /\$(?:\{(\w+)\}|(\w+))/g;
const TIMES = ['time_local', 'time_iso8601', 'msec'];
const REQUEST = /^([A-Z][A-Z-]*) (\S+)(?: HTTP\/[\d.]+)?$/;

/** A pattern that nothing can be read with. */
export class UnusablePattern extends Error {}

/**
 * A format in the words of nginx's `log_format`, such as `$remote_addr [$time_local] "$request" $status
 * $http_x_tenant`. Throws `UnusablePattern`.
 */
export function patternFormat(pattern: string): AccessLogFormat {
  const { expression, names } = compile(pattern);
  const time = TIMES.find((name) => names.includes(name));
  if (time === undefined)
    throw new UnusablePattern(`the pattern needs one of ${TIMES.map((name) => `$${name}`).join(', ')}`);
  const says = (...all: readonly string[]): boolean => all.some((name) => names.includes(name));
  if (!says('request', 'request_uri', 'uri'))
    throw new UnusablePattern('the pattern needs $request, or $request_uri and $request_method');
  return {
    name: 'pattern',
    description: 'as --pattern says',
    wholeSeconds: time !== 'msec',
    read(line) {
      const found = expression.exec(line);
      return found === null
        ? undefined
        : requestOf(new Map(names.map((name, at) => [name, found[at + 1] ?? ''])));
    },
  };
}

/** Each variable reads up to the text that follows it; between quotes a backslash may hide a quote. */
function compile(pattern: string): { readonly expression: RegExp; readonly names: readonly string[] } {
  const names: string[] = [];
  let source = '^';
  let end = 0;
  for (const found of pattern.matchAll(VARIABLE)) {
    source += literal(pattern.slice(end, found.index));
    end = found.index + found[0].length;
    const name = found[1] ?? found[2] ?? '';
    if (names.includes(name)) throw new UnusablePattern(`the pattern has $${name} twice`);
    names.push(name);
    const next = pattern[end];
    if (next === '$')
      throw new UnusablePattern(`the pattern has nothing between $${name} and the next variable`);
    source += next === '"' ? '((?:[^"\\\\]|\\\\.)*)' : next === undefined ? '(.*)' : `([^${inClass(next)}]*)`;
  }
  if (names.length === 0) throw new UnusablePattern('the pattern has no variables, such as $remote_addr');
  return { expression: new RegExp(source + literal(pattern.slice(end))), names };
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}

function inClass(character: string): string {
  return /[\]\\^-]/.test(character) ? `\\${character}` : character;
}

const HEADER = 'http_';

function requestOf(values: ReadonlyMap<string, string>): LoggedRequest | undefined {
  const request = REQUEST.exec(values.get('request') ?? '');
  const method = values.get('request_method') ?? request?.[1];
  const target = values.get('request_uri') ?? request?.[2] ?? values.get('uri');
  const loggedMs = timeOf(values);
  if (method === undefined || target === undefined || loggedMs === undefined) return undefined;
  const tookMs = 1000 * Number(values.get('request_time') ?? 0);
  const client = values.get('remote_addr') ?? values.get('realip_remote_addr');
  return {
    atMs: loggedMs - (Number.isFinite(tookMs) ? tookMs : 0),
    client: client === undefined ? undefined : withoutPort(client),
    method,
    scheme: values.get('scheme') === 'https' || values.get('https') === 'on' ? 'https' : 'http',
    host: values.get('host') ?? values.get('http_host') ?? values.get('server_name') ?? '',
    target,
    headers: [...values].flatMap(([name, value]) =>
      name.startsWith(HEADER) && value !== '-' && value !== ''
        ? [name.slice(HEADER.length).replaceAll('_', '-'), value]
        : [],
    ),
  };
}

function timeOf(values: ReadonlyMap<string, string>): number | undefined {
  const seconds = Number(values.get('msec') ?? Number.NaN);
  if (Number.isFinite(seconds)) return 1000 * seconds;
  const iso = Date.parse(values.get('time_iso8601') ?? '');
  return Number.isFinite(iso) ? iso : calendarMoment(values.get('time_local') ?? '');
}
