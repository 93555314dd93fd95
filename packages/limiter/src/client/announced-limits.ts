// What a response says about limits, whichever of the usual headers it says it with. A header that cannot be read is as
// if it were not there (draft-ietf-httpapi-ratelimit-headers-11, §7).
import { parseHttpDate } from './http-date.ts';
import { MAX_FIELD_LENGTH, parseItemList, type BareItem, type ListItem } from './structured-list.ts';

/** The headers of a `Response`, or anything else with a `get()`. */
export interface HeaderSource {
  get(name: string): string | null;
}

/** What is left of one policy. */
export interface AnnouncedQuota {
  /** The name of the policy, or of the resource (`X-RateLimit-Resource`); empty when the server gives none. */
  readonly policy: string;
  /** Whose share of it, as the server calls it (`pk`, in Base64). */
  readonly partitionKey: string | undefined;
  /** Requests that are left. */
  readonly remaining: number;
  /** For how long there will be no more than that. */
  readonly resetAfterMs: number | undefined;
  /** How many there are altogether. */
  readonly limit: number | undefined;
}

export interface AnnouncedLimits {
  /** How long to wait before the next request, if the response says so: `Retry-After`, or `X-RateLimit-Retry-After`. */
  readonly retryAfterMs: number | undefined;
  /** Every policy that the response speaks of; none when it comes from a cache. */
  readonly quotas: readonly AnnouncedQuota[];
}

/**
 * Reads `Retry-After`, `RateLimit` with `RateLimit-Policy`, and `X-RateLimit-*`.
 *
 * @example
 * const { retryAfterMs, quotas } = announcedLimits(response.headers);
 */
export function announcedLimits(
  headers: HeaderSource,
  // The wall clock: HTTP dates are told by it.
  nowMs: number = Date.now(),
): AnnouncedLimits {
  // The server's own clock, where it tells it: then ours may be wrong.
  const serverNowMs = parseHttpDate(fieldOf(headers, 'date') ?? '', nowMs) ?? nowMs;
  return { retryAfterMs: readRetryAfter(headers, serverNowMs), quotas: readQuotas(headers, serverNowMs) };
}

/**
 * How long a refused request has to wait: what it was told, else until the last of the used-up policies has something
 * left.
 */
export function toldToWaitMs({ retryAfterMs, quotas }: AnnouncedLimits): number | undefined {
  if (retryAfterMs !== undefined) return retryAfterMs;
  const waits = quotas.flatMap(({ remaining, resetAfterMs }) =>
    remaining === 0 && resetAfterMs !== undefined ? [resetAfterMs] : [],
  );
  return waits.length === 0 ? undefined : Math.max(...waits);
}

function readRetryAfter(headers: HeaderSource, serverNowMs: number): number | undefined {
  const text = fieldOf(headers, 'retry-after');
  const waitMs = text === undefined ? undefined : delayMs(text, serverNowMs);
  return waitMs ?? wholeSecondsMs(fieldOf(headers, 'x-ratelimit-retry-after'));
}

/** RFC 9110 §10.2.3: seconds, or a date. A date in the past is no wait. */
function delayMs(text: string, serverNowMs: number): number | undefined {
  const dateMs = parseHttpDate(text, serverNowMs);
  return dateMs === undefined ? wholeSecondsMs(text) : Math.max(0, dateMs - serverNowMs);
}

function wholeSecondsMs(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) * 1000 : undefined;
}

function readQuotas(headers: HeaderSource, serverNowMs: number): readonly AnnouncedQuota[] {
  // §7.3 of the draft: what a cache kept may be long over.
  if (Number(fieldOf(headers, 'age') ?? 0) > 0) return [];
  return (
    readDraft(headers) ??
    LEGACY_PREFIXES.map((prefix) => readLegacy(headers, prefix, serverNowMs)).find(
      (quotas) => quotas !== undefined,
    ) ??
    []
  );
}

