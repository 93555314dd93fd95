/** What an answer's `Cache-Control` lines say together, with the most restrictive reading of what is unclear. */
export interface CacheDirectives {
  /** `no-store`, `no-cache` or `private`: it is kept nowhere. */
  readonly notStored: boolean;
  /** The smallest of `max-age` and `s-maxage`; 0 if one of them is not a number; undefined if there is neither. */
  readonly maxAgeSeconds: number | undefined;
  /** `must-revalidate`: an old answer may not stand in. */
  readonly noStale: boolean;
  readonly staleIfErrorSeconds: number | undefined;
}

/** Members of a comma-separated list (RFC 9110 §5.6.1); a comma in quotes separates nothing. */
const MEMBER = /(?:[^",]|"(?:[^"\\]|\\.)*")+/g;
const SECONDS = /^(?:(\d+)|"(\d+)")$/;

/** Reads the lines as one list (RFC 9111 §5.2); names in any case, values as tokens or quoted. */
export function parseCacheControl(lines: readonly string[]): CacheDirectives {
  const text = lines.join(',');
  const members = text.match(MEMBER) ?? [];
  const directives = members.map((member) => {
    const equals = member.indexOf('=');
    const name = (equals < 0 ? member : member.slice(0, equals)).trim().toLowerCase();
    return { name, value: equals < 0 ? undefined : member.slice(equals + 1).trimEnd() };
  });
  const has = (...names: readonly string[]) => directives.some(({ name }) => names.includes(name));
  const smallest = (...names: readonly string[]): number | undefined => {
    const values = directives.filter(({ name }) => names.includes(name)).map(({ value }) => secondsOf(value));
    return values.length === 0 ? undefined : Math.min(...values);
  };
  return {
    // A quote that is not closed may hide anything.
    notStored: has('no-store', 'no-cache', 'private') || !quotesClose(text),
    maxAgeSeconds: smallest('max-age', 's-maxage'),
    noStale: has('must-revalidate', 'proxy-revalidate'),
    staleIfErrorSeconds: smallest('stale-if-error'),
  };
}

function secondsOf(value: string | undefined): number {
  const match = SECONDS.exec(value ?? '');
  return match === null ? 0 : Number(match[1] ?? match[2]);
}

function quotesClose(text: string): boolean {
  return !text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').includes('"');
}
