import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { eventually, startRedis } from '../servers.ts';
import { collectWarnings, type CollectedWarnings } from './warnings.ts';

const api = tokenBucket({ name: 'api', average: 1, burst: 3, period: '1h' });
const CHECKS = 20;

const cleanups: (() => unknown)[] = [];
let warnings: CollectedWarnings;

beforeEach(() => {
  warnings = collectWarnings();
});

afterEach(async () => {
  warnings.stop();
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

function open(url: string): Limiter {
  const limiter = createLimiter({ store: redisStore({ url }), failurePolicy: 'failClosed' });
  cleanups.push(() => limiter.close());
  return limiter;
}

async function checkOften(limiter: Limiter): Promise<void> {
  for (let call = 0; call < CHECKS; call += 1) await limiter.check(api.for('k'));
}

/** What may pass by itself is worth a warning only after a second. */
async function checkUntilWarned(limiter: Limiter): Promise<void> {
  await limiter.check(api.for('k'));
  expect(warnings.all).toEqual([]);
  await eventually('there is a warning', async () => {
    await limiter.check(api.for('k'));
    return warnings.all.length > 0;
  });
}

async function startSecret(): Promise<string> {
  const server = await startRedis({ password: 'right' });
  cleanups.push(() => server.stop());
  return `redis://:wrong@${server.host}:${server.port}`;
}

describe('an outage that nobody listens for', () => {
  test('is told as one warning of the process: a wrong password, with the first check', async () => {
    const limiter = open(await startSecret());

    await limiter.check(api.for('k'));
    await warnings.until(1);
    await checkOften(limiter);

    expect(warnings.all).toEqual([
      {
        code: 'SPILLGATE_STORE_MISCONFIGURED',
        message: expect.stringMatching(/WRONGPASS.*The failure policy answers.*'storeError'/),
      },
    ]);
  });

  test('is told as one warning of the process: a server that is not there', async () => {
    const limiter = open('redis://127.0.0.1:1');

    await checkUntilWarned(limiter);
    await checkOften(limiter);

    expect(warnings.all).toEqual([
      { code: 'SPILLGATE_STORE_UNAVAILABLE', message: expect.stringContaining('ECONNREFUSED') },
    ]);
  });

  test('is told as one warning of the process: sentinels that are not there', async () => {
    const urls = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'];
    const store = redisStore({ sentinel: { urls, name: 'main' } });
    const limiter = createLimiter({ store, failurePolicy: 'failClosed' });
    cleanups.push(() => limiter.close());

    await checkUntilWarned(limiter);

    expect(warnings.all).toEqual([
      {
        code: 'SPILLGATE_STORE_UNAVAILABLE',
        message: expect.stringContaining('No majority of the sentinels'),
      },
    ]);
  });

  test('is not told to whoever listens', async () => {
    const limiter = open(await startSecret());
    const heard: string[] = [];
    limiter.on('storeError', ({ error }) => heard.push(error.code));

    await checkOften(limiter);

    expect(heard).toEqual(['STORE_MISCONFIGURED']);
    expect(warnings.all).toEqual([]);
  });
});
