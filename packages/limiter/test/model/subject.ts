import type { AnyNumbers, AnyState, Outcome } from '../../src/algorithms/algorithm.ts';
import type { AnyAlgorithm } from '../../src/algorithms/index.ts';
import { modelOf, type Answer, type Definition, type Model } from './model.ts';
import type { Random } from './random.ts';

/** One key decided by the engine, with its state kept the way a store keeps it. */
export interface Engine {
  check(cost: number, nowUs: number): Outcome<unknown>;
  peek(cost: number, nowUs: number): Outcome<unknown>;
  /** The first moment at which a store may drop the state; `undefined` without a state. */
  absentAtUs(): number | undefined;
  drop(): void;
  copy(): Engine;
}

/** One policy as the engine and as the model see it. */
export interface Subject {
  /** The numbers, for the message of a failure. */
  readonly label: string;
  /** The largest cost that can ever fit. */
  readonly limit: number;
  /** About how long the effect of a used-up limit lasts. */
  readonly spanUs: number;
  engine(): Engine;
  model(): Model;
  mostBetween(fromUs: number, toUs: number): bigint;
  mostAlong(readingsUs: readonly number[]): bigint;
  readonly toleratedUs: number;
}

/** What an algorithm promises, decided a second time: by definition, in exact fractions. */
export interface AlgorithmModel {
  /** Policies that are known to be hard: rounding, extremes, primes. */
  awkward(): readonly Subject[];
  /** Any policy; may throw what the public functions throw. */
  random(random: Random): Subject;
}

export function subjectOf<History>(given: {
  readonly numbers: object;
  readonly algorithm: AnyAlgorithm;
  readonly compiled: AnyNumbers;
  readonly definition: Definition<History>;
  readonly spanUs: number;
}): Subject {
  const { algorithm, compiled, definition, spanUs } = given;
  return {
    label: `${algorithm.name} ${JSON.stringify(given.numbers)}`,
    limit: definition.limit,
    spanUs,
    engine: () => engineOf(algorithm, compiled, undefined),
    model: () => modelOf(definition),
    mostBetween: (fromUs, toUs) => definition.mostBetween(fromUs, toUs),
    mostAlong: (readingsUs) => definition.mostAlong(readingsUs),
    toleratedUs: definition.toleratedUs,
  };
}

function engineOf(algorithm: AnyAlgorithm, numbers: AnyNumbers, initial: AnyState | undefined): Engine {
  let state = initial;
  return {
    check(cost, nowUs) {
      const outcome = algorithm.decide(state, numbers, cost, nowUs);
      // Frozen: an algorithm that changed the state it was given would throw.
      const next = outcome.allowed ? outcome.spent : outcome.carried;
      if (next !== undefined) state = Object.freeze(next);
      return outcome;
    },
    peek: (cost, nowUs) => algorithm.decide(state, numbers, cost, nowUs),
    absentAtUs: () => (state === undefined ? undefined : algorithm.absentAtUs(state, numbers)),
    drop() {
      state = undefined;
    },
    copy: () => engineOf(algorithm, numbers, state),
  };
}

/** The part of an outcome that a caller sees. */
export function answerOf({
  allowed,
  remaining,
  retryAfterUs,
  resetAfterUs,
  delayUs,
}: Outcome<unknown>): Answer {
  return { allowed, remaining, retryAfterUs, resetAfterUs, delayUs };
}

export function isSameAnswer(a: Answer, b: Answer): boolean {
  return (
    a.allowed === b.allowed &&
    a.remaining === b.remaining &&
    a.retryAfterUs === b.retryAfterUs &&
    a.resetAfterUs === b.resetAfterUs &&
    a.delayUs === b.delayUs
  );
}
