import type { Decision } from '../decision.ts';
import type { Limiter } from '../limiter.ts';
import type { Policy } from '../limit.ts';
import { fixedWindow, slidingWindowLog, tokenBucket } from '../policy.ts';
import type { Store } from '../stores/store.ts';
import { SAMPLE_POLICIES } from './sample-policies.ts';
import type { VirtualClock } from './virtual-clock.ts';

export interface Bench {
  readonly limiter: Limiter;
  readonly store: Store;
  readonly clock: VirtualClock;
}

/** A sentence that holds for every store, and the program that shows it. It throws if the sentence is not true. */
export interface Guarantee {
  readonly name: string;
  readonly run: (bench: Bench) => Promise<void>;
}

/** Ten at once under every algorithm. */
const TENS: readonly Policy[] = Object.values(SAMPLE_POLICIES).flatMap(({ ten }) => ten ?? []);

const perUser = tokenBucket({ name: 'user', average: 10, burst: 10, period: '1m' });
const perTenant = slidingWindowLog({ name: 'tenant', quota: 1, window: '1m' });

export const storeGuarantees: readonly Guarantee[] = [
  {
    name: '100 concurrent checks against a capacity of 10 pass exactly 10',
    async run({ limiter }) {
      for (const policy of TENS) {
        const decisions = await Promise.all(
          Array.from({ length: 100 }, () => limiter.check(policy.for('crowd'))),
        );
        equal(countAllowed(decisions), 10, `admissions under ${policy.name}`);
      }
    },
  },
  {
    name: 'all limits are charged or none',
    async run({ limiter }) {
      const limits = [perUser.for('ann'), perTenant.for('acme')];
      equal((await limiter.check(limits)).allowed, true, 'the first check');

      const second = await limiter.check(limits);

      equal(second.allowed, false, 'the second check');
      equal(second.policy, 'tenant', 'the policy that denied');
      equal(second.verdicts[0]?.remaining, 9, 'what the denied request left of the other limit');
      equal(
        (await limiter.peek(perUser.for('ann'))).remaining,
        9,
        'what a later look sees of the other limit',
      );
    },
  },
  {
    name: 'a client that waits exactly retryAfterMs is admitted, one that waits a microsecond less is not',
    async run({ limiter, clock }) {
      for (const policy of TENS) {
        await limiter.check(policy.for('patient'), { cost: 10 });
        const denied = await limiter.check(policy.for('patient'), { cost: 3 });
        equal(denied.allowed, false, `the check of a drained ${policy.name}`);
        const atUs = clock() + Math.round(denied.retryAfterMs * 1000);

        clock.set(atUs - 1);
        equal(
          (await limiter.check(policy.for('patient'), { cost: 3 })).allowed,
          false,
          `${policy.name} too early`,
        );
        clock.set(atUs);
        equal(
          (await limiter.check(policy.for('patient'), { cost: 3 })).allowed,
          true,
          `${policy.name} in time`,
        );
      }
    },
  },
  {
    name: 'a third of a second is neither early nor late',
    async run({ limiter, clock }) {
      const thirds = tokenBucket({ name: 'thirds', average: 3, burst: 2, period: '1s' });
      await limiter.check(thirds.for('k'), { cost: 2 });

      clock.set(clock() + 333_333);
      const early = await limiter.check(thirds.for('k'));
      clock.set(clock() + 1);
      const inTime = await limiter.check(thirds.for('k'));

      equal([early.allowed, early.retryAfterMs, early.resetAfterMs], [false, 0.001, 333.334], 'at 333333 us');
      equal([inTime.allowed, inTime.retryAfterMs, inTime.resetAfterMs], [true, 0, 666.666], 'at 333334 us');
    },
  },
  {
    name: 'an oversized cost is refused for good and locks nothing',
    async run({ limiter }) {
      for (const policy of TENS) {
        const oversized = await limiter.check(policy.for('k'), { cost: policy.limit + 1 });
        equal(
          [oversized.allowed, oversized.retryAfterMs],
          [false, Infinity],
          `an oversized cost under ${policy.name}`,
        );
        equal(
          (await limiter.check(policy.for('k'), { cost: policy.limit })).allowed,
          true,
          `the whole ${policy.name}`,
        );
      }
    },
  },
  {
    name: 'neither a look nor a denial changes anything',
    async run({ limiter, clock }) {
      for (const policy of TENS) {
        const limit = policy.for('watched');
        await limiter.check(limit, { cost: 8 });
        const before = await limiter.peek(limit);

        for (let poll = 0; poll < 50; poll += 1) {
          await limiter.check(limit, { cost: 3 });
          await limiter.check(limit, { cost: 0 });
          await limiter.peek(limit, { cost: 2 });
        }

        equal(await limiter.peek(limit), before, `${policy.name} after 150 requests that spent nothing`);
        clock.advance(before.resetAfterMs);
        equal((await limiter.peek(limit)).remaining, 10, `${policy.name} at its reset`);
      }
    },
  },
  {
    name: 'forget makes a limit as if never used, and only that limit',
    async run({ limiter }) {
      for (const policy of TENS) {
        await limiter.check(policy.for('ann'), { cost: 10 });
        await limiter.check(policy.for('bob'), { cost: 10 });

        await limiter.forget(policy.for('ann'));

        equal((await limiter.peek(policy.for('ann'))).remaining, 10, `${policy.name} of the forgotten key`);
        equal((await limiter.peek(policy.for('bob'))).remaining, 0, `${policy.name} of the other key`);
      }
    },
  },
  {
    name: 'a clock that steps back credits nothing',
    async run({ limiter, clock }) {
      for (const policy of TENS) {
        const limit = policy.for('skewed');
        await limiter.check(limit, { cost: 10 });
        for (let step = 0; step < 20; step += 1) {
          clock.set(clock() + (step % 2 === 0 ? -100_000 : 100_000));
          equal((await limiter.check(limit)).allowed, false, `${policy.name} at step ${step}`);
        }
        clock.advance('3m');
      }
    },
  },
  {
    name: 'a change of numbers keeps what was spent',
    async run({ limiter }) {
      const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });
      await limiter.check(api.for('k'), { cost: 10 });

      const raised = await limiter.peek(api.with({ burst: 15, average: 15 }).for('k'));
      const lowered = await limiter.peek(api.with({ burst: 4, average: 4 }).for('k'));

      equal(raised.remaining, 5, 'a burst raised by 5');
      equal(lowered.remaining, 0, 'a lowered burst');
    },
  },
  {
    name: 'keys never collide, whatever bytes they are made of',
    async run({ limiter }) {
      const one = fixedWindow({ name: 'one', quota: 1, window: '1m' });
      for (const key of HOSTILE_KEYS) {
        equal(
          (await limiter.check(one.for(key))).allowed,
          true,
          `the first check of ${JSON.stringify(key.slice(0, 40))}`,
        );
        equal(
          (await limiter.check(one.for(key))).allowed,
          false,
          `the second of ${JSON.stringify(key.slice(0, 40))}`,
        );
      }
    },
  },
];

const HOSTILE_KEYS: readonly string[] = [
  '__proto__',
  'constructor',
  'toString',
  'a:b',
  'a/b',
  '{x}1',
  '{x}2',
  '}{',
  '\u0000',
  '\r\n',
  '\ud800',
  '\udc00',
  '\ufffd',
  '\u00e9',
  'e\u0301',
  '~',
  ' ',
  '*',
  `${'x'.repeat(200)}1`,
  `${'x'.repeat(200)}2`,
  'y'.repeat(2 ** 20),
];

function countAllowed(decisions: readonly Decision[]): number {
  return decisions.filter((decision) => decision.allowed).length;
}

function equal(actual: unknown, expected: unknown, what: string): void {
  const [was, should] = [print(actual), print(expected)];
  if (was !== should) throw new Error(`${what}: expected ${should}, got ${was}`);
}

/** JSON writes Infinity as null, which would make two different answers look the same. */
function print(value: unknown): string {
  return JSON.stringify([value], (_, part: unknown) =>
    typeof part === 'number' ? String(part) : part,
  ).slice(1, -1);
}
