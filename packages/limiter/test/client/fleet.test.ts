// Both ends of the wire: clients that obey, and our own server, over real HTTP in virtual time.
import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import type { PoliteFetchOptions } from '../../src/client/index.ts';
import {
  createLimiter,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
} from '../../src/index.ts';
import type { HeaderStyle, RateLimitOptions } from '../../src/http/index.ts';
import { seededRandom } from '../../src/testing/index.ts';
import { nodeFramework } from '../http/node-framework.ts';
import { startServer } from '../http/running-server.ts';
import { Timeline } from './timeline.ts';

interface Event {
  readonly client: string;
  readonly status: number;
  readonly atMs: number;
}

interface Fleet {
  readonly time: Timeline;
  readonly events: readonly Event[];
  /** A client of the server; all of one name share their limits. */
  readonly client: (name: string, key: string, options?: PoliteFetchOptions) => () => Promise<number>;
}

async function startFleet(
  policies: Policy | readonly Policy[],
  options: Partial<RateLimitOptions<IncomingMessage>> = {},
): Promise<Fleet> {
  const time = new Timeline();
  const { port } = await startServer(nodeFramework, {
    limiter: createLimiter({ clock: time.clock }),
    policies,
    key: { header: 'x-key' },
    ...options,
  });
  const events: Event[] = [];
  return {
    time,
    events,
    client(name, key, given) {
      const fetch = time.client({
        maxRetries: 100,
        maxWaitMs: 86_400_000,
        fetch: async (input, init) => {
          const response = await globalThis.fetch(input, init);
          events.push({ client: name, status: response.status, atMs: time.nowMs() });
          return response;
        },
        ...given,
      });
      return async () => {
        const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-key': key } });
        await response.text();
        return response.status;
      };
    },
  };
}

/** Denials that followed a denial of the same client. */
function deniedTwice(events: readonly Event[]): readonly (readonly [first: Event, second: Event])[] {
  const last = new Map<string, Event>();
  const found: (readonly [Event, Event])[] = [];
  for (const event of events) {
    const before = last.get(event.client);
    if (before?.status === 429 && event.status === 429) found.push([before, event]);
    last.set(event.client, event);
  }
  return found;
}

function count(events: readonly Event[], status: number): number {
  return events.filter((event) => event.status === status).length;
}

/** Numbers from 0 to 1, the same ones for the same seed. */
function chance(seed: number): () => number {
  const random = seededRandom(seed);
  return () => random.below(2 ** 30) / 2 ** 30;
}

async function repeat(times: number, call: () => Promise<number>): Promise<number[]> {
  const statuses: number[] = [];
  for (let at = 0; at < times; at += 1) statuses.push(await call());
  return statuses;
}

const POLICIES: readonly Policy[] = [
  tokenBucket({ name: 'bucket', average: 3, burst: 2, period: '1s' }),
  tokenBucket({ name: 'slow', average: 1, burst: 3, period: '1m' }),
  slidingWindowLog({ name: 'log', quota: 3, window: '10s' }),
  slidingWindowCounter({ name: 'counter', quota: 3, window: '10s' }),
  fixedWindow({ name: 'fixed', quota: 3, window: '1h' }),
];

test.each<HeaderStyle>(['draft', 'legacy', 'github', 'none'])(
  'clients with limits of their own are never denied twice in a row, with headers of the kind %s',
  async (headers) => {
    const { client, events } = await startFleet(POLICIES.slice(0, 4), { headers });
    const random = chance(7);
    const fleet = Array.from({ length: 10 }, (_, at) => repeat(8, client(`c${at}`, `key ${at}`, { random })));

    expect((await Promise.all(fleet)).flat()).toEqual(Array(80).fill(200));
    expect(count(events, 429)).toBeGreaterThan(10);
    expect(deniedTwice(events)).toEqual([]);
  },
);

test.each(POLICIES.map((policy) => [policy.name, policy] as const))(
  'clients that share the limit %s are denied twice only when others were faster, and all get through',
  async (_, policy) => {
    const { client, events } = await startFleet(policy);
    const random = chance(11);
    const fleet = Array.from({ length: 12 }, (__, at) => repeat(2, client(`c${at}`, 'shared', { random })));

    expect((await Promise.all(fleet)).flat()).toEqual(Array(24).fill(200));
    expect(deniedTwice(events).length).toBeGreaterThan(0);
    for (const [first, second] of deniedTwice(events)) {
      const others = events.filter(
        ({ status, atMs, client: name }) =>
          status === 200 && atMs >= first.atMs && atMs <= second.atMs && name !== first.client,
      );
      expect(others.length).toBeGreaterThan(0);
    }
  },
);

test('a client that paces itself is never denied, however many calls it makes at once', async () => {
  const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  const { client, events, time } = await startFleet(policy);
  const call = client('c', 'key', { pace: true });

  const statuses = await Promise.all(Array.from({ length: 100 }, call));

  expect(statuses).toEqual(Array(100).fill(200));
  expect(count(events, 429)).toBe(0);
  // 10 at once and 90 at 10 per second take 9 seconds; nobody can be faster.
  expect(time.nowMs()).toBeLessThan(10_000);
});

test('without pacing the same calls are denied hundreds of times', async () => {
  const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  const { client, events } = await startFleet(policy);
  const call = client('c', 'key');

  await Promise.all(Array.from({ length: 100 }, call));

  expect(count(events, 429)).toBeGreaterThan(300);
});

test.each(POLICIES.map((policy) => [policy.name, policy] as const))(
  'a client that paces itself meets the limit %s without a denial',
  async (_, policy) => {
    const { client, events } = await startFleet(policy);
    const call = client('c', 'key', { pace: true });

    await Promise.all(Array.from({ length: 15 }, call));

    expect([count(events, 200), count(events, 429)]).toEqual([15, 0]);
  },
);

test('clients that pace themselves and share a limit are denied less than others, and all get through', async () => {
  const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  const denials: number[] = [];
  for (const pace of [false, true]) {
    const { client, events } = await startFleet(policy);
    const random = chance(5);
    const fleet = Array.from({ length: 5 }, (_, at) => {
      const call = client(`c${at}`, 'shared', { pace, random });
      return Promise.all(Array.from({ length: 10 }, call));
    });

    expect((await Promise.all(fleet)).flat()).toEqual(Array(50).fill(200));
    denials.push(count(events, 429));
  }

  expect(denials[1]).toBeLessThan((denials[0] ?? 0) / 3);
});

test('a request that no wait can help is refused once', async () => {
  const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  const { client, events } = await startFleet(policy, { cost: 11 });

  expect(await client('c', 'key')()).toBe(429);
  expect(events).toHaveLength(1);
});
