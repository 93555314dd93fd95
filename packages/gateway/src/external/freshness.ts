/** The headers of an HTTP answer that say how long it may be kept. */
export interface CacheHeaders {
  readonly cacheControl: readonly string[];
  readonly expires: readonly string[];
  readonly date: string | undefined;
  readonly age: string | undefined;
}

/** What the body says about it, with every protocol. */
export interface CacheFields {
  readonly cacheMaxAgeSeconds: number | undefined;
  readonly cacheNoStore: boolean;
}

export interface FreshnessDefaults {
  /** How long an answer is fresh that does not say it itself. */
  readonly freshMs: number;
  /** How long it may stand in after that while the service fails. */
  readonly staleMs: number;
}

/** How long an answer may be used, and how long after that it may stand in. Both 0: it is kept nowhere. */
export interface Freshness {
  readonly freshMs: number;
  readonly staleMs: number;
}

/** A day: longer lifetimes are mistakes more often than plans. */
export const MAX_FRESH_MS = 86_400_000;

const NOT_STORED: Freshness = { freshMs: 0, staleMs: 0 };

/**
 * `no-store` anywhere is final. Then `Cache-Control: max-age`, `Expires`, the body's `cache_max_age_seconds`, the
 * default: the first that is there decides. Of several values of one kind the smallest counts, and what cannot be read
 * counts as 0.
 */
export function freshnessOf(
  headers: CacheHeaders | undefined,
  body: CacheFields,
  { defaults, nowMs }: { readonly defaults: FreshnessDefaults; readonly nowMs: number },
): Freshness {
  if (body.cacheNoStore) return NOT_STORED;
  const fromBody = secondsToMs(body.cacheMaxAgeSeconds ?? 0) || defaults.freshMs;
  if (headers === undefined) return { freshMs: fromBody, staleMs: defaults.staleMs };

  const directives = parseCacheControl(headers.cacheControl);
  if (directives.notStored) return NOT_STORED;
  const fromHeaders =
    directives.maxAgeSeconds === undefined
      ? expiresMs(headers, nowMs)
      : secondsToMs(directives.maxAgeSeconds - ageSeconds(headers.age));
  const staleIfErrorMs = secondsToMs(directives.staleIfErrorSeconds ?? Infinity);
  return {
    freshMs: fromHeaders ?? fromBody,
    staleMs: directives.noStale ? 0 : Math.min(defaults.staleMs, staleIfErrorMs),
  };
}

/** Until `Expires`, by our clock and by the service's: the shorter. Undefined without the header. */
function expiresMs({ expires, date }: CacheHeaders, nowMs: number): number | undefined {
  if (expires.length === 0) return undefined;
  const until = Math.min(...expires.map((line) => httpDate(line) ?? 0));
  const sentAt = date === undefined ? nowMs : (httpDate(date) ?? nowMs);
  return Math.min(MAX_FRESH_MS, Math.max(0, until - Math.max(nowMs, sentAt)));
}

const HTTP_DATE = /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT)$/;

/** IMF-fixdate (RFC 9110 §5.6.7), which is all that anyone sends; Date.parse alone takes nearly everything. */
function httpDate(text: string): number | undefined {
  const ms = HTTP_DATE.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

function ageSeconds(age: string | undefined): number {
  return age !== undefined && /^\d{1,10}$/.test(age) ? Number(age) : 0;
}

function secondsToMs(seconds: number): number {
  return Math.max(0, Math.min(MAX_FRESH_MS, seconds * 1000));
}

/** What an answer's `Cache-Control` lines say together, with the most restrictive reading of what is unclear. */
interface CacheDirectives {
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
