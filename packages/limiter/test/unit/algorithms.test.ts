import { describe, expect, test } from 'vitest';
import { CASES } from '../../src/algorithms/cases.ts';
import { ALGORITHMS } from '../../src/algorithms/index.ts';

describe.each(Object.values(ALGORITHMS))('$name cases', (algorithm) => {
  test.each(CASES[algorithm.name])('$name', ({ numbers, state, nowUs, cost, expected }) => {
    const before = structuredClone(state);

    const outcome = algorithm.decide(state, numbers, cost, nowUs);

    expect(outcome).toEqual({ delayUs: 0, spent: undefined, carried: outcome.carried, ...expected });
    expect(state, 'a decision never changes the state it was given').toEqual(before);
  });
});

describe.each(Object.entries(ALGORITHMS))('%s in the protocol', (name, { redis, ...algorithm }) => {
  test('has the name under which it is listed, and a number of its own', () => {
    const numbers = Object.values(ALGORITHMS).map((each) => each.redis.number);

    expect(algorithm.name).toBe(name);
    expect(numbers.filter((number) => number === redis.number)).toEqual([redis.number]);
  });

  test('states survive being written and read', () => {
    for (const { expected, numbers } of CASES[algorithm.name]) {
      if (expected.spent === undefined) continue;
      const doubles = redis.toDoubles(expected.spent);

      expect(redis.fromDoubles(doubles, numbers)).toEqual(expected.spent);
      const more = doubles.length - redis.leastDoubles;
      expect(redis.recordDoubles === 0 ? more : more % redis.recordDoubles).toBe(0);
    }
  });
});
