import { keyName } from '#limiter/stores/redis/protocol.js';
import { createCluster } from 'redis';
import { createLimiter, fixedWindow, tokenBucket, type Decision, type Limit, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startCluster, type Cluster } from '../servers.ts';

const PATIENT_MS = 10_000;
const CAPACITY = 50_000;
const old = tokenBucket({ name: 'old', average: 1, burst: CAPACITY, period: '1d' });
const late = fixedWindow({ name: 'late', quota: CAPACITY, window: '1d' });
const later = fixedWindow({ name: 'later', quota: CAPACITY, window: '1d' });

let cluster: Cluster;
let limiter: Limiter;
let closeClient: (() => void) | undefined;

beforeEach(async () => {
  cluster = await startCluster(3);
});

afterEach(async () => {
  await limiter.close();
  closeClient?.();
  await cluster.stop();
});

const PLACES = [
  {
    name: 'the store itself',
    open: async (): Promise<RedisStoreOptions> => ({ cluster: { urls: [cluster.masters[2].url] } }),
  },
  {
    name: 'a client of redis',
    open: async (): Promise<RedisStoreOptions> => {
      const client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) });
      client.on('error', () => undefined);
      await client.connect();
      closeClient = () => {
        client.destroy();
      };
      return { client };
    },
  },
];

describe.each(PLACES)('while a slot moves under load, $name', ({ open }) => {
  test('follows it: no decision is lost, none is counted twice, and the state arrives with the slot', async () => {
    const store = redisStore({ ...(await open()), timeoutMs: PATIENT_MS });
    await store.ready();
    limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
    const slot = await cluster.slotOf(keyName('spillgate:', old.for('hot')));
    const source = await cluster.ownerOf(slot);
    const target = cluster.masters.find((master) => master !== source) ?? source;
    const decisions: Decision[] = [];
    let limits: readonly Limit[] = [old.for('hot')];
    const load = { isOn: true };
    const lane = async (): Promise<void> => {
      while (load.isOn) decisions.push(await limiter.check(limits));
    };
    await limiter.check(limits);
    const lanes = Array.from({ length: 16 }, lane);

    const move = await cluster.beginSlotMove(slot, target);
    // One state is on the source and the other nowhere: the cluster answers TRYAGAIN to both together, ASK to the
    // second.
    limits = [old.for('hot'), late.for('hot')];
    await enough(decisions);
    await move.moveKeys();
    limits = [old.for('hot'), late.for('hot'), later.for('hot')];
    await enough(decisions);
    await move.finish();
    await enough(decisions);
    load.isOn = false;
    await Promise.all(lanes);

    expect(decisions.filter(({ degraded }) => degraded).map(({ cause }) => cause)).toEqual([]);
    expect(decisions.filter(({ allowed }) => !allowed)).toEqual([]);
    const spent = await Promise.all(
      [old, late, later].map(async (policy) => CAPACITY - (await limiter.peek(policy.for('hot'))).remaining),
    );
    const asked = [1, 2, 3].map(
      (count) => decisions.filter(({ verdicts }) => verdicts.length >= count).length,
    );
    expect(spent).toEqual([(asked[0] ?? 0) + 1, asked[1], asked[2]]);
    expect(await cluster.ownerOf(slot)).toBe(target);
    expect((await limiter.health()).status).toBe('up');
  });
});

async function enough(decisions: readonly Decision[]): Promise<void> {
  const before = decisions.length;
  await eventually('more decisions were made', () => decisions.length > before + 200);
}
