import type { Redis } from 'ioredis';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
} from 'spillgate';
import { redisStore, type CallClient } from 'spillgate/redis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../servers.ts';
import { openRaw } from './clients.ts';

const PATIENT_MS = 10_000;
const TRAFFIC_MS = 1500;
/** Admissions, and denials. */
const ENOUGH = 20;
const WINDOW_US = 60_000;
const WINDOW = WINDOW_US / 1000;

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis();
  raw = openRaw(server);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

interface Promised {
  readonly policy: Policy;
  /** The most that may be admitted from one admission to another, both included. */
  readonly most: (fromUs: number, toUs: number) => number;
}

/** Limits that run out and expire many times a second. */
const PROMISES: readonly Promised[] = [
  {
    policy: tokenBucket({ name: 'bucket', average: 7, burst: 5, period: WINDOW }),
    most: (fromUs, toUs) => 5 + (7 * (toUs - fromUs)) / WINDOW_US,
  },
  {
    policy: leakyBucket({ name: 'queue', average: 6, period: WINDOW, maxDelay: 30 }),
    most: (fromUs, toUs) => 4 + (6 * (toUs - fromUs)) / WINDOW_US,
  },
  {
    policy: fixedWindow({ name: 'fixed', quota: 5, window: WINDOW }),
    most: (fromUs, toUs) => 5 * (Math.floor(toUs / WINDOW_US) - Math.floor(fromUs / WINDOW_US) + 1),
  },
  {
    policy: slidingWindowLog({ name: 'log', quota: 5, window: WINDOW }),
    most: (fromUs, toUs) => 5 * Math.ceil((toUs - fromUs + 1) / WINDOW_US),
  },
  {
    policy: slidingWindowCounter({ name: 'counter', quota: 5, window: WINDOW }),
    most: (fromUs, toUs) => 5 * (1 + (toUs - fromUs) / WINDOW_US),
  },
];

interface Admission {
  readonly atUs: number;
  readonly cost: number;
}

/** What happens to the server while traffic runs, and how many fresh starts it explains. */
const EVENTS = [
  { name: 'nothing else', freshStarts: 0, run: async (): Promise<unknown> => undefined },
  { name: 'the scripts are flushed', freshStarts: 0, run: async (): Promise<unknown> => raw.script('FLUSH') },
  // By each of the tests that run at the same time.
  {
    name: 'everything is flushed',
    freshStarts: PROMISES.length,
    run: async (): Promise<unknown> => raw.flushall(),
  },
];

describe.each(EVENTS)('while clients poll, pause and come back, and $name', ({ run, freshStarts }) => {
  test.concurrent.each(PROMISES)(
    '$policy.name never admits more than it promised in any stretch of time',
    async ({ policy, most }) => {
      const admissions: Admission[] = [];
      const store = redisStore({ client: recording(admissions), timeoutMs: PATIENT_MS });
      const limiter = createLimiter({ store, failurePolicy: 'failClosed', deadlineMs: PATIENT_MS });
      const ends = Date.now() + TRAFFIC_MS;
      const decisions = { allowed: 0, denied: 0 };
      // A busy machine may need longer until there was enough of both.
      const isOver = (): boolean =>
        Date.now() >= ends && Math.min(decisions.allowed, decisions.denied) > ENOUGH;

      const poll = async (pauseMs: () => number): Promise<void> => {
        while (!isOver()) {
          const { allowed } = await limiter.check(policy.for('shared'));
          decisions[allowed ? 'allowed' : 'denied'] += 1;
          await sleep(pauseMs());
        }
      };
      // One that never stops asking, three that leave long enough for the key to expire.
      const lanes = [poll(() => 1), ...Array.from({ length: 3 }, () => poll(() => Math.random() * 150))];
      await sleep(TRAFFIC_MS / 2);
      await run();
      await Promise.all(lanes);

      const fresh = freshStarts * policy.limit;
      expect(admissions).toHaveLength(decisions.allowed);
      expect(decisions.allowed).toBeGreaterThan(ENOUGH);
      expect(decisions.denied).toBeGreaterThan(ENOUGH);
      expect(stretchesAbove(admissions, (fromUs, toUs) => most(fromUs, toUs) + fresh)).toEqual([]);
      await limiter.close();
    },
  );
});

/** Notes every admission with the time that the script decided by. */
function recording(admissions: Admission[]): CallClient {
  return {
    call: async (command, ...args) => {
      const reply = await raw.call(command, ...args);
      if (Array.isArray(reply)) {
        const [atUs = 0, admitted = 0] = reply.map(Number);
        for (let at = 0; at < admitted; at += 1) admissions.push({ atUs, cost: 1 });
      }
      return reply;
    },
  };
}

/** Every stretch from one admission to another in which more was admitted than may be. */
function stretchesAbove(
  admissions: readonly Admission[],
  most: (fromUs: number, toUs: number) => number,
): readonly string[] {
  const sorted = admissions.toSorted((a, b) => a.atUs - b.atUs);
  return sorted.flatMap(({ atUs: fromUs }, first) => {
    let admitted = 0;
    return sorted.slice(first).flatMap(({ atUs, cost }) => {
      admitted += cost;
      const bound = most(fromUs, atUs);
      return admitted > bound ? [`${admitted} within ${atUs - fromUs} us, at most ${bound}`] : [];
    });
  });
}
