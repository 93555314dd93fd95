import { tokenBucket } from 'spillgate';
import { describe, expect, test } from 'vitest';
import { Outcome } from '../../packages/limiter/src/algorithms/algorithm.ts';
import {
  decideBucket,
  type BucketState,
  type CompiledBucket,
} from '../../packages/limiter/src/algorithms/bucket/bucket.ts';
import { mostAboveRate, mostInWindow, replayDifferences, type StoreDecision } from './admissions.ts';
import { shrink, type FaultKind, type Plan } from './plan.ts';

const RATE = 100 / 1_000_000;

/** Admitted at a known moment. */
function at(us: number, cost = 1): { cost: number; askedUs: number; answeredUs: number } {
  return { cost, askedUs: us, answeredUs: us };
}

describe('what was admitted above the rate', () => {
  test('a full bucket and its refill are its burst', () => {
    const burst = Array.from({ length: 50 }, () => at(0));
    const refill = Array.from({ length: 100 }, (_, index) => at((index + 1) * 10_000));

    expect(mostAboveRate([...refill, ...burst], RATE)).toBeCloseTo(50);
  });

  test('a second burst in the middle of a run shows, whatever came before', () => {
    const quiet = [at(0), at(10_000_000)];
    const twice = Array.from({ length: 100 }, () => at(20_000_000));

    expect(mostAboveRate([...quiet, ...twice], RATE)).toBeCloseTo(100);
  });

  test('a check that may have been admitted outside an interval does not count in it', () => {
    const surely = Array.from({ length: 50 }, () => at(1_000_000));
    const perhaps = { cost: 50, askedUs: 0, answeredUs: 1_000_000 };

    expect(mostAboveRate([...surely, perhaps], RATE)).toBeLessThan(51);
  });
});

test('the most in a window does not depend on where the window begins', () => {
  const admissions = [0, 400_000, 900_000, 1_000_000, 1_300_000].map((us) => at(us, 2));

  expect(mostInWindow(admissions, 1_000_000)).toBe(8);
});

describe('the replay', () => {
  const numbers = tokenBucket({ name: 'replay', average: 100, burst: 5, period: '1s' }).plan
    .numbers as CompiledBucket;

  function decisions(): StoreDecision[] {
    let state: BucketState | undefined;
    return Array.from({ length: 40 }, (_, index) => {
      const atUs = 1_000_000 + index * 3000;
      const { allowed, remaining, spent } = decideBucket(state, numbers, 1, atUs, new Outcome());
      if (allowed) state = spent;
      return { atUs, cost: 1, allowed, remaining };
    });
  }

  test('finds nothing in what one bucket decided, in any order', () => {
    expect(replayDifferences(decisions().toReversed(), numbers)).toBe(0);
  });

  test('finds one admission too many', () => {
    const right = decisions();
    const denied = right.findIndex(({ allowed }) => !allowed);
    const wrong = right.map((decision, index) =>
      index === denied ? { ...decision, allowed: true } : decision,
    );

    expect(replayDifferences(wrong, numbers)).toBeGreaterThan(0);
  });
});

describe('a list of faults', () => {
  const fault = (kind: FaultKind) => ({ kind, atMs: 0, forMs: 0, target: 0, byMs: 0 });
  const plan: Plan = {
    seed: 1,
    faults: [fault('failover'), fault('network cut'), fault('worker killed'), fault('network slow')],
  };

  test('is shrunk to those without which nothing fails', async () => {
    const needed: readonly FaultKind[] = ['network cut', 'network slow'];
    const shortest = await shrink(plan, async ({ faults }) =>
      needed.every((kind) => faults.some((one) => one.kind === kind)),
    );

    expect(shortest.faults.map(({ kind }) => kind)).toEqual(needed);
  });

  test('may fail only now and then', async () => {
    let runs = 0;
    const shortest = await shrink(plan, async ({ faults }) => {
      runs += 1;
      return runs % 3 === 0 && faults.some(({ kind }) => kind === 'failover');
    });

    expect(shortest.faults.map(({ kind }) => kind)).toEqual(['failover']);
  });
});
