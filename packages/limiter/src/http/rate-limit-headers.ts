import type { Decision, Verdict } from '../decision.ts';
import { LimiterError, show } from '../errors.ts';
import type { Limit, Plan } from '../limit.ts';
import { sha256Hex } from '../sha256.ts';

// What a response says about limits. The `draft` style follows draft-ietf-httpapi-ratelimit-headers-11 (May 2026); when
// a newer draft or the RFC changes the fields, this file changes and nothing else.
/**
 * - `draft`: `RateLimit` and `RateLimit-Policy`, one member per policy.
 * - `legacy`: `X-RateLimit-Limit`, `-Remaining` and `-Reset` in seconds from now; on a denial
 *   `X-RateLimit-Retry-After`.
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
  const exposed = limitHeaderNames(styles).join(', ');
  const fields = styles.flatMap((style) =>
    style === 'draft' && partitionKey ? PARTITIONED_DRAFT : FIELDS[style],
  );
  const legacy = styles.includes('legacy');
  return (decision, limits) => {
    const pairs: HeaderPair[] = [];
    for (const field of fields) pairs.push(field(decision, limits));
    const retryAfter = retryAfterSeconds(decision);
    if (retryAfter !== undefined) {
      if (legacy) pairs.push(['X-RateLimit-Retry-After', String(retryAfter)]);
      pairs.push(['Retry-After', String(retryAfter)]);
    }
    if (exposeHeaders) pairs.push(['Access-Control-Expose-Headers', exposed]);
    return pairs;
  };
}

/** Every header that a response with limits of these styles may have. */
export function limitHeaderNames(styles: readonly HeaderStyle[]): readonly string[] {
  return [...styles.flatMap((style) => NAMES[style]), 'Retry-After'];
}

/**
 * The wait for `Retry-After` in whole seconds, at least 1 and never before the request would be admitted. Undefined for
 * an admission, and for a cost that no wait can make fit: then there is no moment to name.
 */
export function retryAfterSeconds({ allowed, retryAfterMs }: Verdict): number | undefined {
  return allowed || retryAfterMs === Infinity ? undefined : Math.max(1, wholeSeconds(retryAfterMs));
}

/** Rounded up: a client that comes a fraction of a second late is admitted, one that comes early is not. */
function wholeSeconds(ms: number): number {
  const seconds = Math.floor(ms / 1000);
  // Not `ceil`: the quotient of a wait of decades may be rounded to a whole number, while this product is exact.
  return seconds * 1000 < ms ? seconds + 1 : seconds;
}

// Most clients have most of their quota left, so the same few headers are told again and again. Those that were told
// last are kept: what a server checks and writes is then one flat text that is there already, and not a new one made of
// parts.
/** Kept per header; a new one takes the place of another. A power of two. */
const REMEMBERED = 256;

interface Told {
  readonly value: number;
  readonly pair: HeaderPair;
}

/** A header whose value is a number. */
export class NumberHeader {
  private readonly name: string;
  private readonly told: (Told | undefined)[] = Array.from({ length: REMEMBERED });

  constructor(name: string) {
    this.name = name;
  }

  with(value: number): HeaderPair {
    const place = value & (REMEMBERED - 1);
    const before = this.told[place];
    if (before?.value === value) return before.pair;
    const pair: HeaderPair = [this.name, String(value)];
    this.told[place] = { value, pair };
    return pair;
  }
}

interface ToldOf<Subject> {
  readonly subject: Subject;
  readonly remaining: number;
  readonly seconds: number;
  readonly pair: HeaderPair;
}

/** A header that says of something how much is left, and for how many seconds. */
export class QuotaHeader<Subject> {
  private readonly spell: (subject: Subject, remaining: number, seconds: number) => HeaderPair;
  private readonly told: (ToldOf<Subject> | undefined)[] = Array.from({ length: REMEMBERED });

  constructor(spell: (subject: Subject, remaining: number, seconds: number) => HeaderPair) {
    this.spell = spell;
  }

