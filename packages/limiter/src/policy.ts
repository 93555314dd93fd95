import { MAX_COUNT, type OptionValues, type PolicyOption } from './algorithms/algorithm.ts';
import {
  calendarQuotaAlgorithm,
  type CalendarQuotaNumbers,
} from './algorithms/calendar-quota/calendar-quota.ts';
import { concurrencyAlgorithm, type ConcurrencyNumbers } from './algorithms/concurrency/concurrency.ts';
import { fixedWindowAlgorithm, type FixedWindowNumbers } from './algorithms/fixed-window/fixed-window.ts';
import type { AlgorithmName, AnyAlgorithm } from './algorithms/index.ts';
import { leakyBucketAlgorithm, type LeakyBucketNumbers } from './algorithms/leaky-bucket/leaky-bucket.ts';
import { slidingWindowCounterAlgorithm } from './algorithms/sliding-window-counter/sliding-window-counter.ts';
import { slidingWindowLogAlgorithm } from './algorithms/sliding-window-log/sliding-window-log.ts';
import { tokenBucketAlgorithm, type TokenBucketNumbers } from './algorithms/token-bucket/token-bucket.ts';
import type { WindowNumbers } from './algorithms/window.ts';
import type { PenaltyNumbers } from './algorithms/penalty/penalty.ts';
import { parseDuration } from './duration.ts';
import { LimiterError, show } from './errors.ts';
import { requireFailurePolicy, type FailurePolicy } from './failure-policy.ts';
import { acceptBlock, requireNoLeases, type BlockOptions } from './policy-block.ts';
import { toStateKey, Limit, planOf, type LeaseMode, type Plan, type Policy } from './limit.ts';

export interface PolicyOptions {
  /** 1 to 64 letters, digits, `_`, `-` or `.`; it names the policy in state keys, headers and metrics. */
  readonly name: string;
  /** Who answers for this policy while the store cannot. Default: the limiter's `failurePolicy`. */
  readonly failurePolicy?: FailurePolicy | undefined;
  /**
   * How far `reservation.settle()` may charge a key above its limit: an integer from 0. What was used beyond it is
   * reported and not charged. Default: as much as the limit itself.
   */
  readonly maxDebt?: number | undefined;
  /**
   * Who is denied `after` times `within` a time is denied everything `for` a time: `{ after: 5, within: '1m', for:
   * '15m' }`. Default: a denial has no consequences.
   */
  readonly block?: BlockOptions | undefined;
}

export interface LeasingOptions extends PolicyOptions {
  /**
   * Lets a process take some tokens of a busy key in advance and decide alone, without admitting one request more. For
   * stores that wait for a network. With `'auto'` only while at least half of the limit is left. Default: false.
   */
  readonly leases?: LeaseMode | undefined;
}

export const MAX_OVERRIDES = 100_000;

/** Admits bursts of up to `burst`, and `average` per `period` in the long run. */
export function tokenBucket(definition: LeasingOptions & TokenBucketNumbers): Policy<TokenBucketNumbers> {
  return definePolicy(tokenBucketAlgorithm, definition);
}

/** A queue that lets `average` per `period` through, evenly spaced: an allowed request waits `decision.delayMs`. */
export function leakyBucket(definition: PolicyOptions & LeakyBucketNumbers): Policy<LeakyBucketNumbers> {
  return definePolicy(leakyBucketAlgorithm, definition);
}

/** Counts within windows aligned to the clock. Cheap; admits up to 2 * `quota` around an edge. */
export function fixedWindow(definition: LeasingOptions & FixedWindowNumbers): Policy<FixedWindowNumbers> {
  return definePolicy(fixedWindowAlgorithm, definition);
}

/**
 * At most `quota` in *any* window, at 16 bytes per admission; above a quota of 1000 in steps of a thousandth window.
 */
export function slidingWindowLog(definition: LeasingOptions & WindowNumbers): Policy<WindowNumbers> {
  return definePolicy(slidingWindowLogAlgorithm, definition);
}

