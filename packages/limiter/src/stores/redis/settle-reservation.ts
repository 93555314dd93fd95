import type { AdjustedLimit, Adjustment } from '../store.ts';
import type { Group } from './composed-check.ts';
import { settledKeyName } from './protocol.ts';

/** A settlement on its way: its id, what it changes, and the names of keys. */
export interface SettlementRequest {
  readonly id: string;
  readonly prefix: string;
  readonly adjustments: readonly Adjustment[];
}

/** One script call per group, each with a memory of its own: whichever of them failed, all may be sent again. */
export async function settleGroups(
  groups: readonly Group[],
  { id, prefix, adjustments }: SettlementRequest,
): Promise<readonly AdjustedLimit[]> {
  const adjusted: AdjustedLimit[] = [];
  await Promise.all(
    groups.map(async ({ shard, keys, places }) => {
      const own = places.flatMap((place) => adjustments[place] ?? []);
      const settled = await shard.batches.settle([settledKeyName(prefix, keys[0] ?? '', id), ...keys], own);
      settled.forEach((each, at) => {
        adjusted[places[at] ?? 0] = each;
      });
    }),
  );
  return adjusted;
}
