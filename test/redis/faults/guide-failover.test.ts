// The settings of the deployment guide, on a master with two replicas that sentinels watch: no single failure stops the
// decisions.
import { readFile } from 'node:fs/promises';
import type { RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startReplicated, type RedisServer, type Replicated } from '../servers.ts';
import { FaultRun } from './fault-run.ts';

/** Errors come at once; only a machine that stands still could make a check wait that long. */
const DEADLINE_MS = 500;
const TEST_TIMEOUT_MS = 90_000;
/** For how long decisions go on after a failure, beyond what a replica may be behind. */
const CHECKS_AFTERWARDS = 2000;

let group: Replicated;
let run: FaultRun;

/** What stands in the guide, word by word. */
async function settingsOfTheGuide(): Promise<readonly string[]> {
  const guide = await readFile(new URL('../../../docs/redis-deployment.md', import.meta.url), 'utf8');
  const [, block = ''] = /## Settings\n+```text\n([^`]*)```/.exec(guide) ?? [];
  if (!block.includes('min-replicas-to-write 1')) throw new Error('the settings are not where they were');
  return block.split('\n').filter((line) => line !== '');
}

beforeEach(async () => {
  group = await startReplicated({ replicas: 2, config: await settingsOfTheGuide() });
  const options: RedisStoreOptions = {
    sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName },
  };
  await eventually('the master accepts writes', async () => isWritable(group.servers[0]));
  run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
}, TEST_TIMEOUT_MS);

afterEach(async () => {
  await run.close();
  await group.stop();
});

describe('with the settings of the deployment guide and two replicas', { timeout: TEST_TIMEOUT_MS }, () => {
  test('decisions go on when a replica dies', async () => {
    const [master, , replica] = group.servers;

    await run.endure(async () => {
      await replica?.kill();
      await eventually('the master has noticed', async () => (await goodReplicasOf(master)) === 1);
      const since = run.checks;
      await eventually('time has passed', () => run.checks >= since + CHECKS_AFTERWARDS);
    });

    expect(refusals()).toEqual([]);
  });

  test('decisions go on when the master dies: its successor has a replica, and needs no other', async () => {
    const [master] = group.servers;

    const report = await run.suffer({
      strike: () => master.kill(),
      heal: () => group.promotionAfter(master),
    });
    const successor = await group.master();
    if (successor === undefined) throw new Error('there is no successor');
    await eventually('the other replica follows it', async () => (await goodReplicasOf(successor)) === 1);
    const { length } = run.answers;
    await run.endure(async () => {
      const since = run.checks;
      await eventually('time has passed', () => run.checks >= since + CHECKS_AFTERWARDS);
    });

    expect(report.after.nodes[0]).toMatchObject({ name: `127.0.0.1:${successor.port}`, status: 'up' });
    expect(run.answers.slice(length).filter(({ decision }) => decision.degraded)).toEqual([]);
  });
});

/** Why the failure policy answered, where it did. */
function refusals(): readonly string[] {
  return run.answers
    .filter(({ decision }) => decision.degraded)
    .map(({ decision: { cause } }) => String(cause));
}

async function goodReplicasOf(server: RedisServer): Promise<number> {
  const state = String(await server.command('INFO', 'replication'));
  return Number(/min_slaves_good_slaves:(\d+)/.exec(state)?.[1]);
}

async function isWritable(server: RedisServer): Promise<boolean> {
  return (await server.command('SET', 'written', 'yes')) === 'OK';
}
