import { describe, expect, test, vi } from 'vitest';
import {
  limiterFromEnv,
  type Decision,
  type LimiterError,
  type DistributedStoreSettings,
  type LimiterFromEnv,
} from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';
import { remoteStore, type RemoteStore } from './remote-store.ts';

type Environment = Readonly<Record<string, string | undefined>>;

interface Distributed extends LimiterFromEnv {
  readonly store: RemoteStore;
  readonly settings: DistributedStoreSettings[];
  readonly clock: VirtualClock;
}

/** With a store that the environment may or may not ask for. */
function fromEnv(env: Environment): Distributed {
  const clock = virtualClock();
  const store = remoteStore(clock);
  const settings: DistributedStoreSettings[] = [];
  const made = limiterFromEnv(env, {
    clock,
    createStore: (given) => {
      settings.push(given);
      return store;
    },
  });
  return { ...made, store, settings, clock };
}

function mistakeIn(env: Environment): LimiterError {
  try {
    fromEnv(env);
  } catch (error) {
    return error as LimiterError;
  }
  throw new Error('nothing was thrown');
}

async function checkAnn({ limiter, policy }: LimiterFromEnv): Promise<Decision> {
  return limiter.check(policy.for('ann'));
}

test('an empty environment limits each instance to 60 in any minute', async () => {
  const bench = fromEnv({});

  const first = await checkAnn(bench);
  await bench.limiter.check(bench.policy.for('ann'), { cost: 59 });
  const denied = await checkAnn(bench);
  bench.clock.advance('1m');
  const again = await checkAnn(bench);

  expect(bench.policy).toMatchObject({ name: 'token', algorithm: 'slidingWindowLog', limit: 60 });
  expect(first).toMatchObject({ allowed: true, limit: 60, remaining: 59, source: 'store' });
  expect(denied).toMatchObject({ allowed: false, retryAfterMs: 60_000 });
  expect(again.allowed).toBe(true);
  expect(bench.store.calls).toEqual([]);
});

test('a variable that is set to nothing counts as unset', () => {
  const { policy, settings } = fromEnv({
    DISTRIBUTED_RATE_LIMIT_ENABLED: '',
    DISTRIBUTED_RATE_LIMIT_MAX: '',
    DISTRIBUTED_RATE_LIMIT_WINDOW: '',
    DISTRIBUTED_RATE_LIMIT_FALLBACK: '',
    DISTRIBUTED_RATE_LIMIT_PREFIX: '',
    REDIS_ADDR: '',
    REDIS_DB: '',
  });

  expect(policy.limit).toBe(60);
  expect(settings).toEqual([]);
});

describe('DISTRIBUTED_RATE_LIMIT_ENABLED', () => {
  test.each(['true', 'TRUE', '1', 'yes', 'on'])('%s asks the store that createStore makes', async (value) => {
    const bench = fromEnv({ DISTRIBUTED_RATE_LIMIT_ENABLED: value });

    await checkAnn(bench);

    expect(bench.store.calls).toEqual(['check']);
    expect(bench.settings).toHaveLength(1);
  });

  test.each(['false', 'False', '0', 'no', 'off', undefined])('%s makes no store', async (value) => {
    const bench = fromEnv({ DISTRIBUTED_RATE_LIMIT_ENABLED: value });

    await checkAnn(bench);

    expect(bench.store.calls).toEqual([]);
    expect(bench.settings).toEqual([]);
  });
});

describe('DISTRIBUTED_RATE_LIMIT_FALLBACK', () => {
  test.each([undefined, 'true'])('%s: this instance decides while the store cannot', async (value) => {
    const bench = fromEnv({ DISTRIBUTED_RATE_LIMIT_ENABLED: 'true', DISTRIBUTED_RATE_LIMIT_FALLBACK: value });
    bench.store.behaviour = 'rejects';

    expect(await checkAnn(bench)).toMatchObject({ allowed: true, source: 'fallback', remaining: 59 });
  });

  test('false: nobody passes while the store cannot decide', async () => {
    const bench = fromEnv({
      DISTRIBUTED_RATE_LIMIT_ENABLED: 'true',
      DISTRIBUTED_RATE_LIMIT_FALLBACK: 'false',
    });
    bench.store.behaviour = 'rejects';

    expect(await checkAnn(bench)).toMatchObject({ allowed: false, source: 'failurePolicy', degraded: true });
  });
});

describe('DISTRIBUTED_RATE_LIMIT_MAX', () => {
  test.each([
    [undefined, 60],
    ['1', 1],
    ['0042', 42],
    ['1000000000', 1_000_000_000],
  ])('%s admits that many per window (%d)', async (value, expected) => {
    const bench = fromEnv({ DISTRIBUTED_RATE_LIMIT_MAX: value });

    const { limiter, policy } = bench;
    const all = await limiter.check(policy.for('ann'), { cost: expected });
    const more = await limiter.check(policy.for('ann'));

    expect([all.allowed, more.allowed, more.limit]).toEqual([true, false, expected]);
  });
});

describe('DISTRIBUTED_RATE_LIMIT_WINDOW', () => {
  test.each([
    [undefined, 60_000],
    ['1ms', 1],
    ['1h30m', 5_400_000],
    ['366d', 366 * 86_400_000],
  ])('%s is how long an admission counts (%d ms)', async (value, expected) => {
    const bench = fromEnv({ DISTRIBUTED_RATE_LIMIT_WINDOW: value, DISTRIBUTED_RATE_LIMIT_MAX: '1' });

    await checkAnn(bench);
    const denied = await checkAnn(bench);

    expect(denied).toMatchObject({ allowed: false, retryAfterMs: expected });
  });
});

