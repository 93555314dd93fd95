import { ClientCluster } from '#limiter/stores/redis/client-cluster.js';
import { expect, test } from 'vitest';

const SLOTS = 16_384;
const KEYS = 200;

/** A client of a cluster in which every slot belongs to one of so many servers, named for the generation. */
function fakeClient() {
  const fake = {
    servers: 0,
    generation: 0,
    listeners: 0,
    execute: async () => 'OK',
    ownerOf: (slot: number): string | undefined =>
      fake.servers === 0
        ? undefined
        : `10.${fake.generation}.0.${Math.floor((slot * fake.servers) / SLOTS)}:6379`,
    isReady: () => true,
    onReady: () => {
      fake.listeners += 1;
    },
    onLost: () => undefined,
    reconnect: () => false,
    watchfulOptions: '',
    release() {
      this.listeners = 0;
    },
  };
  return fake;
}

async function askAll(cluster: ClientCluster): Promise<readonly string[]> {
  for (let key = 0; key < KEYS; key += 1) {
    await cluster.route({ key: `{key-${key}}`, name: 'GET', args: [] });
  }
  return cluster.health().servers.map(({ name }) => name);
}

test('of servers that come and go behind a client only those that own a slot now are remembered', async () => {
  const client = fakeClient();
  const cluster = new ClientCluster(client, {
    timeoutMs: () => 50,
    observe: () => undefined,
    probeKey: (key) => key,
  });
  expect(cluster.health().servers).toMatchObject([{ name: 'cluster' }]);

  const known: number[] = [];
  for (const generation of [1, 2, 3, 4]) {
    Object.assign(client, { servers: 12, generation });
    const names = await askAll(cluster);
    expect(names.every((name) => name.startsWith(`10.${generation}.`))).toBe(true);
    known.push(names.length);
  }

  expect(known).toEqual([12, 12, 12, 12]);
  // A client warns about more than ten listeners.
  expect(client.listeners).toBe(1);
  await cluster.close();
  expect(client.listeners).toBe(0);
});
