// Real processes on a real Redis that crash, stand still and lose their server: whatever they admit, one exact bucket
// would have admitted too, by the time of Redis. The same replay notices every mistake that leases could make.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, startReplicated, type RedisServer } from '../servers.ts';
import { Proxy } from '../faults/proxy.ts';
import { LeaseFleet, replaceMaster } from './lease-fleet.ts';
import type { LeasedNumbers, LeaseMistake } from './lease-process.ts';

const PROCESSES = 8;
const PATIENT_MS = 20_000;
const TEST_TIMEOUT_MS = 120_000;

let fleet: LeaseFleet;
const started: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  fleet = await LeaseFleet.start(PROCESSES);
});

afterAll(async () => {
  await fleet.stop();
});

afterEach(async () => {
  await fleet.traffic(false);
  for (const each of started.splice(0).toReversed()) await each.stop();
});

function keep<Started extends { stop(): Promise<void> }>(one: Started): Started {
  started.push(one);
  return one;
}

const WINDOW = { quota: 4000, window: '1s' } as const;

test.each<[LeasedNumbers]>([
  [{ kind: 'tokenBucket', average: 1000, burst: 1000, period: '1s' }],
  [{ kind: 'fixedWindow', ...WINDOW }],
  [{ kind: 'slidingWindowCounter', ...WINDOW }],
  // A lease of a log lasts a fiftieth of the window: long enough for processes that get little of a processor.
  [{ kind: 'slidingWindowLog', quota: 10_000, window: '10s' }],
])(
  '$kind: nothing too much is admitted by processes that are killed, stopped and lose their master',
  { timeout: TEST_TIMEOUT_MS },
  async (numbers) => {
    const group = keep(await startReplicated());
    const store = { sentinel: { urls: group.sentinels.map(({ url }) => url), name: group.masterName } };
    await fleet.open({ store, numbers });
    await fleet.traffic(true);

    await fleet.turns(5);
    fleet.freeze(0);
    await fleet.crash(1);
    await fleet.turns(5);
    fleet.thaw(0);
    fleet.freeze(2);
    await fleet.reopen(3);
    await fleet.crash(4);
    await fleet.turns(5);
    fleet.thaw(2);
    await fleet.freezeAll(async () => replaceMaster(group));
    await fleet.turns(10);
    await fleet.reopenAll();
    await fleet.turns(5);

    expect(fleet.admitted('lease')).toBeGreaterThan(500);
    expect(fleet.admitted('store')).toBeGreaterThan(10);
    expect(fleet.refusedInReplay()).toBe(0);
  },
);

describe('a lease that comes late', { timeout: TEST_TIMEOUT_MS }, () => {
  const SLOW = { average: 100, burst: 1000, period: '1s' } as const;
  /** Long enough for the bucket to be full again. */
  const LATE_MS = 2500;

  test('is of no use', async () => {
    await leasesComeLate();

    expect(fleet.refusedInReplay()).toBe(0);
  });

  test.each(['slots of the past are spent', 'a time that may be early'] as const)(
    'mistake: %s',
    async (mistake) => {
      await leasesComeLate(mistake);

      expect(fleet.refusedInReplay()).toBeGreaterThan(50);
    },
  );

  /**
   * Some processes lease from a nearly full bucket; when the answers come, it is full again, and then all is spent at
   * once.
   */
  async function leasesComeLate(mistake?: LeaseMistake): Promise<void> {
    const server = keep(await startRedis());
    const proxy = keep(await Proxy.start({ port: server.port }));
    await fleet.open({ store: { url: proxy.url, timeoutMs: PATIENT_MS }, numbers: SLOW, mistake });
    await fleet.burst(4, 1);
    proxy.delay(LATE_MS);
    await fleet.burst(4, 12);
    proxy.delay(0);
    await fleet.burst(4, 50);
    await fleet.burst(4, 50, 10);
  }
});

describe('leases that come and go', { timeout: TEST_TIMEOUT_MS }, () => {
  test('make room for what was not spent of them', async () => {
    await leasesAreReturned();

    expect(fleet.admitted('lease')).toBeGreaterThan(100);
    expect(fleet.refusedInReplay()).toBe(0);
  });

  test.each(['a return in full', 'a grant above the burst'] as const)('mistake: %s', async (mistake) => {
    await leasesAreReturned(mistake);

    expect(fleet.refusedInReplay()).toBeGreaterThan(50);
  });

  async function leasesAreReturned(mistake?: LeaseMistake): Promise<void> {
    await fleet.open({ ...(await opening()), mistake, numbers: { average: 50, burst: 1000, period: '1s' } });
    for (let round = 0; round < 8; round += 1) {
      await fleet.burst(PROCESSES, 40);
      await fleet.reopenAll();
    }
  }
});

describe('a lease of other numbers', { timeout: TEST_TIMEOUT_MS }, () => {
  const FEWER = { average: 100, burst: 100, period: '1s' } as const;

  test('is not used any more', async () => {
    const fromUs = await numbersChange();

    expect(fleet.refusedInReplay([{ fromUs, numbers: FEWER }])).toBe(0);
  });

  test('mistake: a lease is kept across a change of numbers', async () => {
    const fromUs = await numbersChange('a lease is kept across a change of numbers');

    expect(fleet.refusedInReplay([{ fromUs, numbers: FEWER }])).toBeGreaterThan(50);
  });

  async function numbersChange(mistake?: LeaseMistake): Promise<number> {
    await fleet.open({ ...(await opening()), mistake, numbers: { average: 100, burst: 1000, period: '1s' } });
    await fleet.burst(PROCESSES, 12);
    const fromUs = await fleet.override(FEWER);
    await fleet.burst(PROCESSES, 50);
    return fromUs;
  }
});

async function opening() {
  const server: RedisServer = keep(await startRedis());
  return { store: { url: server.url, timeoutMs: PATIENT_MS } };
}
