import { expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import * as library from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { isAtMost, rational } from '../model/rational.ts';
import { mostOwed } from './ledger.ts';
import { runReservations, type ProgramResult } from './program.ts';
import { reservationSubjects } from './subjects.ts';

const STEPS = 400;

async function runInMemory(seed: number, overuse?: number): Promise<ProgramResult> {
  const clock = virtualClock();
  const limiter = library.createLimiter({ clock });
  const subjects = reservationSubjects(library);
  return runReservations({
    limiter,
    clock,
    subjects,
    seed,
    steps: STEPS,
    ...(overuse === undefined ? {} : { overuse }),
  });
}

test(
  '100,000 random decisions, with reservations settled in between, are those of the exact ledgers',
  { timeout: 120_000 },
  async () => {
    const wanted = runs(100_000);
    const seen = { decisions: 0, debts: 0, uncharged: 0, expired: 0 };
    for (let seed = 1; seen.decisions < wanted; seed += 1) {
      const { decisions, debts, uncharged, expired } = await runInMemory(seed);
      seen.decisions += decisions;
      seen.debts += debts;
      seen.uncharged += uncharged;
      seen.expired += expired;
    }

    expect(Math.min(seen.debts, seen.uncharged, seen.expired)).toBeGreaterThan(100);
  },
);

test('what was used, at what it cost in the end, is what the bucket alone would have admitted: refunds mint nothing', async () => {
  for (let seed = 1; seed <= runs(100); seed += 1) {
    const { entries } = await runInMemory(seed, 1);
    for (const [policy, charged] of entries) {
      if (policy.name !== 'bucket' && policy.name !== 'thirds') continue;
      const average = policy.name === 'bucket' ? 10 : 3;
      expect(isAtMost(mostOwed(charged, average, 1_000_000), rational(policy.limit))).toBe(true);
    }
  }
});