/** Weighs the previous window into the current one: constant memory, at most quota * (1 + d / window) in any span d. */
export function slidingWindowCounter(definition: LeasingOptions & WindowNumbers): Policy<WindowNumbers> {
  return definePolicy(slidingWindowCounterAlgorithm, definition);
}

/**
 * Counts within calendar days, weeks, months or years of a time zone, or for life. Admits up to 2 * `quota` around an
 * edge.
 */
export function calendarQuota(
  definition: PolicyOptions & CalendarQuotaNumbers,
): Policy<CalendarQuotaNumbers> {
  return definePolicy(calendarQuotaAlgorithm, definition);
}

/**
 * At most `limit` in flight at once: take a slot with `limiter.acquire()`. One whose process died is free after `hold`.
 */
export function concurrency(
  definition: Omit<PolicyOptions, 'maxDebt'> & ConcurrencyNumbers,
): Policy<ConcurrencyNumbers> {
  return definePolicy(concurrencyAlgorithm, definition);
}

/** What every policy function does; the values are checked. */
export function definePolicy<Numbers extends object>(
  algorithm: AnyAlgorithm,
  definition: LeasingOptions & Numbers,
): Policy<Numbers> {
  const accepted = acceptDefinition(algorithm, definition);
  const { name, failurePolicy, maxDebt, block, leases, ...numbers } = accepted;
  const traits = { name, failurePolicy, maxDebt, block, leases: acceptLeases(leases), algorithm };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what is left of a definition are its numbers
  return new DefinedPolicy(traits, numbers as unknown as Numbers);
}

/** The options of an algorithm that are no numbers. */
function ownOptions(algorithm: AnyAlgorithm): readonly string[] {
  return [
    ...(algorithm.leases === undefined ? [] : ['leases']),
    ...(algorithm.loosen === undefined ? [] : ['maxDebt']),
  ];
}

function acceptLeases(leases: unknown): LeaseMode {
  if (leases === undefined) return false;
  if (typeof leases === 'boolean' || leases === 'auto') return leases;
  throw new LimiterError('INVALID_POLICY', `leases is ${show(leases)}; expected true, false or 'auto'.`);
}

/** What a policy keeps whatever its numbers are. */
interface PolicyTraits {
  readonly name: string;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly maxDebt?: number | undefined;
  readonly block?: BlockOptions | undefined;
  readonly leases?: LeaseMode;
  readonly algorithm: AnyAlgorithm;
}

class DefinedPolicy<Numbers extends object> implements Policy<Numbers> {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly leases: LeaseMode;
  readonly maxDebt: number | undefined;
  readonly numbers: Numbers;
  readonly plan: Plan;
  private readonly traits: PolicyTraits;
  private readonly penalty: PenaltyNumbers | undefined;
  private readonly overrides = new Map<string, Plan>();
  /** The first policy that this one has other numbers of: a key that is blocked there is blocked here. */
  private readonly origin: DefinedPolicy<Numbers> | undefined;

  constructor(traits: PolicyTraits, numbers: Numbers, origin?: DefinedPolicy<Numbers>) {
    this.name = traits.name;
    this.algorithm = traits.algorithm.name;
    this.failurePolicy = traits.failurePolicy;
    this.leases = traits.leases ?? false;
    this.maxDebt = traits.maxDebt;
    this.numbers = numbers;
    this.traits = traits;
    this.origin = origin;
    this.penalty = acceptBlock(traits.block);
    if (this.penalty !== undefined) requireNoLeases(traits.leases);
    this.plan = this.planFor(numbers);
  }

  get limit(): number {
    return this.plan.limit;
  }

  for(key: string): Limit {
    const stateKey = toStateKey(key);
    const plan = this.overrides.size === 0 ? this.plan : (this.overrides.get(stateKey) ?? this.plan);
    return new Limit(
      this,
      this.origin === undefined ? plan : this.blockedPlan(plan, stateKey),
      key,
      stateKey,
    );
  }

