import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES } from './model/index.ts';
import { programFor, type Program } from './model/program.ts';

const PROGRAMS = 200;
const REQUESTS = 40;
const TODAY_US = 1_760_000_000_000_000;

interface Admission {
  readonly cost: number;
  readonly nowUs: number;
}

describe.each(ALGORITHM_NAMES)('%s', (name) => {
  test('one clock: no stretch of time gets more than the policy says', () => {
    const excesses = runAll(name, () => 0);

    expect(excesses).toEqual([]);
  });

  test('two clocks whose requests arrive out of order get no more than one clock over the same span', () => {
    const excesses = runAll(name, ({ random, subject }) =>
      random.pick([1, random.magnitude(1, 3 * subject.spanUs)]),
    );

    expect(excesses).toEqual([]);
  });
});

function runAll(name: AlgorithmName, skewUs: (program: Program) => number): readonly string[] {
  const programs = Array.from({ length: PROGRAMS }, (_, number) => programFor(name, number));
  return programs.flatMap((program) => findExcesses(program, takeGreedily(program, skewUs(program))));
}

/** Two greedy clients on one key, the second with a clock that is `skewUs` ahead. */
function takeGreedily({ random, subject }: Program, skewUs: number): readonly Admission[] {
  const engine = subject.engine();
  const admissions: Admission[] = [];
  let trueUs = TODAY_US;
  let retryAfterUs = 0;
  for (let request = 0; request < REQUESTS && trueUs + skewUs <= MAX_TIME_US; request += 1) {
    trueUs += random.pick([0, 1, retryAfterUs, retryAfterUs, random.magnitude(1, subject.spanUs)]);
    const nowUs = Math.min(MAX_TIME_US, random.chance(0.5) ? trueUs : trueUs + skewUs);
    const available = engine.peek(0, nowUs).remaining;
    const cost = Math.max(1, random.pick([available, available, 1, random.integer(0, available)]));
    const outcome = engine.check(cost, nowUs);
    if (outcome.allowed) admissions.push({ cost, nowUs });
    retryAfterUs = outcome.retryAfterUs;
  }
  return admissions;
}

/** Every run of admissions, from any one to any later one, has to stay within what its clock readings allow. */
function findExcesses({ subject, label }: Program, admissions: readonly Admission[]): readonly string[] {
  const excesses: string[] = [];
  for (let first = 0; first < admissions.length; first += 1) {
    let total = 0n;
    let fromUs = Infinity;
    let toUs = 0;
    for (const { cost, nowUs } of admissions.slice(first)) {
      total += BigInt(cost);
      fromUs = Math.min(fromUs, nowUs);
      toUs = Math.max(toUs, nowUs);
      const most = subject.mostBetween(fromUs, toUs);
      if (total > most) excesses.push(`${label}: ${total}, at most ${most} allowed in [${fromUs}, ${toUs}]`);
    }
  }
  return excesses.slice(0, 1);
}
