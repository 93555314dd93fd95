import { keyName } from '#limiter/stores/redis/key-name.js';
import { createCluster } from 'redis';
import { createLimiter, fixedWindow, tokenBucket, type Decision, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startCluster, type Cluster } from '../servers.ts';

const PATIENT_MS = 10_000;
const CAPACITY = 500;
const ten = tokenBucket({ name: 'ten', average: 1, burst: CAPACITY, period: '1h' });
const many = fixedWindow({ name: 'many', quota: 100_000, window: '1d' });

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
    const slot = await cluster.slotOf(keyName('spillgate:', ten.for('hot')));
    const source = await cluster.ownerOf(slot);
    const target = cluster.masters.find((master) => master !== source) ?? source;
    const decisions: Decision[] = [];
    let moving = true;
    let key = 0;
    const lane = async (): Promise<void> => {
      while (moving) {
        // Two states of one key, of which one may have moved already: the cluster answers TRYAGAIN.
        key += 1;
        decisions.push(
          await limiter.check(key % 2 === 0 ? ten.for('hot') : [ten.for('hot'), many.for('hot')]),
        );
      }
    };
    const lanes = Array.from({ length: 16 }, lane);

    await limiter.check(ten.for('hot'));
    const move = await cluster.beginSlotMove(slot, target);
    await move.moveKeys();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await move.finish();
    await new Promise((resolve) => setTimeout(resolve, 50));
    moving = false;
    await Promise.all(lanes);

    const admitted = decisions.filter(({ allowed }) => allowed).length + 1;
    expect(decisions.filter(({ degraded }) => degraded).map(({ cause }) => cause)).toEqual([]);
    expect(decisions.length).toBeGreaterThan(CAPACITY);
    expect(admitted).toBe(CAPACITY);
    expect(await cluster.ownerOf(slot)).toBe(target);
    expect((await limiter.health()).status).toBe('up');
  });
});
