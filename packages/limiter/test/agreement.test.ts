import { describe, expect, test } from 'vitest';
import { ALGORITHMS } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES, MODELS } from './model/index.ts';
import type { Model } from './model/model.ts';
import { anyCost, nextUs, programFor, startUs, type Moment, type Program } from './model/program.ts';
import { answerOf, isSameAnswer, type Engine } from './model/subject.ts';
import { runs } from '../../../test/runs.ts';

const PROGRAMS = runs(500);
const DECISIONS_PER_PROGRAM = 200;
const KEYS = 3;
/** A second or two each; the rest is for busy machines. */
const TIMEOUT_MS = 60_000;
/** Requests shown before a disagreement. */
const TRAIL = 10;

test('every algorithm has a model', () => {
  expect(Object.keys(MODELS)).toEqual(Object.keys(ALGORITHMS));
  expect(ALGORITHM_NAMES).toEqual(Object.keys(ALGORITHMS));
});

describe.each(ALGORITHM_NAMES)('%s', { timeout: TIMEOUT_MS }, (name) => {
  test(`decides ${PROGRAMS * DECISIONS_PER_PROGRAM} random requests like the exact model`, () => {
    let agreed = 0;
    const disagreements: string[] = [];
    for (let number = 0; number < PROGRAMS && disagreements.length === 0; number += 1) {
      const disagreement = findDisagreement(programFor(name, number));
      if (disagreement === undefined) agreed += DECISIONS_PER_PROGRAM;
      else disagreements.push(disagreement);
    }

    expect(disagreements).toEqual([]);
    expect(agreed).toBe(PROGRAMS * DECISIONS_PER_PROGRAM);
  });
});

interface Key {
  readonly engine: Engine;
  readonly model: Model;
  readonly trail: string[];
}

/** Sends the same requests to the engine and the model until they answer differently. */
function findDisagreement(program: Program): string | undefined {
  const { random, subject, label } = program;
  const keys: readonly Key[] = Array.from({ length: KEYS }, () => ({
    engine: subject.engine(),
    model: subject.model(),
    trail: [],
  }));
  let key = random.pick(keys);
  let last: Moment | undefined;
  for (let done = 0; done < DECISIONS_PER_PROGRAM; done += 1) {
    const isSameKey = random.chance(0.7);
    if (!isSameKey) key = random.pick(keys);
    const nowUs = last === undefined ? startUs(program) : nextUs(program, last);
    const denied = isSameKey && last?.answer.allowed === false ? last : undefined;
    const retried = random.chance(0.6) ? denied : undefined;
    const cost = retried?.cost ?? anyCost(program, last?.answer.remaining ?? subject.limit);
    const actual = answerOf(key.engine.check(cost, nowUs));
    const expected = key.model.check(cost, nowUs);
    key.trail.push(`cost ${cost} at ${nowUs}: ${JSON.stringify(actual)}`);
    if (!isSameAnswer(actual, expected)) {
      const trail = key.trail.slice(-TRAIL).join('\n');
      return `${label}, decision ${done}\n${trail}\nthe model says: ${JSON.stringify(expected)}`;
    }
    last = { cost, nowUs, answer: expected };
  }
  return undefined;
}
