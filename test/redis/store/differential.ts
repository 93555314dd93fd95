import type { AnyState } from '#limiter/algorithms/algorithm.js';
import { keyName } from '#limiter/stores/redis/protocol.js';
import type { Redis } from 'ioredis';
import {
  calendarQuota,
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limit,
  type Policy,
  type Store,
  type StoreVerdict,
} from 'spillgate';
import { redisStore, type RedisClient } from 'spillgate/redis';
import { seededRandom, virtualClock, type Random, type VirtualClock } from 'spillgate/testing';
import { expectCheck, expectPeek, toVerdict } from './model.ts';
import { packState, unpackState } from './packed-state.ts';
import { takeSnapshot, type Snapshot, type StoredValue } from './snapshot.ts';

export interface Differential {
  /** Carries the store's commands. */
  readonly client: RedisClient;
  /** Looks at what the store left behind. */
  readonly raw: Redis;
  readonly prefix: string;
  readonly seed: number;
  readonly operations: number;
  /** Whose clock the store decides by: one that the program moves, or the server's own. */
  readonly time: 'injected' | 'server';
}

export interface DifferentialResult {
  readonly admitted: number;
  readonly denied: number;
  /** Decisions of which the answer, the bytes and the expiry were compared; the others only for what they wrote. */
  readonly compared: number;
}

/** Patience of the store: this run is about what it answers, not about how busy the machine is. */
const TIMEOUT_MS = 10_000;
/** How much longer a state stays when the caller brings its own clock. */
const FOREIGN_CLOCK_GRACE_MS = 3_600_000;

/**
 * Runs a seeded random program in which the numbers of policies change under live states. After each operation it
 * compares the answer, the bytes under every key and the moment they expire with what the pure functions say, and
 * throws at the first difference.
 */
export async function runDifferential(differential: Differential): Promise<DifferentialResult> {
  const run = new Run(differential);
  try {
    for (let operation = 0; operation < differential.operations; operation += 1) await run.step(operation);
  } finally {
    await run.store.close();
  }
  return run.result;
}

type Verb = 'check' | 'peek' | 'forget';

interface Step {
  readonly verb: Verb;
  readonly limits: readonly Limit[];
  readonly cost: number;
}

interface Observed {
  readonly verdicts: readonly StoreVerdict[];
  readonly before: Snapshot;
  readonly after: Snapshot;
}

class Run {
  readonly store: Store;
  readonly result = { admitted: 0, denied: 0, compared: 0 };
  readonly #options: Differential;
  readonly #random: Random;
  readonly #clock: VirtualClock = virtualClock();
  readonly #families = families();
  #last: readonly StoreVerdict[] = [];

  constructor(options: Differential) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.store = redisStore({
      client: options.client,
      prefix: options.prefix,
      timeoutMs: TIMEOUT_MS,
      ...(options.time === 'injected' ? { clock: this.#clock } : {}),
    });
  }

  async step(operation: number): Promise<void> {
    this.#moveClock();
    const step = this.#randomStep();
    const observed = await this.#observe(step);
    try {
      this.#judge(step, observed);
    } catch (cause) {
      const limits = step.limits.map(({ policy, key }) => ({
        policy: policy.name,
        key,
        numbers: policy.numbers,
      }));
      const detail = JSON.stringify({ ...step, limits, verdicts: observed.verdicts }, undefined, 2);
      const { seed, time } = this.#options;
      throw new Error(`Operation ${operation} of seed ${seed}, ${time} time: ${detail}`, { cause });
    }
  }

  async #observe({ verb, limits, cost }: Step): Promise<Observed> {
    const { raw, prefix } = this.#options;
    const keys = limits.map((limit) => keyName(prefix, limit));
    const before = await takeSnapshot(raw, keys);
    const verdicts =
      verb === 'forget' ? await this.store.forget(limits) : await this.store[verb](limits, cost);
    return { verdicts: verdicts ?? [], before, after: await takeSnapshot(raw, keys) };
  }

