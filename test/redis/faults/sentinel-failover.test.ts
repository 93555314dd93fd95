import type { RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startReplicated, type Replicated } from '../servers.ts';
import { expectDown, expectInTime, expectRecovery, expectStillEmpty } from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { exhaust } from './patience.ts';
import { NARROW_LIMITS } from './traffic.ts';

/** Errors come at once; only a machine that stands still could make a check wait that long. */
const DEADLINE_MS = 250;
const MAX_GAP_MS = 2000;

let group: Replicated;
let options: RedisStoreOptions;
let run: FaultRun;

beforeEach(async () => {
  group = await startReplicated();
  options = { sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName } };
  await exhaust(options, NARROW_LIMITS);
  await eventually('the replica has everything', isReplicated);
  run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
});

afterEach(async () => {
  await run.close();
  await group.stop();
});

describe('a master behind sentinels under load', () => {
  test.each(['kill', 'pause'] as const)(
    'that is gone (%s) is replaced, and its successor gives nobody a new start',
    async (violence) => {
      const [master, replica] = group.servers;
      const told: string[] = [];
      for (const event of ['nodeDown', 'nodeUp', 'nodeGone'] as const) {
        run.limiter.on(event, ({ node }) => told.push(`${event} ${node}`));
      }
      const report = await run.suffer({
        strike: () => master[violence](),
        heal: () => group.promotionAfter(master),
      });

      expectInTime(report);
      // Sentinels that answer decide nothing: the store is down without a master.
      expectDown(report);
      expectRecovery(report);
      expect(report.after.nodes[0]?.name).toBe(`127.0.0.1:${replica.port}`);
      // Whoever heard that it is down hears how that ended.
      const ofMaster = told.filter((line) => line.endsWith(`:${master.port}`));
      expect(ofMaster.map((line) => line.split(' ')[0]).slice(-2)).toEqual(['nodeDown', 'nodeGone']);
      expectStillEmpty(NARROW_LIMITS, run.answers);
    },
  );

  test('that swaps roles with its replica is followed at once', async () => {
    const [, replica] = group.servers;

    await run.endure(() => group.failover());

    const gap = run.answers.filter(({ decision }) => decision.degraded).map(({ atMs }) => atMs);
    expect((gap.at(-1) ?? 0) - (gap[0] ?? 0)).toBeLessThan(MAX_GAP_MS);
    expect((await run.limiter.health()).nodes[0]).toMatchObject({
      name: `127.0.0.1:${replica.port}`,
      status: 'up',
    });
    expectStillEmpty(NARROW_LIMITS, run.answers);
  });
});

async function isReplicated(): Promise<boolean> {
  const state = String(await group.servers[0].command('INFO', 'replication'));
  const written = /master_repl_offset:(\d+)/.exec(state)?.[1];
  return written !== undefined && state.includes(`,offset=${written},`);
}
