import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLimiter, type Policy } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { nodeFramework } from '../node-framework.ts';
import { startServer } from '../running-server.ts';
import { randomPolicy } from './random-policy.ts';

/** A clock that a test may not move further: the library counts to 2^52. */
const MOST_SECONDS = 40 * 365 * 86_400;

test('whoever obeys Retry-After is admitted the first time, whatever the policies and the cost', async () => {
  const clock = virtualClock();
  let policies: readonly Policy[] = [];
  const { get } = await startServer(nodeFramework, {
    limiter: createLimiter({ clock }),
    policies: () => policies,
    cost: (request) => Number(request.headers['x-cost']),
  });
  let denials = 0;
  let run = 0;

  await fc.assert(
    fc.asyncProperty(
      fc.tuple(randomPolicy('a'), randomPolicy('b')),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 6 }),
      async (drawn, shares) => {
        clock.set(1_767_225_600_000_000 + run);
        run += 1;
        // A queue would make its requests wait in real time; a new name makes a new state.
        policies = drawn
          .filter(({ algorithm }) => algorithm !== 'leakyBucket')
          .map((policy) => renamed(policy, run));
        if (policies.length === 0) return;
        const largest = Math.min(...policies.map(({ limit }) => limit));
        for (const share of shares) {
          const question = { headers: { 'x-cost': String(Math.max(1, Math.floor(largest * share))) } };
          const reply = await get(question);
          if (reply.status === 200) continue;
          denials += 1;
          const seconds = Number(reply.headers['retry-after']);
          if (seconds > MOST_SECONDS) return;
          clock.set(clock() + seconds * 1_000_000);
          expect((await get(question)).status).toBe(200);
        }
      },
    ),
    { numRuns: 400 },
  );
  expect(denials).toBeGreaterThan(100);
});

function renamed(policy: Policy, run: number): Policy {
  return Object.assign(policy.with({}), {
    name: `${policy.name}${run}`,
    plan: { ...policy.plan, stateId: `${policy.plan.stateId}/${run}` },
  });
}
