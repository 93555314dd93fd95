import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES } from './model/index.ts';
import { programFor, type Program } from './model/program.ts';

const PROGRAMS = 200;
const REQUESTS = 40;
const TODAY_US = 1_760_000_000_000_000;

interface Reading {
  readonly nowUs: number;
  /** What was admitted then; 0 for a denial. */
  readonly admitted: number;
}

describe.each(ALGORITHM_NAMES)('%s', (name) => {
  test('one clock: no stretch of time gets more than the policy says', () => {
    const excesses = runAll(name, () => 0, excessOverSpan);

    expect(excesses).toEqual([]);
  });

  test('two clocks whose requests arrive out of order get no more than one clock over the same span', () => {
    const excesses = runAll(
      name,
      ({ random, subject }) => random.pick([1, random.magnitude(1, subject.toleratedUs)]),
      excessOverSpan,
    );

    expect(excesses).toEqual([]);
  });

  test('clocks however far apart get no more than one clock that goes forward as far as they do together', () => {
    const excesses = runAll(
      name,
      ({ random, subject }) => random.magnitude(1, 5 * subject.spanUs),
      excessOverWay,
    );

    expect(excesses).toEqual([]);
  });
});

type FindExcess = (program: Program, readings: readonly Reading[]) => string | undefined;

function runAll(
  name: AlgorithmName,
  skewUs: (program: Program) => number,
  findExcess: FindExcess,
): readonly string[] {
  const programs = Array.from({ length: PROGRAMS }, (_, number) => programFor(name, number));
  return programs.flatMap((program) => {
    const readings = takeGreedily(program, skewUs(program));
    const excesses = readings.map((_, first) => findExcess(program, readings.slice(first)));
    return excesses.filter((excess) => excess !== undefined).slice(0, 1);
  });
}

/** Two greedy clients on one key, the second with a clock that is `skewUs` ahead. */
function takeGreedily({ random, subject }: Program, skewUs: number): readonly Reading[] {
  const engine = subject.engine();
  const readings: Reading[] = [];
  let trueUs = TODAY_US;
  let retryAfterUs = 0;
  for (let request = 0; request < REQUESTS && trueUs + skewUs <= MAX_TIME_US; request += 1) {
    trueUs += random.pick([0, 1, retryAfterUs, retryAfterUs, random.magnitude(1, subject.spanUs)]);
    const nowUs = Math.min(MAX_TIME_US, random.chance(0.5) ? trueUs : trueUs + skewUs);
    const available = engine.peek(0, nowUs).remaining;
    const cost = Math.max(1, random.pick([available, available, 1, random.integer(0, available)]));
    const outcome = engine.check(cost, nowUs);
    readings.push({ nowUs, admitted: outcome.allowed ? cost : 0 });
    retryAfterUs = outcome.retryAfterUs;
  }
  return readings;
}

/** Every run of admissions has to stay within what the span of its clock readings allows. */
function excessOverSpan({ subject, label }: Program, readings: readonly Reading[]): string | undefined {
  let total = 0n;
  let fromUs = Infinity;
  let toUs = 0;
  for (const { admitted, nowUs } of readings.filter((reading) => reading.admitted > 0)) {
    total += BigInt(admitted);
    fromUs = Math.min(fromUs, nowUs);
    toUs = Math.max(toUs, nowUs);
    const most = subject.mostBetween(fromUs, toUs);
    if (total > most) return `${label}: ${total}, at most ${most} allowed in [${fromUs}, ${toUs}]`;
  }
  return undefined;
}

/** Every run of admissions has to stay within what the way forward through all readings allows. */
function excessOverWay({ subject, label }: Program, readings: readonly Reading[]): string | undefined {
  let total = 0n;
  for (const [at, { admitted }] of readings.entries()) {
    total += BigInt(admitted);
    const wayUs = readings.slice(0, at + 1).map(({ nowUs }) => nowUs);
    const most = subject.mostAlong(wayUs);
    if (total > most) return `${label}: ${total}, at most ${most} allowed along ${wayUs.join(', ')}`;
  }
  return undefined;
}
