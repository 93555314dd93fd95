// One strict reading for everything that a request can carry a key in: two spellings of one value are one key, and what
// servers read in different ways is refused.

/** What to tell a client that sent no key. A repeated value is not a missing one: nothing replaces it. */
export interface NoKey {
  readonly detail: string;
  readonly missing: boolean;
}

export type FoundKey = string | NoKey;

/** The value of a header that may be sent once. */
export function headerValue(lines: readonly string[], name: string): FoundKey {
  if (lines.length > 1) return repeated(`header "${name}"`);
  return given(lines[0], `The header "${name}" is missing; it says who is asking.`);
}

/**
 * The value of a cookie, from the lines of `Cookie` (HTTP/2 may send several). Quotes around it are taken off, and
 * percent-encoding is undone, because servers do so; names are compared exactly.
 */
export function cookieValue(lines: readonly string[], name: string): FoundKey {
  let found: string | undefined;
  for (const line of lines) {
    for (const pair of line.split(';')) {
      const equals = pair.indexOf('=');
      if (equals === -1 || !isNamed(withoutSpaces(pair.slice(0, equals)), name)) continue;
      if (found !== undefined) return repeated(`cookie "${name}"`);
      found = withoutSpaces(pair.slice(equals + 1));
    }
  }
  if (found === undefined) return missing(`cookie "${name}"`);
  const bare = QUOTED.test(found) ? found.slice(1, -1) : found;
  const value = COOKIE_OCTETS.test(bare) ? decoded(bare) : undefined;
  return value === undefined
    ? malformed(`cookie "${name}"`)
    : given(value, missing(`cookie "${name}"`).detail);
}

/**
 * The value of a query parameter, from `?a=b&c=d` or empty. `&` alone separates parameters, `+` is a space, and
 * percent-encoding is undone in names and values; names are compared exactly.
 */
export function queryValue(query: string, name: string): FoundKey {
  let found: string | undefined;
  for (const pair of query.slice(1).split('&')) {
    const equals = pair.indexOf('=');
    const end = equals === -1 ? pair.length : equals;
    if (!isNamed(pair.slice(0, end).replaceAll('+', ' '), name)) continue;
    if (found !== undefined) return repeated(`query parameter "${name}"`);
    found = pair.slice(end + 1).replaceAll('+', ' ');
  }
  if (found === undefined) return missing(`query parameter "${name}"`);
  const value = decoded(found);
  return value === undefined
    ? malformed(`query parameter "${name}"`)
    : given(value, missing(`query parameter "${name}"`).detail);
}

/** What follows the path of a URL, with its question mark; empty if nothing does. */
export function queryOf(url: string): string {
  const [beforeFragment = ''] = url.split('#', 1);
  const at = beforeFragment.indexOf('?');
  return at === -1 ? '' : beforeFragment.slice(at);
}

/** An empty value counts as missing: as a key it would put all clients without one into one bucket. */
export function given(value: string | null | undefined, detail: string): FoundKey {
  return value === undefined || value === null || value === '' ? { detail, missing: true } : value;
}

const QUOTED = /^".*"$/;
/** RFC 6265 §4.1.1: no spaces, quotes, commas, backslashes, controls, and nothing beyond ASCII. */
const COOKIE_OCTETS = /^[!#-+\--:<-[\]-~]*$/;

function isNamed(written: string, name: string): boolean {
  return written === name || (written.includes('%') && decoded(written) === name);
}

/** Undefined if a percent sign is not followed by two digits, or the bytes are not UTF-8. */
function decoded(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Spaces and tabs are what may stand around the parts of a header. `trim()` takes off more. */
function withoutSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start += 1;
  // Not by an expression: from every space inside it would look ahead for the end.
  while (end > start && isSpace(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

function isSpace(text: string, at: number): boolean {
  return text[at] === ' ' || text[at] === '\t';
}

function missing(what: string): NoKey {
  return { detail: `The ${what} is missing; it says who is asking.`, missing: true };
}

function repeated(what: string): NoKey {
  return { detail: `The ${what} may be sent only once.`, missing: false };
}

function malformed(what: string): NoKey {
  return { detail: `The ${what} is not well-formed.`, missing: false };
}
