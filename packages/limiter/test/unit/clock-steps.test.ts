import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import { requireVerdicts } from '../../src/store-answer.ts';
import { createLimiter, leakyBucket, memoryStore, tokenBucket, type Policy } from '../../src/index.ts';
import { SAMPLE_POLICIES } from '../../src/testing/sample-policies.ts';
import { virtualClock } from '../../src/testing/virtual-clock.ts';
import { runs } from '../../../../test/runs.ts';

const TENS = Object.values(SAMPLE_POLICIES).flatMap(({ ten }) => ten ?? []);
const HOUR_US = 3_600_000_000;

test.each(TENS)('a clock that steps back an hour locks nobody out for longer: $algorithm', (policy) => {
  for (const spent of [1, 10]) {
    const clock = virtualClock();
    const limiter = createLimiter({ store: memoryStore({ clock }), clock });
    limiter.checkSync(policy.for('k'), { cost: spent });

    clock.set(clock() - HOUR_US);
    const denied = limiter.checkSync(policy.for('k'), { cost: 10 });

    expect(denied.allowed).toBe(false);
    // Ten come back in a minute; the sliding counter takes up to two.
    expect(denied.retryAfterMs).toBeLessThanOrEqual(120_000);
    clock.advance(denied.retryAfterMs);
    expect(limiter.checkSync(policy.for('k'), { cost: 10 }).allowed).toBe(true);
  }
});

test.each(TENS)(
  'a clock that steps back and returns gives what refills in its way forward: $algorithm',
  (policy) => {
    const clock = virtualClock();
    const limiter = createLimiter({ store: memoryStore({ clock }), clock });
    let admitted = 0;
    const take = (): void => {
      while (limiter.checkSync(policy.for('k')).allowed) admitted += 1;
    };
    take();

    clock.set(clock() - HOUR_US);
    take();
    clock.advance('90s');
    take();

    // Ten at first; the bound of each algorithm for a way of 90 s beyond them.
    expect(admitted).toBeLessThanOrEqual(10 + 20);
  },
);

test('a huge rate, a step back and another rate give a wait that can be waited for', () => {
  const clock = virtualClock();
  const limiter = createLimiter({ store: memoryStore({ clock }), clock });
  const fast = tokenBucket({ name: 'p', average: 999_999_937, burst: 1000, period: '1s' });
  const wide = tokenBucket({ name: 'p', average: 1_000_000_000, burst: 1e12, period: '1s' });
  limiter.checkSync(fast.for('k'), { cost: 1000 });

  clock.set(clock() - 20_000_000);
  const denied = limiter.checkSync(wide.for('k'), { cost: 1e12 });

  expect(denied.allowed).toBe(false);
  expect(denied.retryAfterMs).toBeGreaterThan(0);
  clock.advance(denied.retryAfterMs);
  expect(limiter.checkSync(wide.for('k'), { cost: 1e12 }).allowed).toBe(true);
});

test('huge rates, steps of the clock and changes of numbers never give an answer that cannot be', () => {
  const numbers = fc.record({
    average: fc.oneof(fc.integer({ min: 1, max: 2 ** 40 }), fc.constantFrom(999_999_937, 1_000_000_000)),
    burst: fc.integer({ min: 1, max: 2 ** 40 }),
    period: fc.constantFrom(0.001, 1, 1000, 86_400_000, 3650 * 86_400_000),
    isQueue: fc.boolean(),
  });
  const stepUs = fc.oneof(fc.integer({ min: -(2 ** 52), max: 2 ** 52 }), fc.integer({ min: -1e9, max: 1e9 }));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(numbers, stepUs, fc.integer({ min: 0, max: 2 ** 41 })), { maxLength: 6 }),
      (steps) => {
        const states = new Map<string, AnyState | undefined>();
        let nowUs = 2 ** 51;
        for (const [given, step, cost] of steps) {
          const policy = policyOf(given);
          if (policy === undefined) continue;
          nowUs = Math.min(2 ** 52, Math.max(0, nowUs + step));
          const { algorithm, numbers: compiled } = policy.plan;
          const state = states.get(algorithm.name);
          const outcome = algorithm.decide(state, compiled, cost, nowUs);
          expect(() => requireVerdicts([outcome], 1)).not.toThrow();
          const next = outcome.allowed ? outcome.spent : outcome.carried;
          states.set(algorithm.name, next ?? state);
        }
      },
    ),
    { numRuns: runs(5000) },
  );
});

interface Drawn {
  readonly average: number;
  readonly burst: number;
  readonly period: number;
  readonly isQueue: boolean;
}

/** Undefined where the numbers cannot be counted exactly, which is refused by design. */
function policyOf({ average, burst, period, isQueue }: Drawn): Policy | undefined {
  try {
    return isQueue
      ? leakyBucket({ name: 'p', average, period, maxDelay: Math.min(burst, 3650 * 86_400_000) })
      : tokenBucket({ name: 'p', average, burst, period });
  } catch {
    return undefined;
  }
}