test('a window without a unit is refused, and nobody is told that a number would do', () => {
  const { code, message } = mistakeIn({ DISTRIBUTED_RATE_LIMIT_WINDOW: '60000' });

  expect(code).toBe('INVALID_ENVIRONMENT');
  expect(message).toContain('with its unit');
  expect(message).not.toContain('milliseconds');
});

describe('where the store is', () => {
  const enabled = { DISTRIBUTED_RATE_LIMIT_ENABLED: 'true' };
  const defaults = { addresses: ['localhost:6379'], database: 0, prefix: 'ratelimit:' };
  const url = 'rediss://me:s3cret@cache:6380/2';
  const rows: readonly (readonly [
    variable: string,
    value: string,
    expected: Partial<DistributedStoreSettings>,
  ])[] = [
    ['REDIS_ADDR', 'redis.internal:6380', { addresses: ['redis.internal:6380'] }],
    ['REDIS_ADDR', '10.0.0.7:1', { addresses: ['10.0.0.7:1'] }],
    ['REDIS_ADDRS', 'a:1, b:2,[::1]:3', { addresses: ['a:1', 'b:2', '[::1]:3'] }],
    ['REDIS_ADDRS', 'only:6379', { addresses: ['only:6379'] }],
    ['REDIS_URL', url, { addresses: ['cache:6380'], url }],
    ['REDIS_URL', 'redis://[::1]', { addresses: ['[::1]:6379'], url: 'redis://[::1]' }],
    ['REDIS_USERNAME', 'me', { username: 'me' }],
    ['REDIS_PASSWORD', 's3cret', { password: 's3cret' }],
    ['REDIS_ADDR', '[::1]:65535', { addresses: ['[::1]:65535'] }],
    ['REDIS_DB', '7', { database: 7 }],
    ['REDIS_DB', '65535', { database: 65_535 }],
    ['DISTRIBUTED_RATE_LIMIT_PREFIX', 'shop_1.api-v2:', { prefix: 'shop_1.api-v2:' }],
    ['DISTRIBUTED_RATE_LIMIT_PREFIX', 'x'.repeat(64), { prefix: 'x'.repeat(64) }],
  ];

  test('has defaults', () => {
    expect(fromEnv(enabled).settings).toEqual([defaults]);
  });

  test.each(rows)('%s=%s', (variable, value, expected) => {
    expect(fromEnv({ ...enabled, [variable]: value }).settings).toEqual([{ ...defaults, ...expected }]);
  });

  test.each([
    'redis://:s3cret@redis.internal:6379',
    'user:s3cret@redis.internal:6379',
    's3cret@redis.internal:6379',
    'user:s3cret\n@redis.internal:6379',
    'user:s3c@ret:s3cret@redis.internal:6379',
  ])('is refused with a password, and the message does not repeat it: %j', (address) => {
    const error = mistakeIn({ REDIS_ADDR: address });

    expect(error.message).toMatch(/^REDIS_ADDR is "\*\*\*@redis\.internal:6379"; expected host:port /);
    expect(error.message).not.toContain('s3c');
    expect(error.cause).toBeUndefined();
  });

  test('is not a URL that is none, and the message does not repeat it', () => {
    const error = mistakeIn({ ...enabled, REDIS_URL: 's3cret' });

    expect(error.code).toBe('INVALID_ENVIRONMENT');
    expect(error.message).toContain('REDIS_URL is not the URL of a Redis server');
    expect(error.message).not.toContain('s3c');
  });

  test.each([
    [{ REDIS_ADDR: 'a:1', REDIS_URL: 'redis://b:1' }, 'REDIS_URL is set, but not used: REDIS_ADDR names'],
    [{ DISTRIBUTED_RATE_LIMIT_BURST: '5' }, 'DISTRIBUTED_RATE_LIMIT_BURST is set, but not used'],
  ])('and what is set without an effect is warned of: %j', (env, message) => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);

    const { settings } = fromEnv({ ...enabled, ...env });

    expect(settings[0]?.url).toBeUndefined();
    expect(emitWarning.mock.calls).toEqual([
      [expect.stringContaining(message), { type: 'SpillgateWarning', code: 'SPILLGATE_UNUSED_VARIABLE' }],
    ]);
  });

  test.each([
    ['a:1,,b:2', 'REDIS_ADDRS is ""; expected host:port'],
    ['a:1,b', 'REDIS_ADDRS is "b"; expected host:port'],
    ['a:1,user:s3cret@b:2', 'REDIS_ADDRS is "***@b:2"; expected host:port'],
    ['a:1,b:2,a:1', 'REDIS_ADDRS is "a:1,b:2,a:1"; expected up to 256 different addresses'],
  ])('a list of servers with a mistake in it is refused: %s', (addresses, message) => {
    expect(mistakeIn({ REDIS_ADDRS: addresses }).message).toContain(message);
  });

  test('is checked even while limits are per instance, so that switching over cannot fail', () => {
    expect(() => fromEnv({ REDIS_ADDR: 'nonsense' })).toThrow('REDIS_ADDR is "nonsense"');
  });
});

test('one token can be given other numbers', async () => {
  const { limiter, policy } = fromEnv({ DISTRIBUTED_RATE_LIMIT_MAX: '2' });

  policy.override('partner', { quota: 5 });

  expect((await limiter.check(policy.for('partner'), { cost: 5 })).allowed).toBe(true);
  expect((await limiter.check(policy.for('ann'), { cost: 5 })).allowed).toBe(false);
});

test('variables of other programs are left alone', () => {
  expect(fromEnv({ PATH: '/usr/bin', REDIS_URL: 'whatever', HOME: '/' }).policy.limit).toBe(60);
});
