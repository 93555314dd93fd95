import { createLimiter, LimiterError, type FailurePolicy } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, type RedisServer } from '../servers.ts';
import { startLimited } from './limited-user.ts';
import { CLIENT_FAMILIES, type OpenClient } from './clients.ts';
import { Load, type Answer } from './load.ts';

const DEADLINE_MS = 50;
/** What timers, the garbage collector and 31 other callers may add. */
const SLACK_MS = 50;

let server: RedisServer;
let opened: OpenClient;

beforeEach(async () => {
  server = await startLimited();
});

afterEach(async () => {
  opened.close();
  await server.stop();
});

const FAILURE_POLICIES = [
  { failurePolicy: 'passThrough', source: 'failurePolicy', allowed: true },
  { failurePolicy: 'failClosed', source: 'failurePolicy', allowed: false },
  { failurePolicy: 'inMemoryFallback', source: 'fallback', allowed: true },
] as const satisfies readonly { failurePolicy: FailurePolicy; source: string; allowed: boolean }[];

describe.each(CLIENT_FAMILIES)('through $name', ({ open }) => {
  test.each(FAILURE_POLICIES)(
    'a server that is killed under load: $failurePolicy answers in time and says so, until the store decides again',
    async ({ failurePolicy, source, allowed }) => {
      opened = await open(server);

      const answers = await loadDuring(failurePolicy, async (isOutageNoticed) => {
        await server.kill();
        await isOutageNoticed();
        await server.restart();
      });

      const degraded = answers.filter(({ decision }) => decision.degraded);
      expect(answers.filter(({ tookMs }) => tookMs > DEADLINE_MS + SLACK_MS)).toEqual([]);
      expect(new Set(degraded.map(({ decision }) => decision.allowed))).toEqual(new Set([allowed]));
      expect(new Set(degraded.map(({ decision }) => decision.source))).toEqual(new Set([source]));
      expect(degraded.filter(({ decision }) => !(decision.cause instanceof LimiterError))).toEqual([]);
    },
  );

  test('a server that freezes under load costs no call more than its deadline, and nobody a restart', async () => {
    opened = await open(server);

    const answers = await loadDuring('passThrough', async (isOutageNoticed) => {
      await server.pause();
      await isOutageNoticed();
      server.resume();
    });

    expect(answers.filter(({ tookMs }) => tookMs > DEADLINE_MS + SLACK_MS)).toEqual([]);
    expect(answers.filter(({ decision }) => !decision.allowed)).toEqual([]);
  });
});

type Outage = (isOutageNoticed: () => Promise<void>) => Promise<void>;

/** Every answer of a limiter that is asked all the time: before the outage, during it, and until it has recovered. */
async function loadDuring(failurePolicy: FailurePolicy, outage: Outage): Promise<readonly Answer[]> {
  const store = redisStore({ client: opened.client });
  const limiter = createLimiter({ store, failurePolicy, deadlineMs: DEADLINE_MS });
  let recoveries = 0;
  limiter.on('recovered', () => {
    recoveries += 1;
  });
  const load = new Load(limiter);
  try {
    await eventually('the store decides', () => load.answers.length > 100 && !load.isDegraded());
    recoveries = 0;
    await outage(async () => {
      await eventually('the outage is noticed', () => load.countDegraded() > 500);
    });
    await eventually('the store decides again', () => recoveries > 0 && !load.isDegraded());
    return await load.stop();
  } finally {
    await load.stop();
    await limiter.close();
  }
}
