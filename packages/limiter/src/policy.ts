import { MAX_TIME_US } from './algorithms/algorithm.ts';
import { ALGORITHMS, type AlgorithmName, type AnyNumbers } from './algorithms/index.ts';
import { compileBucket } from './bucket-rate.ts';
import { parseDuration, type Duration } from './duration.ts';
import { LimiterError, show } from './errors.ts';
import { requireFailurePolicy, type FailurePolicy } from './failure-policy.ts';
import { toStateKey } from './key.ts';
import { Limit, planOf, type Plan, type Policy } from './limit.ts';

export interface TokenBucketNumbers {
  /** Tokens that come back per `period`: an integer >= 1. */
  readonly average: number;
  /** Tokens a full bucket holds, and the largest cost: an integer >= 1. Default: `average`. */
  readonly burst?: number | undefined;
  readonly period: Duration;
}

export interface LeakyBucketNumbers {
  /** Units that leave the queue per `period`: an integer >= 1. */
  readonly average: number;
  readonly period: Duration;
  /** The longest wait a request is queued for; 0 admits only what can go at once. */
  readonly maxDelay: Duration;
}

export interface WindowNumbers {
  /** Units admitted per `window`: an integer >= 1. */
  readonly quota: number;
  readonly window: Duration;
}

export interface FixedWindowNumbers extends WindowNumbers {
  /** Shifts the window edges, from 0 to less than `window`. Default: 0, edges at multiples of `window` since 1970. */
  readonly offset?: Duration | undefined;
}

export interface PolicyOptions {
  /** 1 to 64 letters, digits, `_`, `-` or `.`; it names the policy in state keys, headers and metrics. */
  readonly name: string;
  /** Who answers for this policy while the store cannot. Default: the limiter's `failurePolicy`. */
  readonly failurePolicy?: FailurePolicy | undefined;
}

export const MAX_OVERRIDES = 100_000;

/** Admits bursts of up to `burst`, and `average` per `period` in the long run. */
export function tokenBucket(definition: PolicyOptions & TokenBucketNumbers): Policy<TokenBucketNumbers> {
  const { name, failurePolicy, ...numbers } = accept('tokenBucket', definition);
  return new DefinedPolicy(
    { name, failurePolicy, algorithm: 'tokenBucket', compile: compileTokenBucket },
    numbers,
  );
}

/** A queue that lets `average` per `period` through, evenly spaced: an allowed request waits `decision.delayMs`. */
export function leakyBucket(definition: PolicyOptions & LeakyBucketNumbers): Policy<LeakyBucketNumbers> {
  const { name, failurePolicy, ...numbers } = accept('leakyBucket', definition);
  return new DefinedPolicy(
    { name, failurePolicy, algorithm: 'leakyBucket', compile: compileLeakyBucket },
    numbers,
  );
}

/** Counts within windows aligned to the clock. Cheap; admits up to 2 * `quota` around an edge. */
export function fixedWindow(definition: PolicyOptions & FixedWindowNumbers): Policy<FixedWindowNumbers> {
  const { name, failurePolicy, ...numbers } = accept('fixedWindow', definition);
  return new DefinedPolicy(
    { name, failurePolicy, algorithm: 'fixedWindow', compile: compileFixedWindow },
    numbers,
  );
}

/** At most `quota` in *any* window, at 16 bytes per admission; above a quota of 1000 in steps of a thousandth window. */
export function slidingWindowLog(definition: PolicyOptions & WindowNumbers): Policy<WindowNumbers> {
  const { name, failurePolicy, ...numbers } = accept('slidingWindowLog', definition);
  return new DefinedPolicy(
    { name, failurePolicy, algorithm: 'slidingWindowLog', compile: compileSlidingWindowLog },
    numbers,
  );
}

/** Weighs the previous window into the current one: constant memory, at most quota * (1 + d / window) in any span d. */
export function slidingWindowCounter(definition: PolicyOptions & WindowNumbers): Policy<WindowNumbers> {
  const { name, failurePolicy, ...numbers } = accept('slidingWindowCounter', definition);
  return new DefinedPolicy(
    { name, failurePolicy, algorithm: 'slidingWindowCounter', compile: compileSlidingWindowCounter },
    numbers,
  );
}