/** Undefined when there is no `RateLimit`, or when it cannot be read. */
function readDraft(headers: HeaderSource): readonly AnnouncedQuota[] | undefined {
  const services = namedItems(fieldOf(headers, 'ratelimit'));
  if (services === undefined || services.length === 0) return undefined;
  const policies = namedItems(fieldOf(headers, 'ratelimit-policy')) ?? [];
  const quotas: AnnouncedQuota[] = [];
  for (const { name, parameters } of services) {
    const remaining = count(parameters, 'r');
    const resetSeconds = count(parameters, 't');
    if (typeof remaining !== 'number' || resetSeconds === 'malformed') return undefined;
    const policy = policies.find((candidate) => candidate.name === name)?.parameters;
    // Bytes and the like are no requests, and cannot be spread.
    if (unitOf(policy) !== 'requests') continue;
    const limit = policy === undefined ? undefined : count(policy, 'q');
    quotas.push({
      policy: name,
      partitionKey: textOf(parameters.get('pk'), 'bytes'),
      remaining,
      resetAfterMs: resetSeconds === undefined ? undefined : resetSeconds * 1000,
      limit: typeof limit === 'number' ? limit : undefined,
    });
  }
  return quotas;
}

interface NamedItem {
  readonly name: string;
  readonly parameters: ListItem['parameters'];
}

/** The draft knows only strings as names. */
function namedItems(field: string | undefined): readonly NamedItem[] | undefined {
  const items = field === undefined ? undefined : parseItemList(field);
  if (items === undefined) return undefined;
  const named: NamedItem[] = [];
  for (const { item, parameters } of items) {
    if (item.type !== 'string') return undefined;
    named.push({ name: item.value, parameters });
  }
  return named;
}

function count(parameters: ListItem['parameters'], key: string): number | undefined | 'malformed' {
  const item = parameters.get(key);
  if (item === undefined) return undefined;
  return item.type === 'integer' && item.value >= 0 ? item.value : 'malformed';
}

/** The text of the draft says `requests`, its registry `request`. */
function unitOf(policy: ListItem['parameters'] | undefined): string {
  const unit = textOf(policy?.get('qu'), 'string') ?? 'requests';
  return unit === 'request' ? 'requests' : unit;
}

function textOf(item: BareItem | undefined, type: 'string' | 'bytes'): string | undefined {
  return item?.type === type && typeof item.value === 'string' ? item.value : undefined;
}

/** Older drafts, the spelling that nearly everyone sends, and the one with another hyphen. */
const LEGACY_PREFIXES = ['ratelimit-', 'x-ratelimit-', 'x-rate-limit-'] as const;

function readLegacy(
  headers: HeaderSource,
  prefix: string,
  serverNowMs: number,
): readonly AnnouncedQuota[] | undefined {
  const remaining = decimal(fieldOf(headers, `${prefix}remaining`));
  const reset = decimal(fieldOf(headers, `${prefix}reset`));
  if (remaining === undefined || reset === undefined) return undefined;
  const limit = decimal(fieldOf(headers, `${prefix}limit`));
  return [
    {
      policy: fieldOf(headers, `${prefix}resource`) ?? '',
      partitionKey: undefined,
      remaining: Math.floor(remaining),
      resetAfterMs: untilResetMs(reset, serverNowMs),
      limit,
    },
  ];
}

/** Whole numbers as a rule; some servers count in fractions. */
function decimal(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : undefined;
}

/** As seconds from now this would be 30 years, and as a Unix time it is the year 2001. */
const EPOCH_SECONDS_FROM = 1e9;
/** As seconds since 1970 this would be the year 33658. */
const EPOCH_MS_FROM = 1e12;

/** Some servers send seconds from now, others a Unix time in seconds (GitHub), a few one in milliseconds. */
function untilResetMs(reset: number, serverNowMs: number): number {
  if (reset < EPOCH_SECONDS_FROM) return reset * 1000;
  const resetMs = reset < EPOCH_MS_FROM ? reset * 1000 : reset;
  return Math.max(0, resetMs - serverNowMs);
}

/** Undefined when the header is missing or too long to be meant. */
function fieldOf(headers: HeaderSource, name: string): string | undefined {
  const value = headers.get(name);
  return value === null || value.length > MAX_FIELD_LENGTH ? undefined : value;
}