  private blockedPlan(plan: Plan, stateKey: string): Plan {
    const blockedUntilUs = plan.blockedUntilUs ?? this.origin?.overrides.get(stateKey)?.blockedUntilUs;
    return blockedUntilUs === plan.blockedUntilUs ? plan : { ...plan, blockedUntilUs };
  }

  override(key: string, numbers: Partial<Numbers> | null): this {
    const stateKey = toStateKey(key);
    const blockedUntilUs = this.overrides.get(stateKey)?.blockedUntilUs;
    const plan = numbers === null ? this.plan : this.planFor(this.merge(numbers));
    return this.keep(stateKey, blockedUntilUs === undefined ? plan : { ...plan, blockedUntilUs });
  }

  block(key: string, untilMs: number | null): this {
    const stateKey = toStateKey(key);
    const known = this.overrides.get(stateKey);
    const blockedUntilUs = untilMs === null ? undefined : acceptMoment(untilMs) * 1000;
    if (known?.blockedUntilUs === blockedUntilUs) return this;
    // The numbers of an override stay; those of the policy are its own plan again.
    const isOverridden = known !== undefined && known.numbers !== this.plan.numbers;
    const plan = isOverridden ? known : this.plan;
    const isPlain = blockedUntilUs === undefined && !isOverridden;
    return this.keep(stateKey, isPlain ? plan : { ...plan, blockedUntilUs });
  }

  /** The policy's own plan needs no entry. */
  private keep(stateKey: string, plan: Plan): this {
    if (plan === this.plan) {
      this.overrides.delete(stateKey);
      return this;
    }
    if (this.overrides.size >= MAX_OVERRIDES && !this.overrides.has(stateKey)) {
      throw new LimiterError(
        'TOO_MANY_OVERRIDES',
        `Policy ${show(this.name)} already has ${MAX_OVERRIDES} overrides and blocks, the most it may hold: remove some with override(key, null) or block(key, null), or define a policy per plan.`,
      );
    }
    this.overrides.set(stateKey, plan);
    return this;
  }

  with(numbers: Partial<Numbers>): Policy<Numbers> {
    return new DefinedPolicy(this.traits, this.merge(numbers), this.origin ?? this);
  }

  private merge(numbers: Partial<Numbers>): Numbers {
    const { algorithm } = this.traits;
    requireObject(numbers, `The numbers for policy ${show(this.name)}`);
    requireKnownOptions(algorithm, numbers, Object.keys(algorithm.options));
    return { ...this.numbers, ...numbers };
  }

  private planFor(numbers: Numbers): Plan {
    const { algorithm } = this.traits;
    const compiled = algorithm.compile(readOptions(algorithm, numbers));
    const stateId = `${this.name}/${algorithm.redis.number}${compiled.stateId}`;
    return planOf(algorithm, compiled.numbers, stateId, this.penalty);
  }
}

function acceptMoment(untilMs: unknown): number {
  if (typeof untilMs === 'number' && untilMs >= 0) return untilMs;
  throw new LimiterError(
    'INVALID_OPTION',
    `The end of a block is ${show(untilMs)}; expected milliseconds since 1970, such as Date.now() + 60_000, Infinity, or null to end it.`,
  );
}

/** Counts, choices and names as they are, durations in microseconds; throws at the first that cannot be. */
export function readOptions(
  algorithm: AnyAlgorithm,
  given: object,
): OptionValues<Readonly<Record<string, unknown>>> {
  const texts = new Map<string, unknown>(Object.entries(given));
  const values: Record<string, number | string> = {};
  for (const [name, option] of Object.entries(algorithm.options)) {
    const value = texts.get(name);
    if (value === undefined && option.optional === true) continue;
    values[name] = readOption(name, option, value, values[option.shorterThan ?? '']);
  }
  return values;
}

function readOption(
  name: string,
  { kind, most, leastUs = 1, choices = [] }: PolicyOption,
  value: unknown,
  longerUs: number | string | undefined,
): number | string {
  if (kind === 'count') return readCount(name, value, most);
  if (kind === 'choice') return readChoice(name, value, choices);
  if (kind === 'timeZone') return readTimeZone(name, value);
  const maxUs = typeof longerUs === 'number' ? longerUs - 1 : MAX_DURATION_US;
  return parseDuration(value, { name, minUs: leastUs, maxUs });
}

