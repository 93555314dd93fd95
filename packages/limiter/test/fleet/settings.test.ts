// Overrides and blocks that a store keeps.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AppliedSettings } from '../../src/fleet/applied-settings.ts';
import { readSetting, type KeySetting } from '../../src/fleet/key-setting.ts';
import { OwnSettings, SharedSettings } from '../../src/fleet/shared-settings.ts';
import { fixedWindow, MAX_OVERRIDES } from '../../src/policy.ts';

const SET_AT = '2026-01-01T00:00:00.000Z';

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse(SET_AT) });
});

afterEach(() => {
  vi.useRealTimers();
});

function override(key: string, quota: number, more: Partial<KeySetting> = {}): KeySetting {
  return { kind: 'override', policy: 'api', key, numbers: { quota }, setAt: SET_AT, ...more };
}

function block(key: string, more: Partial<KeySetting> = {}): KeySetting {
  return { kind: 'block', policy: 'api', key, setAt: SET_AT, ...more };
}

interface Process {
  readonly shared: SharedSettings;
  readonly applied: AppliedSettings;
  readonly limitOf: (key: string) => number;
  readonly blockedUntilOf: (key: string) => number | undefined;
  readonly rejected: readonly string[];
}

function processOn(store: OwnSettings): Process {
  const policy = fixedWindow({ name: 'api', quota: 10, window: '1h' }).override('configured', { quota: 50 });
  const rejected: string[] = [];
  const applied = new AppliedSettings({
    policies: () => new Map([['api', policy]]),
    configured: (_, key) => (key === 'configured' ? { quota: 50 } : null),
    rejected: ({ key }) => rejected.push(key),
  });
  return {
    shared: new SharedSettings({ store, applied }),
    applied,
    limitOf: (key) => policy.for(key).limit,
    blockedUntilOf: (key) => policy.for(key).plan.blockedUntilUs,
    rejected,
  };
}

test('a setting of one process holds there at once, and in another that follows the store within a second', async () => {
  const store = new OwnSettings();
  const [one, other] = [processOn(store), processOn(store)];
  await Promise.all([one.shared.start(), other.shared.start()]);

  await one.shared.set(override('ann', 3));
  expect([one.limitOf('ann'), other.limitOf('ann')]).toEqual([3, 10]);
  await vi.advanceTimersByTimeAsync(1000);

  expect(other.limitOf('ann')).toBe(3);
  expect(await other.shared.remove(override('ann', 3))).toBe(true);
  expect(await other.shared.remove(override('ann', 3))).toBe(false);
  await vi.advanceTimersByTimeAsync(1000);
  expect([one.limitOf('ann'), other.limitOf('ann')]).toEqual([10, 10]);
});

test('a setting ends when its time is over: the numbers are those of the configuration again', async () => {
  const store = new OwnSettings();
  const { shared, limitOf, blockedUntilOf, applied } = processOn(store);
  await shared.start();
  const expiresAt = new Date(Date.now() + 10_000).toISOString();
  await shared.set(override('configured', 3, { expiresAt }));
  await shared.set(block('configured', { expiresAt }));
  expect([limitOf('configured'), blockedUntilOf('configured')]).toEqual([3, Date.parse(expiresAt) * 1000]);

  await vi.advanceTimersByTimeAsync(11_000);

  expect([limitOf('configured'), blockedUntilOf('configured')]).toEqual([50, undefined]);
  expect(applied.all()).toEqual([]);
});

test('what had expired before a process started never holds there, and the store forgets it', async () => {
  const store = new OwnSettings([override('ann', 3, { expiresAt: SET_AT }), override('bob', 4)]);
  const { shared, limitOf } = processOn(store);

  await shared.start();

  expect([limitOf('ann'), limitOf('bob')]).toEqual([10, 4]);
  expect(store.all().map(({ key }) => key)).toEqual(['bob']);
});

test('an override that does not fit the policy is told of and changes nothing; a block beside it holds', async () => {
  const store = new OwnSettings([override('ann', 0), block('ann')]);
  const { shared, limitOf, blockedUntilOf, rejected } = processOn(store);

  await shared.start();

  expect([limitOf('ann'), blockedUntilOf('ann')]).toEqual([10, Infinity]);
  expect(rejected).toEqual(['ann', 'ann']);
});

test('a setting that cannot be used is told of, and keeps no other from holding', async () => {
  const policy = fixedWindow({ name: 'api', quota: 10, window: '1h' });
  for (let at = 0; at < MAX_OVERRIDES - 1; at += 1) policy.override(`k${at}`, { quota: 5 });
  const rejected: string[] = [];
  const applied = new AppliedSettings({
    policies: () => new Map([['api', policy]]),
    configured: (_, key) => (key.startsWith('k') ? { quota: 5 } : null),
    rejected: ({ kind, key }) => rejected.push(`${kind} of ${key}`),
  });
  const store = new OwnSettings([block('ann'), block('bob'), override('k7', 3)]);

  await new SharedSettings({ store, applied }).start();

  expect(
    ['ann', 'bob', 'k7'].map((key) => policy.for(key).plan.blockedUntilUs ?? policy.for(key).limit),
  ).toEqual([Infinity, 10, 3]);
  expect(rejected).toEqual(['block of bob']);
});

test('while the store cannot be read, what was read last holds; it is told once per outage', async () => {
  const store = new OwnSettings([override('ann', 3)]);
  const read = vi.spyOn(store, 'read');
  const { applied, limitOf } = processOn(store);
  const unreadable = vi.fn<(error: unknown) => void>();
  const shared = new SharedSettings({ store, applied, unreadable });
  await shared.start();

  read.mockRejectedValue(new Error('gone'));
  await vi.advanceTimersByTimeAsync(5000);
  expect([limitOf('ann'), unreadable.mock.calls.length]).toEqual([3, 1]);
  read.mockRestore();
  await store.write(override('ann', 4));
  await vi.advanceTimersByTimeAsync(1000);

  expect(limitOf('ann')).toBe(4);
});

test('more than 10,000 are not kept', async () => {
  const store = new OwnSettings(Array.from({ length: 10_000 }, (_, at) => override(`k${at}`, 3)));

  await expect(store.write(override('more', 3))).rejects.toMatchObject({ code: 'TOO_MANY_OVERRIDES' });
  await store.write(override('k0', 4));

  expect(store.all()[0]).toMatchObject({ numbers: { quota: 4 } });
});

describe('a setting that is read from a store', () => {
  test('is what was written', () => {
    const written = override('ann', 3, { by: 'eve', note: 'why', expiresAt: SET_AT });

    expect(readSetting(JSON.stringify(written))).toEqual(written);
  });

  test.each([
    'no JSON',
    JSON.stringify(block('k'.repeat(2 ** 20 + 1))),
    'null',
    '[]',
    '{"kind":"other","policy":"api","key":"a","setAt":"2026-01-01T00:00:00.000Z"}',
    '{"kind":"block","policy":"api","key":"","setAt":"2026-01-01T00:00:00.000Z"}',
    '{"kind":"block","policy":"api","key":"a","setAt":"yesterday"}',
    '{"kind":"override","policy":"api","key":"a","setAt":"2026-01-01T00:00:00.000Z"}',
    '{"kind":"override","policy":"api","key":"a","numbers":{"quota":{}},"setAt":"2026-01-01T00:00:00.000Z"}',
    '{"__proto__":{"kind":"block","policy":"api","key":"a","setAt":"2026-01-01T00:00:00.000Z"}}',
  ])('is nothing where it is %s', (text) => {
    expect(readSetting(text)).toBeUndefined();
  });
});
