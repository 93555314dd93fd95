import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES } from './model/index.ts';
import { anyCost, nextUs, programFor, startUs } from './model/program.ts';

const WAITS = 10_000;
const WAITS_PER_PROGRAM = 25;
/** Far more than any program needs; without it a wrong answer could keep the client asking for ever. */
const MAX_REQUESTS = 10_000;

describe.each(ALGORITHM_NAMES)('%s', (name) => {
  test(`a client that waits exactly retryAfter is admitted the first time, ${WAITS} of ${WAITS}`, () => {
    const failures: string[] = [];
    let early = 0;
    let onTime = 0;
    for (let number = 0; number < WAITS / WAITS_PER_PROGRAM; number += 1) {
      for (const wait of obedientClient(name, number)) {
        if (wait.isEarlyDenied) early += 1;
        if (wait.isAdmitted) onTime += 1;
        if (!wait.isEarlyDenied || !wait.isAdmitted) failures.push(wait.label);
      }
    }

    expect(failures.slice(0, 10)).toEqual([]);
    expect({ early, onTime }).toEqual({ early: WAITS, onTime: WAITS });
  });
});

interface Wait {
  readonly label: string;
  /** One microsecond before the promised moment the request was still denied. */
  readonly isEarlyDenied: boolean;
  readonly isAdmitted: boolean;
}

/** Asks until it is denied, waits as long as it was told to, asks again, and so on, on one key. */
function obedientClient(name: AlgorithmName, number: number): readonly Wait[] {
  const program = programFor(name, number);
  const { subject } = program;
  const waits: Wait[] = [];
  let engine = subject.engine();
  let nowUs = startUs(program);
  let remaining = subject.limit;
  for (let request = 0; request < MAX_REQUESTS && waits.length < WAITS_PER_PROGRAM; request += 1) {
    const cost = anyCost(program, remaining);
    const outcome = engine.check(cost, nowUs);
    const promisedUs = nowUs + outcome.retryAfterUs;
    if (promisedUs > MAX_TIME_US) {
      // The clock ends before the promised moment: begin again at its other end.
      engine = subject.engine();
      nowUs = 0;
    } else if (outcome.retryAfterUs > 0) {
      const isEarlyDenied = !engine.check(cost, promisedUs - 1).allowed;
      const admission = engine.check(cost, promisedUs);
      waits.push({
        label: `${program.label}: cost ${cost} at ${nowUs}, told to wait ${outcome.retryAfterUs} us`,
        isEarlyDenied,
        isAdmitted: admission.allowed,
      });
      nowUs = promisedUs;
      remaining = admission.remaining;
    } else {
      nowUs = nextUs(program, { cost, nowUs, answer: outcome });
      remaining = outcome.remaining;
    }
  }
  return waits;
}
