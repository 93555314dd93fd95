// What a response says about limits. The `draft` style follows draft-ietf-httpapi-ratelimit-headers-11 (May 2026); when a
// newer draft or the RFC changes the fields, this file changes and nothing else.
import type { Decision, Verdict } from '../decision.ts';
import { LimiterError, show } from '../errors.ts';
import type { Limit, Plan } from '../limit.ts';
import { sha256Hex } from '../sha256.ts';
import { advertisedQuota } from './advertised-quota.ts';
import { fieldBytes, fieldInteger, fieldString, printable } from './structured-field.ts';

/**
 * - `draft`: `RateLimit` and `RateLimit-Policy`, one member per policy.
 * - `legacy`: `X-RateLimit-Limit`, `-Remaining` and `-Reset` in seconds from now; on a denial `X-RateLimit-Retry-After`.
 * - `github`: the same three with `-Reset` as a Unix time, and `-Used` and `-Resource`.
 * - `none`: nothing but `Retry-After` on a denial.
 */
export type HeaderStyle = 'draft' | 'legacy' | 'github' | 'none';

export interface HeaderOptions {
  /** Which headers tell a client about its limits. Default: `['draft', 'legacy']`. */
  readonly headers?: HeaderStyle | readonly HeaderStyle[] | undefined;
  /** Adds `pk`, a hash of the key, to the `draft` fields, for clients that use several keys. Default: false. */
  readonly partitionKey?: boolean | undefined;
  /** Lets scripts of other origins read these headers: `Access-Control-Expose-Headers`. Default: false. */
  readonly exposeHeaders?: boolean | undefined;
}

export type HeaderPair = readonly [name: string, value: string];

/** The headers for a decision about these limits, in the order they were checked. */
export type DescribeDecision = (decision: Decision, limits: readonly Limit[]) => readonly HeaderPair[];

const STYLES: readonly HeaderStyle[] = ['draft', 'legacy', 'github', 'none'];
const DEFAULT_STYLES: readonly HeaderStyle[] = ['draft', 'legacy'];

const NAMES: Readonly<Record<HeaderStyle, readonly string[]>> = {
  draft: ['RateLimit', 'RateLimit-Policy'],
  legacy: ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'X-RateLimit-Retry-After'],
  github: [
    'X-RateLimit-Limit',
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
    'X-RateLimit-Used',
    'X-RateLimit-Resource',
  ],
  none: [],
};

/** Every name that a response may get from here. */
export const RATE_LIMIT_HEADERS: readonly string[] = [...new Set(Object.values(NAMES).flat()), 'Retry-After'];

/**
 * Prepares the headers of a kind.
 *
 * @example
 * const describe = rateLimitHeaders({ headers: 'draft' });
 * for (const [name, value] of describe(decision, limits)) response.setHeader(name, value);
 */
export function rateLimitHeaders(options: HeaderOptions = {}): DescribeDecision {
  const styles = acceptStyles(options.headers);
  const { partitionKey = false, exposeHeaders = false } = options;
  const exposed = [...styles.flatMap((style) => NAMES[style]), 'Retry-After'].join(', ');
  const [draft, legacy, github] = [
    styles.includes('draft'),
    styles.includes('legacy'),
    styles.includes('github'),
  ];
  return (decision, limits) => {
    const pairs: HeaderPair[] = [];
    if (draft) addDraft(pairs, decision, limits, partitionKey);
    if (legacy) addLegacy(pairs, decision);
    if (github) addGithub(pairs, decision);
    const retryAfter = retryAfterSeconds(decision);
    if (retryAfter !== undefined) pairs.push(['Retry-After', String(retryAfter)]);
    if (exposeHeaders) pairs.push(['Access-Control-Expose-Headers', exposed]);
    return pairs;
  };
}

/**
 * The wait for `Retry-After` in whole seconds, at least 1 and never before the request would be admitted. Undefined for an
 * admission, and for a cost that no wait can make fit: then there is no moment to name.
 */
export function retryAfterSeconds({ allowed, retryAfterMs }: Verdict): number | undefined {
  return allowed || retryAfterMs === Infinity ? undefined : Math.max(1, wholeSeconds(retryAfterMs));
}

/** Rounded up: whoever comes a part of a second too late is admitted, whoever comes too early is not. */
function wholeSeconds(ms: number): number {
  const seconds = Math.floor(ms / 1000);
  // Not `ceil`: the quotient of a wait of decades may be rounded to a whole number, while this product is exact.
  return seconds * 1000 < ms ? seconds + 1 : seconds;
}

