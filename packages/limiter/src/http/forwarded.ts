// `Forwarded` (RFC 7239 §4), one element at a time and from the right. What stands left of an element was there before
// the proxy appended to it, so it must not matter: reading from the left lets a client swallow the proxy's element with
// a quote that it never closes.

const TAB = 0x09;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** The index of the comma in front of the element that ends at `end`, or -1 in front of the first one. */
export function commaBefore(line: string, end: number): number {
  let at = end - 1;
  while (at >= 0 && line.charCodeAt(at) !== COMMA) {
    at = line.charCodeAt(at) === QUOTE ? openingQuote(line, at) - 1 : at - 1;
  }
  return at;
}

/**
 * What an element says about its client: the value of its one `for`. Undefined if there is none, or the element is
 * malformed.
 */
export function forwardedFor(element: string): string | undefined {
  const clients = readPairs(element)?.filter(({ name }) => name === 'for');
  return clients?.length === 1 ? clients[0]?.value : undefined;
}

/**
 * From a closing quote to the one that opens it: a quote inside is escaped, so an odd number of backslashes stands
 * before it. Without an opening quote the string reaches to the start of the line.
 */
function openingQuote(line: string, closingAt: number): number {
  let at = closingAt - 1;
  while (at >= 0) {
    const isQuote = line.charCodeAt(at) === QUOTE;
    let start = at;
    if (isQuote) while (start > 0 && line.charCodeAt(start - 1) === BACKSLASH) start -= 1;
    if (isQuote && (at - start) % 2 === 0) return at;
    at = start - 1;
  }
  return 0;
}

interface Pair {
  readonly name: string;
  readonly value: string;
  readonly end: number;
}

function readPairs(element: string): readonly Pair[] | undefined {
  const pairs: Pair[] = [];
  let at = skipSpace(element, 0);
  while (at < element.length) {
    // Empty pairs are part of the grammar: `[ forwarded-pair ] *( ";" [ forwarded-pair ] )`.
    if (element.charCodeAt(at) !== SEMICOLON) {
      const pair = readPair(element, at);
      if (pair === undefined) return undefined;
      pairs.push(pair);
      at = skipSpace(element, pair.end);
      if (at < element.length && element.charCodeAt(at) !== SEMICOLON) return undefined;
    }
    // The grammar has no space around the semicolon, but some proxies write it, and it leaves no doubt.
    at = skipSpace(element, at + 1);
  }
  return pairs;
}

function readPair(element: string, from: number): Pair | undefined {
  const nameEnd = tokenEnd(element, from);
  if (nameEnd === from || element.charCodeAt(nameEnd) !== EQUALS) return undefined;
  const value = readValue(element, nameEnd + 1);
  return value === undefined ? undefined : { name: element.slice(from, nameEnd).toLowerCase(), ...value };
}

function readValue(element: string, from: number): Omit<Pair, 'name'> | undefined {
  if (element.charCodeAt(from) === QUOTE) return readQuoted(element, from + 1);
  const end = tokenEnd(element, from);
  return end === from ? undefined : { value: element.slice(from, end), end };
}

/** `quoted-string` of RFC 9110 §5.6.4, without its quotes and escapes. */
function readQuoted(element: string, from: number): Omit<Pair, 'name'> | undefined {
  let value = '';
  let copied = from;
  for (let at = from; at < element.length; at += 1) {
    const code = element.charCodeAt(at);
    if (code === QUOTE) return { value: value + element.slice(copied, at), end: at + 1 };
    if (code === BACKSLASH) {
      value += element.slice(copied, at);
      at += 1;
      copied = at;
    }
    if (!isText(element.charCodeAt(at))) return undefined;
  }
  return undefined;
}

function skipSpace(element: string, from: number): number {
  let at = from;
  while (isSpace(element.charCodeAt(at))) at += 1;
  return at;
}

function tokenEnd(element: string, from: number): number {
  let at = from;
  while (isTokenCode(element.charCodeAt(at))) at += 1;
  return at;
}

export function isSpace(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** Tab, space, visible ASCII and the upper half of Latin-1. Past the end a code is NaN, which is none of these. */
function isText(code: number): boolean {
  return code === TAB || (code >= SPACE && code <= 0xff && code !== 0x7f);
}

const DELIMITERS = '"(),/:;<=>?@[\\]{}';

/** `tchar` of RFC 9110 §5.6.2, visible ASCII without the delimiters: 1 at the codes that are. */
const TOKEN_CODES = Uint8Array.from({ length: 0x7f }, (_, code) =>
  code > SPACE && !DELIMITERS.includes(String.fromCharCode(code)) ? 1 : 0,
);

function isTokenCode(code: number): boolean {
  return TOKEN_CODES[code] === 1;
}
