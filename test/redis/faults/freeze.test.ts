import { createLimiter, tokenBucket } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startRedis, type RedisServer } from '../servers.ts';
import { CLIENT_FAMILIES } from '../store/clients.ts';
import { expectAccounted, expectDistinct, expectSound } from './expectations.ts';
import { FaultRun } from './fault-run.ts';

const FREEZE_MS = 10_000;
const STALL_SECONDS = 2;

let server: RedisServer;

beforeEach(async () => {
  server = await startRedis();
});

afterEach(async () => {
  await server.stop();
});

describe('a server that stands still under load', () => {
  test('for 10 s by SIGSTOP: nobody waits longer than the deadline, and it decides again when it goes on', async () => {
    const run = await FaultRun.start({ url: server.url }, 'failClosed');
    try {
      const report = await run.suffer({
        strike: () => server.pause(),
        holdMs: FREEZE_MS,
        heal: async () => {
          server.resume();
        },
      });

      expectSound(report);
      expect(report.causes).toContain('did not answer within');
      // It costs one deadline or two, and then nothing: the breaker answers.
      expect(waitedFor(report.degraded)).toBeLessThan(report.degraded.length / 10);
      await expectDistinct(run);
      await expectAccounted({ url: server.url }, run.answers);
    } finally {
      await run.close();
    }
  });

  test.each(CLIENT_FAMILIES.slice(1))('for 2 s, behind a client of $name', async ({ open }) => {
    const opened = await open(server, server.url);
    const run = await FaultRun.start({ client: opened.client }, 'passThrough');
    let stall: Promise<unknown> | undefined;
    try {
      const report = await run.suffer({
        strike: async () => {
          stall = server.command('DEBUG', 'SLEEP', STALL_SECONDS);
        },
        heal: async () => stall,
      });

      expectSound(report);
      expect(report.causes).toContain('did not answer within');
      await expectDistinct(run);
      await expectAccounted({ url: server.url }, run.answers);
    } finally {
      await run.close();
      opened.close();
    }
  });
});

describe('what is no outage', () => {
  const api = tokenBucket({ name: 'api', average: 1, burst: 1000, period: '1h' });

  test('one slow call is answered by the failure policy, and marks no server as down', async () => {
    // More than the deadline, which is to be the first of the two.
    const store = redisStore({ url: server.url, timeoutMs: 150 });
    const limiter = createLimiter({ store, failurePolicy: 'failClosed' });
    const events: string[] = [];
    limiter.on('nodeDown', ({ node }) => events.push(node));
    try {
      await store.ready();
      const stall = server.command('DEBUG', 'SLEEP', '0.3');
      let slow = await limiter.check(api.for('k'));
      await eventually('a call is slow', async () => {
        if (!slow.degraded) slow = await limiter.check(api.for('k'));
        return slow.degraded;
      });
      await eventually('it is noticed', async () => (await limiter.health()).status === 'degraded');
      await stall;
      await eventually('it is forgotten', async () => (await limiter.health()).status === 'up');

      expect(slow).toMatchObject({
        allowed: false,
        source: 'failurePolicy',
        cause: { code: 'DEADLINE_EXCEEDED' },
      });
      expect(events).toEqual([]);
    } finally {
      await limiter.close();
    }
  });

  test('a hundred callers that give up at once say nothing about the server', async () => {
    const store = redisStore({ url: server.url });
    const limiter = createLimiter({ store, failurePolicy: 'failClosed' });
    const events: unknown[] = [];
    for (const event of ['nodeDown', 'storeError'] as const)
      limiter.on(event, (detail) => events.push(detail));
    try {
      await store.ready();
      const callers = Array.from({ length: 100 }, () => {
        const controller = new AbortController();
        return { controller, check: limiter.check(api.for('k'), { signal: controller.signal }) };
      });
      for (const { controller } of callers) controller.abort(new Error('the client has left'));

      const settled = await Promise.allSettled(callers.map(({ check }) => check));

      expect(new Set(settled.map(({ status }) => status))).toEqual(new Set(['rejected']));
      expect(await limiter.health()).toMatchObject({ status: 'up' });
      expect(events).toEqual([]);
    } finally {
      await limiter.close();
    }
  });
});

/** How many decisions were answered by their deadline and not at once. */
function waitedFor(degraded: FaultRun['answers']): number {
  return degraded.filter(({ decision }) => String(decision.cause).includes('The store did not answer'))
    .length;
}