  with(subject: Subject, remaining: number, seconds: number): HeaderPair {
    // An odd factor, so that neither of the two alone decides about the place.
    const place = (remaining + seconds * 37) & (REMEMBERED - 1);
    const before = this.told[place];
    if (before?.subject === subject && before.remaining === remaining && before.seconds === seconds) {
      return before.pair;
    }
    const pair = this.spell(subject, remaining, seconds);
    this.told[place] = { subject, remaining, seconds, pair };
    return pair;
  }
}

const LIMIT = new NumberHeader('X-RateLimit-Limit');
const REMAINING = new NumberHeader('X-RateLimit-Remaining');
const RESET = new NumberHeader('X-RateLimit-Reset');
const USED = new NumberHeader('X-RateLimit-Used');
const SERVICE = new QuotaHeader<PolicyTexts>(({ name }, remaining, seconds) => [
  'RateLimit',
  `${name};r=${fieldInteger(remaining)};t=${fieldInteger(seconds)}`,
]);

type Field = (decision: Decision, limits: readonly Limit[]) => HeaderPair;

/** What a policy has to say in one of the `draft` fields. */
type Member = (verdict: Verdict, limit: Limit) => HeaderPair;

/** What every response has of a style. */
const FIELDS: Readonly<Record<HeaderStyle, readonly Field[]>> = {
  draft: [listOf('RateLimit-Policy', policyMember), listOf('RateLimit', serviceMember)],
  legacy: [
    ({ limit }) => LIMIT.with(limit),
    ({ remaining }) => REMAINING.with(remaining),
    ({ resetAfterMs }) => RESET.with(wholeSeconds(resetAfterMs)),
  ],
  github: [
    ({ limit }) => LIMIT.with(limit),
    ({ remaining }) => REMAINING.with(remaining),
    // The wall clock: the header is a time of day.
    ({ resetAfterMs }) => RESET.with(wholeSeconds(Date.now() + resetAfterMs)),
    ({ limit, remaining }) => USED.with(limit - remaining),
    ({ policy }) => ['X-RateLimit-Resource', printable(policy)],
  ],
  none: [],
};

const PARTITIONED_DRAFT: readonly Field[] = [
  listOf('RateLimit-Policy', partitioned(policyMember)),
  listOf('RateLimit', partitioned(serviceMember)),
];

function listOf(name: string, member: Member): Field {
  return ({ verdicts }, limits) => {
    const [first] = verdicts;
    // Nearly every decision is about one limit: nothing has to be joined then.
    if (first !== undefined && verdicts.length === 1) return member(first, limitOf(first, limits[0]));
    const members = verdicts.map((verdict, at) => member(verdict, limitOf(verdict, limits[at])));
    return [name, members.map(([, value]) => value).join(', ')];
  };
}

function partitioned(member: Member): Member {
  return (verdict, limit) => {
    const [name, value] = member(verdict, limit);
    return [name, `${value};pk=${partition(verdict.key)}`];
  };
}

function limitOf(verdict: Verdict, limit: Limit | undefined): Limit {
  if (limit?.policy.name === verdict.policy) return limit;
  throw new LimiterError(
    'INVALID_LIMITS',
    `The decision is about policy ${show(verdict.policy)}, but not the limits; pass the limits that were checked, in their order.`,
  );
}

function policyMember(_: Verdict, { policy, plan }: Limit): HeaderPair {
  return textsOf(policy.name, plan).policy;
}

function serviceMember(verdict: Verdict, { policy, plan }: Limit): HeaderPair {
  // A slot may come back at any moment: only who was denied is told a wait, the longest.
  if (plan.algorithm.slots !== undefined && verdict.allowed)
    return ['RateLimit', `${textsOf(policy.name, plan).name};r=${fieldInteger(verdict.remaining)}`];
  const seconds = wholeSeconds(effectiveWindowMs(verdict, plan));
  return SERVICE.with(textsOf(policy.name, plan), verdict.remaining, seconds);
}

/** What is the same in every response. */
interface PolicyTexts {
  readonly name: string;
  readonly policy: HeaderPair;
}