  #judge(step: Step, observed: Observed): void {
    const { verb, limits, cost } = step;
    const { before, after, verdicts } = observed;
    if (verb === 'forget') {
      const left = after.values.filter(({ bytes }) => bytes !== null);
      expectSame(left, [], 'what forget left');
      return;
    }
    this.#last = verdicts;
    this.result[verdicts.every(({ allowed }) => allowed) ? 'admitted' : 'denied'] += 1;
    const nowUs = this.#options.time === 'injected' ? this.#clock() : serverTimeOf(step, observed);
    if (nowUs === undefined) {
      // No state tells when the server decided: only that nothing was written can be seen.
      for (const at of limits.keys()) {
        if (!mayBeOver(verdicts[at], observed))
          expectUntouched(valueAt(before, at), valueAt(after, at), after);
      }
      return;
    }
    const stored = limits.map((limit, at) => ({ limit, state: stateIn(limit, valueAt(before, at)) }));
    const expected = (verb === 'check' ? expectCheck : expectPeek)(stored, cost, nowUs);
    this.result.compared += 1;
    expectSame(
      verdicts.map(toVerdict),
      expected.map(({ verdict }) => verdict),
      'the verdicts',
    );
    for (const [at, { limit, written, verdict }] of expected.entries()) {
      if (written === undefined) expectUntouched(valueAt(before, at), valueAt(after, at), after);
      else this.#judgeWritten(packState(limit.plan.algorithm.name, written), verdict, observed, at);
    }
  }

  #judgeWritten(
    expected: Buffer,
    { resetAfterUs }: StoreVerdict,
    { before, after }: Observed,
    at: number,
  ): void {
    const [was, is] = [valueAt(before, at), valueAt(after, at)];
    const lifeMs = Math.ceil(resetAfterUs / 1000) + this.#graceMs();
    const earliestMs = Math.floor(before.timeUs / 1000) + lifeMs;
    const latestMs = Math.floor(after.timeUs / 1000) + lifeMs;
    // A life of a millisecond may be over before anybody can look.
    if (is.bytes === null && earliestMs <= after.timeUs / 1000) return;
    // Whether a state at its end was still there is the server's to know. It decides nothing, but a log that went on
    // counts its totals on.
    const mayHaveExpired = was.bytes !== null && was.expiresAtMs <= after.timeUs / 1000;
    if (!mayHaveExpired) expectSame(is.bytes?.toString('hex'), expected.toString('hex'), 'the state');
    if (is.expiresAtMs < earliestMs || is.expiresAtMs > latestMs)
      throw new Error(`it expires at ${is.expiresAtMs}; expected ${earliestMs} to ${latestMs}`);
  }

  #graceMs(): number {
    return this.#options.time === 'injected' ? FOREIGN_CLOCK_GRACE_MS : 0;
  }

  #randomStep(): Step {
    const random = this.#random;
    const count = random.below(4) === 0 ? 2 + random.below(2) : 1;
    const first = random.below(this.#families.length);
    const limits = Array.from({ length: count }, (_, at) => {
      const family = this.#families[(first + at) % this.#families.length] ?? [];
      return random.pick(family).for(random.pick(['ann', 'bob']));
    });
    const limit = limits[0]?.plan.limit ?? 1;
    const cost = random.pick([1, 1, 1, 1, 2, 3, 0, limit, limit - 1, limit + 1]);
    const dice = random.below(50);
    return { verb: dice === 0 ? 'forget' : dice < 8 ? 'peek' : 'check', limits, cost };
  }

  #moveClock(): void {
    const random = this.#random;
    const verdict = this.#last.length === 0 ? undefined : random.pick(this.#last);
    const retryUs = Math.max(0, verdict?.retryAfterUs ?? 0);
    const resetUs = verdict?.resetAfterUs ?? 0;
    const steps = [0, 0, 0, 1, random.below(1000), random.below(50_000), retryUs, retryUs - 1];
    if (random.below(5) === 0) steps.push(resetUs, resetUs - 1);
    if (random.below(30) === 0) steps.push(-random.below(40_000));
    this.#clock.set(this.#clock() + random.pick(steps));
  }
}

