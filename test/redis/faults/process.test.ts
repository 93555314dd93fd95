import type { RedisStoreOptions } from 'spillgate/redis';
import { afterEach, describe, expect, test } from 'vitest';
import {
  eventually,
  startCluster,
  startRedis,
  startReplicated,
  startShards,
  type RedisServer,
} from '../servers.ts';
import { LimiterProcess } from './limiter-process.ts';

const DECISIONS = 100;
/** A client may wait for a moment until the other side of a connection has said goodbye, or a pause is over. */
const MAX_CLOSING_MS = 3000;
/** Without a warning, an unhandled rejection or anything else that somebody would have to read. */
const CLEAN_END = { code: 0, signal: null, output: '', inTime: true };

/** Ended after each test, the last one first. */
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

interface Place {
  readonly options: RedisStoreOptions;
  readonly servers: readonly RedisServer[];
}

const PLACES: readonly (readonly [string, () => Promise<Place>])[] = [
  ['server', startSingle],
  [
    'shards',
    async () => {
      const shards = await startShards(2);
      const { servers } = shards;
      cleanups.push(() => shards.stop());
      return { options: { shards: servers.map(({ url }) => url) }, servers };
    },
  ],
  [
    'master and sentinels',
    async () => {
      const group = await startReplicated();
      cleanups.push(() => group.stop());
      const urls = group.sentinels.map(({ url }) => url);
      return {
        options: { sentinel: { urls, name: group.masterName } },
        servers: [...group.servers, ...group.sentinels],
      };
    },
  ],
  [
    'master among its replicas',
    async () => {
      const group = await startReplicated();
      cleanups.push(() => group.stop());
      return {
        options: { replication: { urls: group.servers.map(({ url }) => url) } },
        servers: group.servers,
      };
    },
  ],
  [
    'cluster',
    async () => {
      const cluster = await startCluster(3);
      cleanups.push(() => cluster.stop());
      return { options: { cluster: { urls: cluster.nodes.map(({ url }) => url) } }, servers: cluster.nodes };
    },
  ],
];

async function startSingle(): Promise<Place & { readonly server: RedisServer }> {
  const server = await startRedis();
  cleanups.push(() => server.stop());
  return { options: { url: server.url }, servers: [server], server };
}

describe.each([{ installed: 'ioredis' }, { installed: 'node-redis' }] as const)(
  'a process that has $installed',

  ({ installed }) => {
    test('lives through kills and restarts without a word, and ends when its limiter is closed', async () => {
      const { options, server } = await startSingle();
      const application = launch(options);
      for (let life = 0; life < 3; life += 1) {
        await untilMore('decided', application);
        await server.kill();
        await untilMore('degraded', application);
        await server.restart();
      }
      await untilMore('decided', application);

      expect(await application.close(MAX_CLOSING_MS)).toEqual(CLEAN_END);
    });

    test.each(PLACES)(
      'ends when its limiter is closed while its %s cannot be reached',
      async (_name, start) => {
        const { options, servers } = await start();
        const application = launch(options);
        await untilMore('decided', application);
        await Promise.all(servers.map(async (server) => server.kill()));
        await untilMore('degraded', application);

        expect(await application.close(MAX_CLOSING_MS)).toEqual(CLEAN_END);
      },
    );

    test('ends when its limiter is closed while its server stands still', async () => {
      const { options, server } = await startSingle();
      const application = launch(options);
      await untilMore('decided', application);
      await server.pause();
      await untilMore('degraded', application);

      expect(await application.close(MAX_CLOSING_MS)).toEqual(CLEAN_END);
    });

    function launch(options: RedisStoreOptions): LimiterProcess {
      const application = new LimiterProcess(options, installed);
      cleanups.push(() => application.kill());
      return application;
    }
  },
);

async function untilMore(kind: 'decided' | 'degraded', { decisions }: LimiterProcess): Promise<void> {
  const before = decisions[kind];
  await eventually(`${DECISIONS} more are ${kind}`, () => decisions[kind] >= before + DECISIONS);
}