/** Made once per plan, which belongs to one policy's name. */
const knownTexts = new WeakMap<Plan, PolicyTexts>();

function textsOf(policyName: string, plan: Plan): PolicyTexts {
  const known = knownTexts.get(plan);
  if (known !== undefined) return known;
  const name = fieldString(policyName);
  const texts: PolicyTexts = { name, policy: ['RateLimit-Policy', `${name};${advertisement(plan)}`] };
  knownTexts.set(plan, texts);
  return texts;
}

/** What is in flight has no window: a unit of the draft's says what is counted instead. */
function advertisement(plan: Plan): string {
  if (plan.algorithm.slots !== undefined) return `q=${fieldInteger(plan.limit)};qu="concurrent-requests"`;
  const { quota, windowSeconds } = advertisedQuota(plan);
  return `q=${fieldInteger(quota)};w=${fieldInteger(windowSeconds)}`;
}

/**
 * For how long there is no more than `remaining`. A denied request is told its wait, so that `Retry-After` never lies
 * before the end of this window (§6 of the draft); an empty bucket is told when the next token comes; otherwise it is
 * the time until everything is back, which is on the safe side.
 */
function effectiveWindowMs(verdict: Verdict, { algorithm, numbers }: Plan): number {
  if (!verdict.allowed && verdict.retryAfterMs !== Infinity) return verdict.retryAfterMs;
  if (verdict.remaining > 0) return verdict.resetAfterMs;
  return Math.max(0, verdict.resetAfterMs - algorithm.advertise(numbers).afterFirstUnitUs / 1000);
}

/** Twelve bytes tell partitions apart; the key itself stays here. */
const PARTITION_DIGITS = 24;

function partition(key: string): string {
  return fieldBytes(sha256Hex(key).slice(0, PARTITION_DIGITS));
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

// The three kinds of Structured Fields (RFC 9651) that rate limit headers are made of. A value that cannot be written
// throws: what reaches a header never depends on an earlier check.
/** RFC 9651 §3.3.1: fifteen digits. */
const MAX_INTEGER = 999_999_999_999_999;
const PRINTABLE = /^[\x20-\x7e]*$/;

function fieldString(text: string): string {
  return `"${printable(text).replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/** A text that can stand in a header as it is. */
function printable(text: string): string {
  if (PRINTABLE.test(text)) return text;
  throw new LimiterError(
    'INVALID_POLICY',
    `A header cannot carry ${show(text)}; name the policy in printable ASCII, such as 'api'.`,
  );
}

/** A count, cut off at the largest that a field can carry: a quota beyond it is as good as that. */
function fieldInteger(value: number): string {
  if (!Number.isInteger(value) || value < 0) {
    throw new LimiterError(
      'INVALID_LIMITS',
      `A header cannot carry ${show(value)}; expected an integer >= 0.`,
    );
  }
  return String(Math.min(value, MAX_INTEGER));
}

/** Bytes, given as hexadecimal digits. */
function fieldBytes(hex: string): string {
  const characters = Array.from({ length: hex.length / 2 }, (_, at) =>
    String.fromCharCode(Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16)),
  );
  return `:${btoa(characters.join(''))}:`;
}

const SECOND_US = 1_000_000;

/** A policy as a client has to understand it: so many units in so many seconds. */
interface AdvertisedQuota {
  readonly quota: number;
  readonly windowSeconds: number;
}

/**
 * The shortest whole number of seconds in which a used-up limit is as new, and what the policy admits in that time in
 * the long run. So `quota / windowSeconds` is the policy's rate, and `quota` is never below what may be left of it.
 */
function advertisedQuota({ algorithm, limit, numbers }: Plan): AdvertisedQuota {
  const { refillUs, unitsIn } = algorithm.advertise(numbers);
  const windowSeconds = Math.ceil(refillUs / SECOND_US);
  return { quota: Math.max(limit, Math.floor(unitsIn(windowSeconds * SECOND_US))), windowSeconds };
}