function addDraft(
  pairs: HeaderPair[],
  { verdicts }: Decision,
  limits: readonly Limit[],
  partitionKey: boolean,
): void {
  let policies = '';
  let services = '';
  for (const [at, verdict] of verdicts.entries()) {
    const { policy, plan } = limitOf(verdict, limits[at]);
    const { policyMember, serviceMember } = staticMembers(policy.name, plan);
    const pk = partitionKey ? `;pk=${partition(verdict.key)}` : '';
    const r = fieldInteger(verdict.remaining);
    const t = fieldInteger(wholeSeconds(effectiveWindowMs(verdict, plan)));
    const separator = at === 0 ? '' : ', ';
    policies += `${separator}${policyMember}${pk}`;
    services += `${separator}${serviceMember};r=${r};t=${t}${pk}`;
  }
  pairs.push(['RateLimit-Policy', policies], ['RateLimit', services]);
}

function limitOf(verdict: Verdict, limit: Limit | undefined): Limit {
  if (limit?.policy.name === verdict.policy) return limit;
  throw new LimiterError(
    'INVALID_LIMITS',
    `The decision is about policy ${show(verdict.policy)}, but not the limits; pass the limits that were checked, in their order.`,
  );
}

/** What is the same in every response. */
interface StaticMembers {
  readonly policyMember: string;
  readonly serviceMember: string;
}

/** Made once per plan, which belongs to one policy's name. */
const knownMembers = new WeakMap<Plan, StaticMembers>();

function staticMembers(name: string, plan: Plan): StaticMembers {
  const known = knownMembers.get(plan);
  if (known !== undefined) return known;
  const { quota, windowSeconds } = advertisedQuota(plan);
  const serviceMember = fieldString(name);
  const policyMember = `${serviceMember};q=${fieldInteger(quota)};w=${fieldInteger(windowSeconds)}`;
  const members = { policyMember, serviceMember };
  knownMembers.set(plan, members);
  return members;
}

/**
 * For how long there is no more than `remaining`. A denied request is told its wait, so that `Retry-After` never lies before
 * the end of this window (§6 of the draft); an empty bucket is told when the next token comes; otherwise it is the time
 * until everything is back, which is on the safe side.
 */
function effectiveWindowMs(verdict: Verdict, { numbers }: Plan): number {
  if (!verdict.allowed && verdict.retryAfterMs !== Infinity) return verdict.retryAfterMs;
  if (verdict.remaining > 0 || !('drainUnits' in numbers)) return verdict.resetAfterMs;
  const { capacityUnits, tokenUnits, drainUnits } = numbers;
  const lastTokenMs = Math.floor((capacityUnits - tokenUnits) / drainUnits) / 1000;
  return Math.max(0, verdict.resetAfterMs - lastTokenMs);
}

/** Twelve bytes tell partitions apart; the key itself stays here. */
const PARTITION_DIGITS = 24;

function partition(key: string): string {
  return fieldBytes(sha256Hex(key).slice(0, PARTITION_DIGITS));
}

function addLegacy(pairs: HeaderPair[], decision: Decision): void {
  pairs.push(
    ['X-RateLimit-Limit', String(decision.limit)],
    ['X-RateLimit-Remaining', String(decision.remaining)],
    ['X-RateLimit-Reset', String(wholeSeconds(decision.resetAfterMs))],
  );
  const retryAfter = retryAfterSeconds(decision);
  if (retryAfter !== undefined) pairs.push(['X-RateLimit-Retry-After', String(retryAfter)]);
}

function addGithub(pairs: HeaderPair[], decision: Decision): void {
  const { limit, remaining, resetAfterMs, policy } = decision;
  pairs.push(
    ['X-RateLimit-Limit', String(limit)],
    ['X-RateLimit-Remaining', String(remaining)],
    ['X-RateLimit-Reset', String(wholeSeconds(Date.now() + resetAfterMs))],
    ['X-RateLimit-Used', String(limit - remaining)],
    ['X-RateLimit-Resource', printable(policy)],
  );
}

function acceptStyles(headers: HeaderOptions['headers'] = DEFAULT_STYLES): readonly HeaderStyle[] {
  const given: readonly unknown[] = Array.isArray(headers) ? headers : [headers];
  const styles = STYLES.filter((style) => given.includes(style));
  if (given.length === 0 || !given.every((style) => styles.some((known) => known === style))) {
    throw new LimiterError(
      'INVALID_OPTION',
      `headers is ${show(headers)}; choose one or a list of ${STYLES.map(show).join(', ')}.`,
    );
  }
  if (styles.includes('github') && styles.includes('legacy')) {
    throw new LimiterError(
      'INVALID_OPTION',
      "headers names 'legacy' and 'github', which mean different things by X-RateLimit-Reset: choose one of them.",
    );
  }
  return styles;
}