export const NAME_PATTERN: RegExp = /^[A-Za-z0-9_.-]{1,64}$/;

/**
 * A definition with known options, a usable name and failure policy; its numbers are checked when they are compiled.
 */
function acceptDefinition<Definition extends PolicyOptions>(
  algorithm: AnyAlgorithm,
  definition: Definition,
): Definition {
  requireObject(definition, `The argument of ${algorithm.name}()`);
  const known = [
    'name',
    ...Object.keys(algorithm.options),
    ...ownOptions(algorithm),
    'block',
    'failurePolicy',
  ];
  requireKnownOptions(algorithm, definition, known);
  const { name, failurePolicy } = definition;
  if (typeof name !== 'string' || !NAME_PATTERN.test(name)) {
    throw new LimiterError(
      'INVALID_POLICY',
      `name is ${show(name)}; a policy's name has 1 to 64 letters, digits, '_', '-' or '.', such as 'api'.`,
    );
  }
  requireFailurePolicy(failurePolicy, 'INVALID_POLICY');
  requireMaxDebt(definition.maxDebt);
  return definition;
}

function requireMaxDebt(maxDebt: number | undefined): void {
  if (maxDebt === undefined) return;
  if (Number.isInteger(maxDebt) && maxDebt >= 0 && maxDebt <= MAX_COUNT) return;
  throw new LimiterError(
    'INVALID_POLICY',
    `maxDebt is ${show(maxDebt)}; expected an integer from 0 to ${MAX_COUNT}: the most that a reservation may be charged above the limit.`,
  );
}

function requireObject(value: unknown, what: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new LimiterError(
      'INVALID_POLICY',
      `${what} is ${show(value)}; expected an object with the policy's numbers.`,
    );
  }
}

function requireKnownOptions(algorithm: AnyAlgorithm, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((option) => !known.includes(option));
  if (unknown === undefined) return;
  throw new LimiterError(
    'INVALID_POLICY',
    `${algorithm.name}() does not know ${show(unknown)}; it takes ${known.join(', ')}: correct the spelling or leave it out.`,
  );
}

function readChoice(name: string, value: unknown, choices: readonly string[]): string {
  if (typeof value === 'string' && choices.includes(value)) return value;
  throw new LimiterError(
    'INVALID_POLICY',
    `${name} is ${show(value)}; choose one of ${choices.map(show).join(', ')}.`,
  );
}

/** Which names there are is for the algorithm to find out. */
function readTimeZone(name: string, value: unknown): string {
  if (typeof value === 'string' && TIME_ZONE_PATTERN.test(value)) return value;
  throw new LimiterError(
    'INVALID_POLICY',
    `${name} is ${show(value)}; expected a name of the IANA time zone database, such as 'Europe/Berlin' or 'UTC'.`,
  );
}

/** Without the offsets that some engines take for zones: they have no days of 23 hours. */
const TIME_ZONE_PATTERN = /^[A-Za-z][A-Za-z0-9_+/-]{1,63}$/;

function readCount(name: string, value: unknown, most = MAX_COUNT): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most) return value;
  const isAmount = most === MAX_COUNT;
  const hint =
    value === 0 && isAmount
      ? 'to refuse or admit everything, do not ask the limiter'
      : typeof value === 'number' && value > 0 && value < 1 && isAmount
        ? `for slower rates keep the number whole and lengthen the time, such as 1 per '10s'`
        : Number.isInteger(value)
          ? 'choose a number in this range'
          : 'give a whole number';
  throw new LimiterError(
    'INVALID_POLICY',
    `${name} is ${show(value)}; expected an integer from 1 to ${most}: ${hint}.`,
  );
}

/** Ten years. Windows and periods beyond it are mistakes, and every sum of them stays far below 2^53. */
const MAX_DURATION_US = 3650 * 86_400_000_000;
