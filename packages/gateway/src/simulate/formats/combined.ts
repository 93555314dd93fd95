import { type AccessLogFormat, type LoggedRequest, NO_LOGGED_HEADERS } from '../logged-request.ts';
import { CALENDAR_LENGTH, calendarMoment, calendarMomentAt } from './calendar-moments.ts';
import { asciiText, asciiTextLike, isAt } from './interned-texts.ts';
import { wordEnd } from './plain-words.ts';
import { UsualRequest } from './usual-request.ts';

/**
 * host ident user [time] "request" status bytes "referer" "user agent", and with `vhost_combined` the virtual host
 * first.
 */
const LINE =
  /^(?:([^\s:]+):\d+ )?(\S+) \S+ (?:[^["]*|"[^"]*") \[([^\]]+)\] "([A-Z][A-Z-]*) (\S+)(?: HTTP\/[\d.]+)?" \d{3} \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;

/** The `common` and `combined` formats of Apache and nginx. */
export const COMBINED: AccessLogFormat = {
  name: 'combined',
  description: 'common and combined, of nginx and Apache',
  wholeSeconds: true,
  read,
  readBytes,
};

function read(line: string): LoggedRequest | undefined {
  const found = LINE.exec(line);
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

const BEFORE_TIME = ' - - [';
const AFTER_TIME = '] "';
const PROTOCOL = ' HTTP/';
const [SPACE, QUOTE, DASH, POINT, SLASH, ZERO, NINE] = [0x20, 0x22, 0x2d, 0x2e, 0x2f, 0x30, 0x39];
const [LETTER_A, LETTER_Z] = [0x41, 0x5a];
/** `" 200 0`: what has to follow a request at least. */
const STATUS_LENGTH = 7;

/** A client, two dashes, a time and a plain request, as nearly every line has them; undefined for any other. */
function readBytes(bytes: Buffer, from: number, to: number): LoggedRequest | undefined {
  const clientEnd = wordEnd(bytes, from, to);
  const time = clientEnd + BEFORE_TIME.length;
  const timeEnd = time + CALENDAR_LENGTH;
  const verb = timeEnd + AFTER_TIME.length;
  if (verb >= to || clientEnd === from || !isAt(BEFORE_TIME, bytes, clientEnd, time)) return undefined;
  if (!isAt(AFTER_TIME, bytes, timeEnd, verb)) return undefined;
  const verbEnd = methodEnd(bytes, verb);
  const path = verbEnd + 1;
  if (verbEnd === verb || bytes[verbEnd] !== SPACE || bytes[path] !== SLASH) return undefined;
  const pathEnd = wordEnd(bytes, path, to);
  const end = protocolEnd(bytes, pathEnd, to);
  if (end + STATUS_LENGTH > to || !isStatus(bytes, end)) return undefined;
  const atMs = calendarMomentAt(bytes, time);
  const client = asciiText(bytes, from, clientEnd);
  const method = asciiTextLike('GET', bytes, verb, verbEnd);
  const target = asciiText(bytes, path, pathEnd);
  if (atMs === undefined || client === undefined || method === undefined || target === undefined)
    return undefined;
  return new UsualRequest(
    { atMs, client, method, scheme: 'http', host: '', target },
    { bytes, from, to, read },
  );
}

function methodEnd(bytes: Buffer, from: number): number {
  let at = from;
  for (; ; at += 1) {
    const byte = bytes[at] ?? 0;
    if ((byte < LETTER_A || byte > LETTER_Z) && (byte !== DASH || at === from)) return at;
  }
}

/** Where the quote after ` HTTP/1.1` is; Infinity if that does not follow. */
function protocolEnd(bytes: Buffer, from: number, to: number): number {
  const version = from + PROTOCOL.length;
  if (!isAt(PROTOCOL, bytes, from, version)) return Infinity;
  let at = version;
  while (at < to && (isDigit(bytes[at]) || bytes[at] === POINT)) at += 1;
  return at > version ? at : Infinity;
}

/** `" 200 ` and anything. */
function isStatus(bytes: Buffer, at: number): boolean {
  const next = bytes[at + 6] ?? 0;
  return (
    bytes[at] === QUOTE &&
    bytes[at + 1] === SPACE &&
    isDigit(bytes[at + 2]) &&
    isDigit(bytes[at + 3]) &&
    isDigit(bytes[at + 4]) &&
    bytes[at + 5] === SPACE &&
    next > SPACE &&
    next < 0x7f
  );
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}
