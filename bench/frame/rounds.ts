import { setImmediate as nextTurn } from 'node:timers/promises';

import { collectYoungGarbage } from './machine.ts';

/** One uninterrupted run of one contender. */
export interface Slice {
  readonly operations: number;
  readonly elapsedMs: number;
}

export interface Contender<Result extends Slice = Slice> {
  readonly id: string;
  readonly slice: (budgetMs: number) => Result | Promise<Result>;
}

export interface Plan {
  /** Rounds that count; one more runs before them and is thrown away. */
  readonly rounds: number;
  readonly sliceMs: number;
}

/**
 * Lets every contender run one slice per round, so that a machine that slows down or speeds up hits all of
 * them alike. Answers the slices of each contender that count.
 */
export async function runRounds<Result extends Slice>(
  contenders: readonly Contender<Result>[],
  plan: Plan,
): Promise<ReadonlyMap<string, readonly Result[]>> {
  const slices = new Map<string, Result[]>(contenders.map(({ id }) => [id, []]));
  for (let round = 0; round <= plan.rounds; round++) {
    for (const contender of rotated(contenders, round)) {
      await nextTurn();
      collectYoungGarbage();
      const slice = await contender.slice(plan.sliceMs);
      if (round > 0) slices.get(contender.id)?.push(slice);
    }
  }
  return slices;
}

/** Runs the rounds and answers the median nanoseconds per operation of each contender. */
export async function interleave(
  contenders: readonly Contender[],
  plan: Plan,
): Promise<ReadonlyMap<string, number>> {
  const slices = await runRounds(contenders, plan);
  return new Map([...slices].map(([id, ofOne]) => [id, median(ofOne.map(nsPerOperation))]));
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  return (upper + lower) / 2;
}

function nsPerOperation({ elapsedMs, operations }: Slice): number {
  return (elapsedMs * 1e6) / operations;
}

/** Another contender starts each round: nobody always runs after the same neighbour's garbage. */
function rotated<Item>(items: readonly Item[], by: number): readonly Item[] {
  const first = by % items.length;
  return [...items.slice(first), ...items.slice(0, first)];
}
