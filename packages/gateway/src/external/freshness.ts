import { parseCacheControl } from './cache-control.ts';

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
 * `no-store` anywhere is final. Then `Cache-Control: max-age`, `Expires`, the body's `cache_max_age_seconds`, the default: the first
 * that is there decides. Of several values of one kind the smallest counts, and what cannot be read counts as 0.
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
