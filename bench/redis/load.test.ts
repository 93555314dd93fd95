import { expect, test } from 'vitest';

import type { Awaitable } from '../frame/awaitable.ts';
import type { Subject } from './candidate.ts';
import { Load, type Arrival } from './load.ts';
import { mixedWorkload } from './workload.ts';

const BUDGET_MS = 5;
/** One of the peers denies by an error. */
const DENIAL = new Error('denied');

/** Answers in the next turn, and remembers how many were in flight at once. */
class Probe {
  underWay = 0;
  most = 0;
  asked = 0;

  answering(answer: () => boolean): Awaitable {
    return {
      call: async () => {
        this.asked++;
        this.underWay++;
        this.most = Math.max(this.most, this.underWay);
        await new Promise((resolve) => setImmediate(resolve));
        this.underWay--;
        return answer();
      },
      allowed: (answered: boolean) => answered,
      denied: (reason) => reason === DENIAL,
    };
  }
}

function subjectOf(ample: Awaitable, tight: Awaitable): Subject {
  return { ample, tight, close: async () => undefined };
}

function denying(): boolean {
  throw DENIAL;
}

test.each<Arrival>(['steady', 'bursts'])('%s traffic has as many under way as it says', async (arrival) => {
  const probe = new Probe();
  const subject = subjectOf(
    probe.answering(() => true),
    probe.answering(denying),
  );

  const answered = await new Load(subject).run(
    { workload: mixedWorkload(), arrival, inFlight: 12 },
    BUDGET_MS,
  );

  expect(probe.most).toBe(12);
  expect(answered.operations).toBe(probe.asked);
  expect(answered.elapsedMs).toBeGreaterThanOrEqual(BUDGET_MS);
  expect(answered.latencyUs.p50).toBeGreaterThan(0);
});

test.each([
  ['an allowed request that has to be denied', () => true, () => true],
  ['a denied request that has to be allowed', () => false, () => false],
])('%s ends the measurement', async (_what, ample, tight) => {
  const probe = new Probe();
  const load = new Load(subjectOf(probe.answering(ample), probe.answering(tight)));

  const running = load.run({ workload: mixedWorkload(), arrival: 'steady', inFlight: 20 }, BUDGET_MS);

  await expect(running).rejects.toThrow(/was (?:allowed|denied)/);
});

test('an error that is no denial ends the measurement', async () => {
  const probe = new Probe();
  const failing = probe.answering(() => {
    throw new Error('no connection');
  });

  const running = new Load(subjectOf(failing, failing)).run(
    { workload: mixedWorkload(), arrival: 'bursts', inFlight: 2 },
    BUDGET_MS,
  );

  await expect(running).rejects.toThrow('no connection');
});