/** Numbers checked and turned into integers, and the part of the state id that depends on them. */
type Compiled = { readonly numbers: AnyNumbers; readonly stateId: string };
type Compile<Numbers> = (numbers: Numbers) => Compiled;

/** What a policy keeps whatever its numbers are. */
interface Traits<Numbers> {
  readonly name: string;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly algorithm: AlgorithmName;
  readonly compile: Compile<Numbers>;
}

class DefinedPolicy<Numbers extends object> implements Policy<Numbers> {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly numbers: Numbers;
  readonly plan: Plan;
  private readonly traits: Traits<Numbers>;
  private readonly overrides = new Map<string, Plan>();

  constructor(traits: Traits<Numbers>, numbers: Numbers) {
    this.name = traits.name;
    this.algorithm = traits.algorithm;
    this.failurePolicy = traits.failurePolicy;
    this.numbers = numbers;
    this.traits = traits;
    this.plan = this.planFor(numbers);
  }

  get limit(): number {
    return this.plan.limit;
  }

  for(key: string): Limit {
    const stateKey = toStateKey(key);
    const plan = this.overrides.size === 0 ? this.plan : (this.overrides.get(stateKey) ?? this.plan);
    return new Limit(this, plan, key, stateKey);
  }

  override(key: string, numbers: Partial<Numbers> | null): this {
    const stateKey = toStateKey(key);
    if (numbers === null) {
      this.overrides.delete(stateKey);
      return this;
    }
    if (this.overrides.size >= MAX_OVERRIDES && !this.overrides.has(stateKey)) {
      throw new LimiterError(
        'TOO_MANY_OVERRIDES',
        `Policy ${show(this.name)} already has ${MAX_OVERRIDES} overrides, the most it may hold: remove some with override(key, null), or define a policy per plan.`,
      );
    }
    this.overrides.set(stateKey, this.planFor(this.merge(numbers)));
    return this;
  }

  with(numbers: Partial<Numbers>): Policy<Numbers> {
    return new DefinedPolicy(this.traits, this.merge(numbers));
  }

  private merge(numbers: Partial<Numbers>): Numbers {
    requireObject(numbers, `The numbers for policy ${show(this.name)}`);
    requireKnownFields(this.algorithm, numbers, FIELDS[this.algorithm]);
    return { ...this.numbers, ...numbers };
  }

  private planFor(numbers: Numbers): Plan {
    const compiled = this.traits.compile(numbers);
    const stateId = `${this.name}/${this.algorithm}${compiled.stateId}`;
    return planOf(ALGORITHMS[this.algorithm], compiled.numbers, stateId);
  }
}

const FIELDS: Readonly<Record<AlgorithmName, readonly string[]>> = {
  tokenBucket: ['average', 'burst', 'period'],
  leakyBucket: ['average', 'period', 'maxDelay'],
  fixedWindow: ['quota', 'window', 'offset'],
  slidingWindowLog: ['quota', 'window'],
  slidingWindowCounter: ['quota', 'window'],
};

export const NAME_PATTERN: RegExp = /^[A-Za-z0-9_.-]{1,64}$/;

/** A definition with known fields, a usable name and failure policy; its numbers are checked when they are compiled. */
function accept<Definition extends PolicyOptions>(
  algorithm: AlgorithmName,
  definition: Definition,
): Definition {
  requireObject(definition, `The argument of ${algorithm}()`);
  requireKnownFields(algorithm, definition, ['name', ...FIELDS[algorithm], 'failurePolicy']);
  const { name, failurePolicy } = definition;
  if (typeof name !== 'string' || !NAME_PATTERN.test(name)) {
    throw new LimiterError(
      'INVALID_POLICY',
      `name is ${show(name)}; a policy's name has 1 to 64 letters, digits, '_', '-' or '.', such as 'api'.`,
    );
  }
  requireFailurePolicy(failurePolicy, 'INVALID_POLICY');
  return definition;
}

function requireObject(value: unknown, what: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new LimiterError(
      'INVALID_POLICY',
      `${what} is ${show(value)}; expected an object with the policy's numbers.`,
    );
  }
}

