import { keyName } from '#limiter/stores/redis/protocol.js';
import { slotOf } from '#limiter/stores/redis/slot.js';
import type { Limit } from 'spillgate';
import type { RedisStoreOptions } from 'spillgate/redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, startCluster, type Cluster } from '../servers.ts';
import { expectAccounted } from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { NEIGHBOURING_LIMITS, SINGLE_LIMITS, TWO_SIDED_LIMITS } from './traffic.ts';

/**
 * Nothing is wrong in a reshard, so that nothing may fail: only a machine that stands still could make a check wait.
 */
const PATIENT_MS = 5000;
const SLOTS_TO_MOVE = 5;
const PREFIX = 'spillgate:';

let cluster: Cluster;
let options: RedisStoreOptions;

beforeAll(async () => {
  cluster = await startCluster(3);
  options = { cluster: { urls: cluster.nodes.map(({ url }) => url) } };
});

afterAll(async () => {
  await cluster.stop();
});

describe('a reshard under load', () => {
  test.each([
    { what: 'one limit', limits: SINGLE_LIMITS, redirections: ['ASK', 'MOVED'] },
    {
      what: 'two limits in one slot',
      limits: NEIGHBOURING_LIMITS,
      redirections: ['ASK', 'MOVED', 'TRYAGAIN'],
    },
    { what: 'two limits in different slots', limits: TWO_SIDED_LIMITS, redirections: ['ASK', 'MOVED'] },
  ])('is noticed by no check of $what', async ({ limits, redirections }) => {
    const run = await FaultRun.start(options, 'failClosed', PATIENT_MS);
    const before = await answered();
    try {
      await run.endure(async () => moveSlots(limits, () => run.checks), limits);

      const after = await answered();
      const seen = redirections.filter((code) => (after.get(code) ?? 0) > (before.get(code) ?? 0));
      expect(seen).toEqual(redirections);
      expect(run.answers.filter(({ decision }) => decision.degraded)).toEqual([]);
      await expectAccounted(options, run.answers);
      expect(await run.limiter.health()).toMatchObject({ status: 'up', nodes: [{}, {}, {}] });
    } finally {
      await run.close();
    }
  });
});

/** Moves slots of these limits to the next master, one key at a time, with checks coming in at every step. */
async function moveSlots(limits: readonly (readonly Limit[])[], checks: () => number): Promise<void> {
  const slots = [...new Set(limits.flat().map((limit) => slotOf(keyName(PREFIX, limit))))];
  for (const slot of slots.slice(0, SLOTS_TO_MOVE)) {
    const owner = await cluster.ownerOf(slot);
    const target = cluster.masters[(cluster.masters.indexOf(owner) + 1) % cluster.masters.length] ?? owner;
    const move = await cluster.beginSlotMove(slot, target);
    await move.moveKeys(1);
    await pass(limits.length * 3, checks);
    await move.moveKeys();
    await pass(limits.length * 3, checks);
    await move.finish();
  }
}

/** Long enough for every key to be asked for. */
async function pass(count: number, checks: () => number): Promise<void> {
  const from = checks();
  await eventually(`${count} more checks are answered`, () => checks() >= from + count);
}

/** How often the nodes have answered each error so far. */
async function answered(): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const node of cluster.nodes) {
    const stats = String(await node.command('INFO', 'errorstats'));
    for (const [, code = '', count] of stats.matchAll(/errorstat_(\w+):count=(\d+)/g)) {
      counts.set(code, (counts.get(code) ?? 0) + Number(count));
    }
  }
  return counts;
}