/** Policies that share their state within each list: as if an operator changed the numbers again and again. */
function families(): readonly (readonly Policy[])[] {
  const bucket = tokenBucket({ name: 'bucket', average: 300, burst: 6, period: '1s' });
  const queue = leakyBucket({ name: 'queue', average: 300, period: '1s', maxDelay: 20 });
  const fixed = fixedWindow({ name: 'fixed', quota: 5, window: 30 });
  const log = slidingWindowLog({ name: 'log', quota: 5, window: 30 });
  const counter = slidingWindowCounter({ name: 'counter', quota: 5, window: 30 });
  const calendar = calendarQuota({ name: 'calendar', quota: 5, every: 'day', timeZone: 'Europe/Berlin' });
  const slots = concurrency({ name: 'slots', limit: 5, hold: 100 });
  const daily = tokenBucket({ name: 'daily', average: 7, burst: 9, period: '1d' });
  return [
    [calendar, calendar, calendar.with({ quota: 3 }), calendar.with({ quota: 9 })],
    [
      bucket,
      bucket,
      bucket.with({ burst: 3 }),
      bucket.with({ average: 70, burst: 2 }),
      bucket.with({ average: 7000 }),
    ],
    [
      queue,
      queue,
      queue.with({ maxDelay: 0 }),
      queue.with({ average: 70 }),
      queue.with({ average: 1100, maxDelay: 3 }),
    ],
    [fixed, fixed, fixed.with({ quota: 2 }), fixed.with({ offset: 7 })],
    [log, log, log.with({ quota: 2 }), log.with({ quota: 5000 })],
    [counter, counter, counter.with({ quota: 2 }), counter.with({ window: 31 })],
    [slots, slots, slots.with({ limit: 2 }), slots.with({ hold: 150 })],
    [daily, daily.with({ average: 1_234_567, burst: 1_234_567 }), daily.with({ average: 2_000_003 })],
  ];
}

/** When the server decided, by what a state says about its own end; undefined when none tells. */
function serverTimeOf({ limits }: Step, { verdicts, before, after }: Observed): number | undefined {
  const times = limits.flatMap((limit, at) => {
    const { resetAfterUs = 0 } = verdicts[at] ?? {};
    const state = stateIn(limit, valueAt(after, at));
    // A state that is over, or that was written under another rate, ends at another moment than the answer names.
    if (state === undefined || resetAfterUs === 0 || !hasRateOf(limit, state)) return [];
    return limit.plan.algorithm.absentAtUs(state, limit.plan.numbers) - resetAfterUs;
  });
  return times.find((timeUs) => timeUs >= before.timeUs && timeUs <= after.timeUs);
}

/** Whether a state written by this decision may have expired before the snapshot after it. */
function mayBeOver(verdict: StoreVerdict | undefined, { before, after }: Observed): boolean {
  return Math.ceil((verdict?.resetAfterUs ?? 0) / 1000) <= (after.timeUs - before.timeUs) / 1000 + 1;
}

/** Whether a state was written under the rate of the limit; only a debt has one. */
function hasRateOf({ plan: { algorithm, numbers } }: Limit, state: AnyState): boolean {
  const [, , tokenUnits, drainUnits] = algorithm.redis.toDoubles(state);
  const rateId = algorithm.rateId(numbers);
  return rateId === '' || rateId === `${tokenUnits}/${drainUnits}`;
}

function valueAt({ values }: Snapshot, at: number): StoredValue {
  const value = values[at];
  if (value === undefined) throw new RangeError('a snapshot has one value per key');
  return value;
}

function stateIn({ plan }: Limit, { bytes }: StoredValue): AnyState | undefined {
  return bytes === null ? undefined : unpackState(plan, bytes);
}

function expectUntouched(was: StoredValue, is: StoredValue, { timeUs }: Snapshot): void {
  if (is.bytes === null && (was.bytes === null || was.expiresAtMs <= timeUs / 1000)) return;
  expectSame(
    [is.bytes?.toString('hex'), is.expiresAtMs],
    [was.bytes?.toString('hex'), was.expiresAtMs],
    'what must stay as it was',
  );
}

function expectSame(actual: unknown, expected: unknown, what: string): void {
  const [was, should] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (was !== should) throw new Error(`${what}: expected ${should}, got ${was}`);
}
