// A process that uses only the library, among those that share its Redis.
import { createLimiter, fixedWindow, type Policy } from 'spillgate';
import { joinFleet, type JoinFleetOptions, type FleetWarning, type JoinedFleet } from 'spillgate/fleet';
import { openRedisFleet, readSummary, type KeySetting, type RedisFleet } from 'spillgate/internal';
import { redisStore } from 'spillgate/redis';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../patience.ts';
import { startRedis, type RedisServer } from '../servers.ts';

const SOON = { timeout: PATIENCE_MS, interval: 20 };
let server: RedisServer;
/** What a gateway or the command line writes. */
let operator: RedisFleet;
let redis: { readonly url: string; readonly prefix: string };
let tests = 0;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(async () => {
  await server.stop();
});

beforeEach(() => {
  tests += 1;
  redis = { url: server.url, prefix: `joined${tests}:` };
  operator = openRedisFleet(redis);
  const opened = operator;
  onTestFinished(async () => opened.close());
});

function settingOf(kind: 'override' | 'block', key: string, more: Partial<KeySetting> = {}): KeySetting {
  return {
    kind,
    policy: 'api',
    key,
    setAt: new Date().toISOString(),
    ...(kind === 'override' ? { numbers: { quota: 3 } } : {}),
    ...more,
  };
}

function newPolicy(): Policy {
  return fixedWindow({ name: 'api', quota: 10, window: '1h' });
}

async function join(policy: Policy, more: Partial<JoinFleetOptions> = {}): Promise<JoinedFleet> {
  const fleet = await joinFleet({ redis, policies: [policy], ...more });
  onTestFinished(async () => fleet.close());
  return fleet;
}

test('what was set before a process joins holds from its first check', async () => {
  await operator.write(settingOf('override', 'ann'));
  await operator.write(settingOf('block', 'eve'));
  const policy = newPolicy();
  const limiter = createLimiter({ store: redisStore(redis), deadlineMs: 5000 });
  onTestFinished(async () => limiter.close());

  const fleet = await join(policy);
  const ann = await limiter.check(policy.for('ann'));
  const eve = await limiter.check(policy.for('eve'));

  expect([ann.limit, ann.remaining]).toEqual([3, 2]);
  expect([eve.allowed, eve.source]).toEqual([false, 'block']);
  const names = fleet.settings().map(({ kind, key }) => `${kind} ${key}`);
  expect(names.toSorted()).toEqual(['block eve', 'override ann']);
});

test('what is set, changed and removed later follows by itself', async () => {
  const policy = newPolicy();
  await join(policy);

  await operator.write(settingOf('override', 'ann'));
  await expect.poll(() => policy.for('ann').limit, SOON).toBe(3);
  await operator.write(settingOf('override', 'ann', { numbers: { quota: 4 } }));
  await expect.poll(() => policy.for('ann').limit, SOON).toBe(4);
  await operator.remove(settingOf('override', 'ann'));
  await expect.poll(() => policy.for('ann').limit, SOON).toBe(10);
});

test('when an override ends, a key has what the program gave it', async () => {
  const policy = newPolicy().override('ann', { quota: 50 });
  await join(policy, { configured: (_, key) => (key === 'ann' ? { quota: 50 } : null) });

  await operator.write(settingOf('override', 'ann'));
  await expect.poll(() => policy.for('ann').limit, SOON).toBe(3);
  await operator.remove(settingOf('override', 'ann'));

  await expect.poll(() => policy.for('ann').limit, SOON).toBe(50);
});

test('an override that does not fit is told of, and changes nothing', async () => {
  await operator.write(settingOf('override', 'ann', { numbers: { quota: 0 } }));
  const warnings: FleetWarning[] = [];
  const policy = newPolicy();

  await join(policy, { onWarning: (warning) => warnings.push(warning) });

  expect(policy.for('ann').limit).toBe(10);
  expect(warnings).toMatchObject([
    { code: 'OVERRIDE_REJECTED', message: expect.stringContaining('"ann" does not fit policy "api"') },
  ]);
});

test('what the functions of a program throw is printed, and the settings are followed all the same', async () => {
  const printed = vi.spyOn(console, 'error').mockReturnValue();
  onTestFinished(() => printed.mockRestore());
  await operator.write(settingOf('override', 'ann', { numbers: { quota: 0 } }));
  const policy = newPolicy();

  await join(policy, {
    configured: () => {
      throw new Error('no configuration');
    },
    onWarning: () => {
      throw new Error('no log');
    },
  });
  await operator.write(settingOf('block', 'bob'));

  await expect.poll(() => policy.for('bob').plan.blockedUntilUs, SOON).toBe(Infinity);
  expect(printed.mock.calls.flat()).toEqual(
    expect.arrayContaining([new Error('no configuration'), new Error('no log')]),
  );
});

test('a process joins without Redis, is told so once, and has the settings when Redis is there', async () => {
  const other = await startRedis();
  onTestFinished(async () => other.stop());
  await other.kill();
  const warnings: FleetWarning[] = [];
  const policy = newPolicy();

  await join(policy, { redis: { url: other.url }, onWarning: (warning) => warnings.push(warning) });
  const told = warnings.map(({ code }) => code);
  await other.restart();
  const writer = openRedisFleet({ url: other.url });
  onTestFinished(async () => writer.close());
  await expect
    .poll(async () => writer.write(settingOf('override', 'ann')).then(() => true), { timeout: PATIENCE_MS })
    .toBe(true);

  expect(told).toEqual(['SETTINGS_UNREADABLE']);
  await expect.poll(() => policy.for('ann').limit, SOON).toBe(3);
});

test('it tells operators its policies and its busy keys, and withdraws when it closes', async () => {
  const policy = newPolicy();
  const limiter = createLimiter({ store: redisStore(redis), deadlineMs: 5000 });
  onTestFinished(async () => limiter.close());
  const told = async (): Promise<unknown> => (await operator.summaries()).map((text) => readSummary(text));

  const fleet = await join(policy, { limiter, name: 'billing' });
  await limiter.check(policy.for('ann'));
  await expect.poll(told, { timeout: PATIENCE_MS }).toMatchObject([
    {
      kind: 'library',
      name: 'billing',
      decisions: { allowed: 1 },
      activity: { busiest: { keys: [{ policy: 'api', key: 'ann', count: 1 }] } },
      policies: [{ name: 'api', algorithm: 'fixedWindow', numbers: { quota: 10, window: '1h' } }],
    },
  ]);
  await Promise.all([fleet.close(), fleet.close()]);

  expect(await told()).toEqual([]);
});

test('whatever keys clients choose, it tells about itself', async () => {
  const policy = newPolicy();
  const limiter = createLimiter();
  onTestFinished(async () => limiter.close());
  const busiest = async (): Promise<readonly number[]> =>
    (await operator.summaries()).map((text) => readSummary(text)?.activity.busiest.keys.length ?? 0);

  await join(policy, { limiter });
  // Six characters each in JSON, twice: in the list of the busiest and in that of the denied.
  for (let key = 0; key < 60; key += 1) {
    const limit = policy.for(`${key}`.padEnd(512, '\u0001'));
    for (let request = 0; request < 11; request += 1) await limiter.check(limit);
  }

  await expect.poll(busiest, SOON).toEqual([50]);
});
