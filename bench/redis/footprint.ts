import {
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
} from 'spillgate';

import { ascending, Keys } from '../frame/keys.ts';
import { progress } from '../frame/progress.ts';
import { openIoredis } from './connections.ts';
import { limiterOn } from './ours.ts';
import { fastifyRateLimit, rateLimiterFlexible, rateLimitRedis } from './peers.ts';
import { numberField } from './server-info.ts';
import type { Server } from './server.ts';

/** What one key of one algorithm takes in Redis. */
export interface Footprint {
  readonly name: string;
  /** Growth of used_memory per key: the hash tables that Redis keeps for names and expiries are in it. */
  readonly bytesPerKey: number;
  /** What MEMORY USAGE answers for one key. */
  readonly memoryUsage: number;
}

/** Someone who leaves one key in Redis per key it is asked for. */
interface Occupant {
  readonly name: string;
  readonly requestsPerKey: number;
  readonly open: (port: number) => Promise<Tenancy>;
}

interface Tenancy {
  readonly ask: (key: string) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

const IN_FLIGHT = 1000;
const LOGGED_REQUESTS = 10;

const OCCUPANTS: readonly Occupant[] = [
  ours('token bucket', tokenBucket({ name: 'api', average: 100, burst: 100, period: '1d' })),
  ours('leaky bucket', leakyBucket({ name: 'api', average: 100, period: '1d', maxDelay: '1d' })),
  ours('fixed window', fixedWindow({ name: 'api', quota: 100, window: '1d' })),
  ours('sliding window counter', slidingWindowCounter({ name: 'api', quota: 100, window: '1d' })),
  ours('sliding window log, 1 request', slidingWindowLog({ name: 'api', quota: 100, window: '1d' })),
  {
    ...ours(
      `sliding window log, ${LOGGED_REQUESTS} requests`,
      slidingWindowLog({ name: 'api', quota: 100, window: '1d' }),
    ),
    requestsPerKey: LOGGED_REQUESTS,
  },
  ...[rateLimiterFlexible, rateLimitRedis, fastifyRateLimit].map(({ name, open }): Occupant => ({
    name,
    requestsPerKey: 1,
    async open(port) {
      const { ample, close } = await open(port);
      return { ask: (key) => ample.call(key), close };
    },
  })),
];

export async function measureFootprints(server: Server, keyCount: number): Promise<readonly Footprint[]> {
  const footprints: Footprint[] = [];
  for (const occupant of OCCUPANTS) {
    progress(`bytes per key: ${occupant.name}`);
    footprints.push(await measureFootprint(server, occupant, keyCount));
  }
  await server.admin.flushall('SYNC');
  return footprints;
}

async function measureFootprint(
  { admin, port }: Server,
  occupant: Occupant,
  keyCount: number,
): Promise<Footprint> {
  await admin.flushall('SYNC');
  const { ask, close } = await occupant.open(port);
  // The first request loads scripts and grows buffers, which are no part of a key.
  await ask('warm-up');
  await admin.flushall('SYNC');
  const before = numberField(await admin.info('memory'), 'used_memory');
  for (let request = 0; request < occupant.requestsPerKey; request++) await askEveryKey(ask, keyCount);
  const after = numberField(await admin.info('memory'), 'used_memory');
  const left = await admin.dbsize();
  if (left !== keyCount) throw new Error(`${occupant.name} left ${left} keys.`);
  const memoryUsage = Number(await admin.call('MEMORY', 'USAGE', (await admin.randomkey()) ?? ''));
  await close();
  return { name: occupant.name, bytesPerKey: (after - before) / keyCount, memoryUsage };
}

async function askEveryKey(ask: Tenancy['ask'], keyCount: number): Promise<void> {
  const keys = new Keys(ascending(keyCount));
  for (let asked = 0; asked < keyCount; asked += IN_FLIGHT) {
    await Promise.all(Array.from({ length: Math.min(IN_FLIGHT, keyCount - asked) }, () => ask(keys.next())));
  }
}

function ours(algorithm: string, policy: Policy): Occupant {
  return {
    name: `Spillgate, ${algorithm}`,
    requestsPerKey: 1,
    async open(port) {
      const client = openIoredis(port);
      const limiter = limiterOn(client);
      return {
        ask: (key) => limiter.check(policy.for(key)),
        close: async () => {
          await limiter.close();
          client.disconnect();
        },
      };
    },
  };
}
