// The timed loops. This module is loaded once per contender, so that each gets compiled for its own calls only;
// shared loops would turn into indirect calls as soon as the second contender runs.

import type { Awaitable } from '../frame/awaitable.ts';
import type { Keys } from '../frame/keys.ts';
import type { Slice } from '../frame/rounds.ts';

/** Decisions between two looks at the clock. */
const BATCH = 256;

export interface Decisions extends Slice {
  readonly allowed: number;
}

export interface Loops {
  readonly decideFor: typeof decideFor;
  readonly awaitFor: typeof awaitFor;
}

export function decideFor(budgetMs: number, keys: Keys, decide: (key: string) => boolean): Decisions {
  const startMs = performance.now();
  let operations = 0;
  let allowed = 0;
  let elapsedMs = 0;
  while (elapsedMs < budgetMs) {
    if (decide(keys.next())) allowed++;
    operations++;
    if (operations % BATCH === 0) elapsedMs = performance.now() - startMs;
  }
  return { operations, allowed, elapsedMs };
}

export async function awaitFor<Answer>(
  budgetMs: number,
  keys: Keys,
  subject: Awaitable<Answer>,
): Promise<Decisions> {
  const startMs = performance.now();
  let operations = 0;
  let allowed = 0;
  let elapsedMs = 0;
  while (elapsedMs < budgetMs) {
    try {
      const answer = await subject.call(keys.next());
      if (subject.allowed(answer)) allowed++;
    } catch (reason) {
      if (!subject.denied(reason)) throw reason;
    }
    operations++;
    if (operations % BATCH === 0) elapsedMs = performance.now() - startMs;
  }
  return { operations, allowed, elapsedMs };
}
