import { keyName } from '#limiter/stores/redis/protocol.js';
import { slotOf } from '#limiter/stores/redis/slot.js';
import type { Limit } from 'spillgate';
import type { RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { eventually, startCluster, type Cluster, type RedisServer } from '../servers.ts';
import { CLUSTER_CLIENTS } from './cluster-clients.ts';
import {
  expectAccounted,
  expectDown,
  expectInTime,
  expectOnlyVictims,
  expectRecovery,
  expectStillEmpty,
} from './expectations.ts';
import { FaultRun } from './fault-run.ts';
import { exhaust } from './patience.ts';
import { NARROW_LIMITS, SINGLE_LIMITS, TWO_SIDED_LIMITS } from './traffic.ts';

/** Errors come at once; only a machine that stands still could make a check of another node wait that long. */
const DEADLINE_MS = 500;
/** Where nothing is wrong, nothing may fail. */
const PATIENT_MS = 5000;
const NODE_TIMEOUT_MS = 1000;
/** The other nodes are to think nothing of it. */
const PATIENT_NODE_TIMEOUT_MS = 15_000;
/** Nodes come back with everything that they have confirmed. */
const DURABLE = ['appendonly yes', 'appendfsync no'];
const PREFIX = 'spillgate:';

let cluster: Cluster;
let options: RedisStoreOptions;

beforeEach(() => {
  // How long a probe waits is a matter of chance, and what a test sees must not be: 0.3 s, 0.6 s, 1.2 s and so on.
  vi.spyOn(Math, 'random').mockReturnValue(0.3);
});

afterEach(async () => {
  await cluster.stop();
});

async function start(nodeCount: 3 | 6, config: readonly string[] = []): Promise<RedisServer> {
  cluster = await startCluster(nodeCount, { nodeTimeoutMs: NODE_TIMEOUT_MS, config });
  options = { cluster: { urls: cluster.nodes.map(({ url }) => url) } };
  return cluster.masters[0];
}

describe('a master that dies under load', () => {
  test('without a replica: CLUSTERDOWN until it is back, also for checks across slots', async () => {
    const victim = await start(3, DURABLE);
    const run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
    try {
      const report = await run.suffer({
        strike: () => victim.kill(),
        expected: ({ status, nodes }) =>
          status === 'down' && nodes.filter(({ detail }) => detail.includes('CLUSTERDOWN')).length === 2,
        heal: async () => {
          await victim.restart();
          await eventually('the cluster is complete', isComplete);
        },
        limits: [...SINGLE_LIMITS, ...TWO_SIDED_LIMITS],
      });

      expectInTime(report);
      expectDown(report);
      expect(report.causes).toContain('CLUSTERDOWN');
      expectRecovery(report);
      await expectAccounted(options, run.answers);
    } finally {
      await run.close();
    }
  });

  test('with a replica: the replica takes over, and gives nobody a new start', async () => {
    const victim = await start(6);
    await exhaust(options, NARROW_LIMITS);
    await eventually('the replicas have everything', async () => isReplicated());
    const run = await FaultRun.start(options, 'failClosed', DEADLINE_MS);
    const slot = slotServedBy(victim);
    try {
      const report = await run.suffer({
        strike: () => victim.kill(),
        expected: ({ status, nodes }) => status !== 'up' && nodes[0]?.status === 'down',
        heal: async () => {
          await eventually('the replica has taken over', async () => {
            return (await cluster.ownerOf(await slot)) === cluster.replicas[0] && (await isComplete());
          });
        },
      });

      expectInTime(report);
      expectRecovery(report);
      expect(namesOf(report.after)).not.toContain(`127.0.0.1:${victim.port}`);
      expect(namesOf(report.after)).toContain(`127.0.0.1:${cluster.replicas[0]?.port}`);
      expectStillEmpty(NARROW_LIMITS, run.answers);
    } finally {
      await run.close();
    }
  });
});

test('a planned failover is noticed by no check, and loses nothing', async () => {
  const master = await start(6);
  const [replica] = cluster.replicas;
  const slot = await slotServedBy(master);
  const run = await FaultRun.start(options, 'failClosed', PATIENT_MS);
  try {
    await run.endure(async () => {
      await replica?.command('CLUSTER', 'FAILOVER');
      await eventually('the roles are swapped', async () => (await cluster.ownerOf(slot)) === replica);
    });

    expect(run.answers.filter(({ decision }) => decision.degraded)).toEqual([]);
    await expectAccounted(options, run.answers);
    await eventually('the new master is known', async () =>
      namesOf(await run.limiter.health()).includes(`127.0.0.1:${replica?.port}`),
    );
    expect(await run.limiter.health()).toMatchObject({ status: 'up', nodes: [{}, {}, {}] });
  } finally {
    await run.close();
  }
});

test.each(CLUSTER_CLIENTS)(
  'a master that stands still costs only its own keys behind a client of $name',

  async ({ open }) => {
    cluster = await startCluster(3, { nodeTimeoutMs: PATIENT_NODE_TIMEOUT_MS });
    const [victim] = cluster.masters;
    const opened = await open(cluster);
    const run = await FaultRun.start({ client: opened.client }, 'failClosed', DEADLINE_MS);
    try {
      const report = await run.suffer({
        strike: () => victim.pause(),
        expected: ({ status, nodes }) =>
          status === 'degraded' &&
          nodes.some((node) => node.status === 'down' && node.name.endsWith(`:${victim.port}`)),
        heal: async () => {
          victim.resume();
        },
      });

      expectInTime(report);
      expect(report.statuses.join(' ')).toMatch(/^(up )?degraded$/);
      expectOnlyVictims(report, await limitsOf(victim));
      expectRecovery(report);
      await expectAccounted({ cluster: { urls: [victim.url] } }, run.answers);
    } finally {
      await run.close();
      opened.close();
    }
  },
);

async function isComplete(): Promise<boolean> {
  const alive = cluster.nodes.filter((node) => node.isResponsive);
  const states = await Promise.all(alive.map(async (node) => String(await node.command('CLUSTER', 'INFO'))));
  return states.every((state) => state.includes('cluster_state:ok'));
}

/** True when no master has written anything that its replica does not have. */
async function isReplicated(): Promise<boolean> {
  const states = await Promise.all(
    cluster.masters.map(async (node) => String(await node.command('INFO', 'replication'))),
  );
  return states.every((state) => {
    const written = /master_repl_offset:(\d+)/.exec(state)?.[1];
    return written !== undefined && state.includes(`,offset=${written},`);
  });
}

async function slotServedBy(server: RedisServer): Promise<number> {
  const slots = SINGLE_LIMITS.flat().map((limit) => slotOf(keyName(PREFIX, limit)));
  for (const slot of slots) if ((await cluster.ownerOf(slot)) === server) return slot;
  throw new Error('No key of the traffic lives there');
}

async function limitsOf(server: RedisServer): Promise<readonly Limit[]> {
  const limits: Limit[] = [];
  for (const limit of SINGLE_LIMITS.flat()) {
    if ((await cluster.ownerOf(slotOf(keyName(PREFIX, limit)))) === server) limits.push(limit);
  }
  return limits;
}

function namesOf({ nodes }: { readonly nodes: readonly { readonly name: string }[] }): readonly string[] {
  return nodes.map(({ name }) => name);
}