function requireKnownFields(algorithm: AlgorithmName, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((field) => !known.includes(field));
  if (unknown === undefined) return;
  throw new LimiterError(
    'INVALID_POLICY',
    `${algorithm}() does not know ${show(unknown)}; it takes ${known.join(', ')}: correct the spelling or leave it out.`,
  );
}

function compileTokenBucket({ average, burst, period }: TokenBucketNumbers): Compiled {
  const tokens = count('average', average, MAX_COUNT);
  const limit = burst === undefined ? tokens : count('burst', burst, MAX_COUNT);
  const periodUs = duration('period', period, 1);
  return {
    numbers: compileBucket({ average: tokens, periodUs, tokens: limit, delayUs: 0 }),
    stateId: '',
  };
}

function compileLeakyBucket({ average, period, maxDelay }: LeakyBucketNumbers): Compiled {
  const tokens = count('average', average, MAX_COUNT);
  const periodUs = duration('period', period, 1);
  const delayUs = duration('maxDelay', maxDelay, 0);
  return { numbers: compileBucket({ average: tokens, periodUs, tokens: 1, delayUs }), stateId: '' };
}

function compileFixedWindow({ quota, window, offset }: FixedWindowNumbers): Compiled {
  const limit = count('quota', quota, MAX_COUNT);
  const windowUs = duration('window', window, 1);
  const offsetUs = offset === undefined ? 0 : duration('offset', offset, 0, windowUs - 1);
  return { numbers: { limit, windowUs, offsetUs }, stateId: `/${windowUs}/${offsetUs}` };
}

/** Up to this quota a log keeps every admission at its own microsecond. */
const EXACT_LOG_QUOTA = 1000;
/** Above it, the window is cut into this many steps: at least 99.9 % of the quota can be used. */
const LOG_STEPS = 1000;

function compileSlidingWindowLog({ quota, window }: WindowNumbers): Compiled {
  const limit = count('quota', quota, MAX_COUNT);
  const windowUs = duration('window', window, 1);
  const stampUs = limit <= EXACT_LOG_QUOTA ? 1 : Math.ceil(windowUs / LOG_STEPS);
  return { numbers: { limit, windowUs, stampUs }, stateId: `/${windowUs}` };
}

function compileSlidingWindowCounter({ quota, window }: WindowNumbers): Compiled {
  const limit = count('quota', quota, MAX_COUNT);
  const windowUs = duration('window', window, 1);
  // limit * ticks has to stay an exact integer: let the previous window fade in coarser steps where it would not.
  let tickUs = 1;
  while ((limit * windowUs) / tickUs > MAX_COUNT && windowUs % (tickUs * 10) === 0) tickUs *= 10;
  if ((limit * windowUs) / tickUs > MAX_COUNT) {
    throw new LimiterError(
      'INVALID_POLICY',
      `quota is ${limit} in a window of ${windowUs} us, too large to weigh exactly (quota * window / ${tickUs} us is above ${MAX_COUNT}): lower the quota, use a rounder window such as whole seconds, or use tokenBucket().`,
    );
  }
  return { numbers: { limit, windowUs, tickUs }, stateId: `/${windowUs}` };
}

/** Half of what a double counts exactly, so that a count and a cost can be added. */
const MAX_COUNT = MAX_TIME_US;

function count(name: string, value: unknown, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max) return value;
  const hint =
    value === 0
      ? 'to refuse or admit everything, do not ask the limiter'
      : typeof value === 'number' && value > 0 && value < 1
        ? `for slower rates keep the number whole and lengthen the time, such as 1 per '10s'`
        : Number.isInteger(value)
          ? 'choose a number in this range'
          : 'give a whole number';
  throw new LimiterError(
    'INVALID_POLICY',
    `${name} is ${show(value)}; expected an integer from 1 to ${max}: ${hint}.`,
  );
}

function duration(name: string, value: unknown, minUs: number, maxUs: number = MAX_DURATION_US): number {
  return parseDuration(value, { name, minUs, maxUs });
}

/** Ten years. Windows and periods beyond it are mistakes, and the sums above stay far below 2^53. */
const MAX_DURATION_US = 3650 * 86_400_000_000;
