import { describe, expect, test } from 'vitest';
import type { Algorithm } from './algorithm.ts';
import type { Case } from './cases.ts';
import { fixedWindowCases } from './fixed-window.cases.ts';
import { fixedWindowAlgorithm } from './fixed-window.ts';
import { leakyBucketCases } from './leaky-bucket.cases.ts';
import { leakyBucketAlgorithm } from './leaky-bucket.ts';
import { slidingWindowCounterCases } from './sliding-window-counter.cases.ts';
import { slidingWindowCounterAlgorithm } from './sliding-window-counter.ts';
import { slidingWindowLogCases } from './sliding-window-log.cases.ts';
import { slidingWindowLogAlgorithm } from './sliding-window-log.ts';
import { tokenBucketCases } from './token-bucket.cases.ts';
import { tokenBucketAlgorithm } from './token-bucket.ts';

describeCases(tokenBucketAlgorithm, tokenBucketCases);
describeCases(leakyBucketAlgorithm, leakyBucketCases);
describeCases(fixedWindowAlgorithm, fixedWindowCases);
describeCases(slidingWindowLogAlgorithm, slidingWindowLogCases);
describeCases(slidingWindowCounterAlgorithm, slidingWindowCounterCases);

function describeCases<Numbers, State>(
  algorithm: Algorithm<Numbers, State>,
  cases: readonly Case<Numbers, State>[],
): void {
  describe(`${algorithm.name} cases`, () => {
    test.each(cases)('$name', ({ numbers, state, nowUs, cost, expected }) => {
      const before = structuredClone(state);

      const { carried: _, ...outcome } = algorithm.decide(state, numbers, cost, nowUs);

      expect(outcome).toEqual({ delayUs: 0, spent: undefined, ...expected });
      expect(state, 'a decision never changes the state it was given').toEqual(before);
    });
  });
}
