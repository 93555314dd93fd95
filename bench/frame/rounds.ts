import { setImmediate as nextTurn } from 'node:timers/promises';

import { collectYoungGarbage } from './machine.ts';

/** One uninterrupted run of one contender. */
export interface Slice {
  readonly operations: number;
  readonly elapsedMs: number;
}

export interface Contender {
  readonly id: string;
  readonly slice: (budgetMs: number) => Slice | Promise<Slice>;
}

export interface Plan {
  /** Rounds that count; one more runs before them and is thrown away. */
  readonly rounds: number;
  readonly sliceMs: number;
}

/**
 * Lets every contender run one slice per round, so that a machine that slows down or speeds up hits all of
 * them alike. Answers the median nanoseconds per operation of each contender.
 */
export async function interleave(
  contenders: readonly Contender[],
  plan: Plan,
): Promise<ReadonlyMap<string, number>> {
  const samples = new Map<string, number[]>(contenders.map(({ id }) => [id, []]));
  for (let round = 0; round <= plan.rounds; round++) {
    for (const contender of rotated(contenders, round)) {
      const nsPerOperation = await measure(contender, plan.sliceMs);
      if (round > 0) samples.get(contender.id)?.push(nsPerOperation);
    }
  }
  return new Map([...samples].map(([id, values]) => [id, median(values)]));
}

async function measure(contender: Contender, sliceMs: number): Promise<number> {
  await nextTurn();
  collectYoungGarbage();
  const { elapsedMs, operations } = await contender.slice(sliceMs);
  return (elapsedMs * 1e6) / operations;
}

/** Another contender starts each round: nobody always runs after the same neighbour's garbage. */
function rotated<Item>(items: readonly Item[], by: number): readonly Item[] {
  const first = by % items.length;
  return [...items.slice(first), ...items.slice(0, first)];
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  return (upper + lower) / 2;
}
