import type { AccessLogFormat, LoggedRequest } from '../logged-request.ts';
import { addressAt, withoutPort } from './addresses.ts';
import { asciiText, asciiTextLike, isAt } from './interned-texts.ts';
import { numberAt, numberEnd } from './json-numbers.ts';
import { momentAt, writtenMoment } from './moments.ts';
import { wordEnd } from './plain-words.ts';
import { UsualRequest } from './usual-request.ts';

/** type time elb client:port target:port three-durations status target-status received sent "request" "user agent" */
const LINE =
  /^(?:https?|h2|grpcs|wss?) (\S+) \S+ (\S+) \S+ (-?[\d.]+) (-?[\d.]+) (-?[\d.]+) \S+ \S+ \S+ \S+ "([^" ]+) ([^" ]+) [^"]*" "([^"]*)"/;
const ABSOLUTE = /^(https?|wss?):\/\/([^/?]*)(.*)$/i;

/** Application Load Balancers of AWS. */
export const ALB: AccessLogFormat = {
  name: 'alb',
  description: 'AWS Application Load Balancer',
  wholeSeconds: false,
  read,
  readBytes,
};

function read(line: string): LoggedRequest | undefined {
  const found = LINE.exec(line);
  if (found === null) return undefined;
  const [, ended = '', client = '', first = '', second = '', third = '', method = '', url = '', agent = ''] =
    found;
  const endMs = writtenMoment(ended);
  const atMs = endMs - 1000 * (known(Number(first)) + known(Number(second)) + known(Number(third)));
  const absolute = ABSOLUTE.exec(url);
  if (!Number.isFinite(atMs) || absolute === null) return undefined;
  const [, scheme = '', host = '', target = ''] = absolute;
  return {
    atMs,
    endMs,
    client: withoutPort(client),
    method,
    scheme: scheme.endsWith('s') || scheme.endsWith('S') ? 'https' : 'http',
    host,
    target: target === '' ? '/' : target,
    headers: agent === '-' ? [] : ['user-agent', agent],
  };
}

/** A duration of -1 is not known. */
function known(seconds: number): number {
  return Math.max(0, seconds);
}

const [SPACE, QUOTE, SLASH, QUESTION] = [0x20, 0x22, 0x2f, 0x3f];
const TYPES = ['h2', 'https', 'http', 'grpcs', 'wss', 'ws'];
const SCHEMES: readonly { readonly start: string; readonly scheme: 'http' | 'https' }[] = [
  { start: 'https://', scheme: 'https' },
  { start: 'http://', scheme: 'http' },
];
/** Reused for every line: where its words begin. */
const starts = new Int32Array(13);
const [TIME_AT, CLIENT_AT, DURATIONS_AT, REQUEST_AT] = [1, 3, 5, 12];

/** As nearly every line is; undefined for any other. */
function readBytes(bytes: Buffer, from: number, to: number): LoggedRequest | undefined {
  if (!findWords(bytes, from, to)) return undefined;
  const tookSeconds = durations(bytes);
  const request = requestAt(bytes, starts[REQUEST_AT] ?? 0, to);
  if (tookSeconds === undefined || request === undefined || !isType(bytes)) return undefined;
  const endMs = momentAt(bytes, starts[TIME_AT] ?? 0, (starts[TIME_AT + 1] ?? 0) - 1);
  const client = addressAt(bytes, starts[CLIENT_AT] ?? 0, (starts[CLIENT_AT + 1] ?? 0) - 1);
  if (!Number.isFinite(endMs) || client === undefined) return undefined;
  const { method, scheme, host, target } = request;
  return new UsualRequest(
    { atMs: endMs - 1000 * tookSeconds, endMs, client, method, scheme, host, target },
    { bytes, from, to, read },
  );
}

/** Whether there are as many words as in a line, one space between them, and the request follows. */
function findWords(bytes: Buffer, from: number, to: number): boolean {
  let word = 0;
  starts[0] = from;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte < SPACE || byte > 0x7e) return false;
    if (byte !== SPACE) continue;
    if (at === starts[word]) return false;
    word += 1;
    starts[word] = at + 1;
    if (word === REQUEST_AT) return bytes[at + 1] === QUOTE;
  }
  return false;
}

function isType(bytes: Buffer): boolean {
  const [from = 0, next = 0] = starts;
  return TYPES.some((type) => isAt(type, bytes, from, next - 1));
}

/** All three together; undefined if one is not a plain number. */
function durations(bytes: Buffer): number | undefined {
  let seconds = 0;
  for (let word = DURATIONS_AT; word < DURATIONS_AT + 3; word += 1) {
    const start = starts[word] ?? 0;
    const end = (starts[word + 1] ?? 0) - 1;
    if (!isPlainNumber(bytes, start, end)) return undefined;
    seconds += known(numberAt(bytes, start, end));
  }
  return seconds;
}

const EXPONENT = 0x45;

function isPlainNumber(bytes: Buffer, from: number, to: number): boolean {
  if (numberEnd(bytes, from, to) !== to) return false;
  for (let at = from; at < to; at += 1) if ((bytes[at] ?? 0) >= EXPONENT) return false;
  return true;
}

/** `"GET https://host:443/path HTTP/1.1" "agent"` */
function requestAt(
  bytes: Buffer,
  quote: number,
  to: number,
): Pick<LoggedRequest, 'method' | 'scheme' | 'host' | 'target'> | undefined {
  const verb = quote + 1;
  const verbEnd = wordEnd(bytes, verb, to);
  const url = verbEnd + 1;
  if (verbEnd === verb || bytes[verbEnd] !== SPACE) return undefined;
  const found = SCHEMES.find(({ start }) => isAt(start, bytes, url, url + start.length));
  const urlEnd = wordEnd(bytes, url, to);
  if (found === undefined || bytes[urlEnd] !== SPACE || !hasAgent(bytes, urlEnd, to)) return undefined;
  const authority = url + found.start.length;
  let path = authority;
  while (path < urlEnd && bytes[path] !== SLASH && bytes[path] !== QUESTION) path += 1;
  if (bytes[path] !== SLASH) return undefined;
  const method = asciiTextLike('GET', bytes, verb, verbEnd);
  const host = asciiText(bytes, authority, path);
  const target = asciiText(bytes, path, urlEnd);
  if (method === undefined || host === undefined || target === undefined) return undefined;
  return { method, scheme: found.scheme, host, target };
}

/** Whether the request ends, and an agent follows between quotes. */
function hasAgent(bytes: Buffer, from: number, to: number): boolean {
  const end = quoteAt(bytes, from, to);
  return (
    end + 2 < to && bytes[end + 1] === SPACE && bytes[end + 2] === QUOTE && quoteAt(bytes, end + 3, to) < to
  );
}

/** Where the next quote is; `to` if there is none. */
function quoteAt(bytes: Buffer, from: number, to: number): number {
  let at = from;
  while (at < to && bytes[at] !== QUOTE) at += 1;
  return at;
}
