// What a process holds of a window stays charged until it gives it back: also what comes when it is of no use any more.
import { beforeEach, expect, test } from 'vitest';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import { fixedWindow } from '../../src/policy.ts';
import { LeaseBroker, type LeaseRequest } from '../../src/stores/local/lease-broker.ts';
import { chargeLease } from '../../src/stores/local/lease-grant.ts';
import { LeaseTable, type LeaseSource } from '../../src/stores/local/lease-table.ts';
import { emptyTally } from '../../src/stores/local/lease-tally.ts';
import { leasesOf } from '../../src/stores/local/leased-plan.ts';
import { latestStoreTimeUs } from '../../src/stores/local/store-clock.ts';

const api = fixedWindow({ name: 'api', quota: 10_000, window: '1h', leases: true });
const limit = api.for('hot');
const raised = api.with({ quota: 20_000 }).for('hot');
const NOON_US = 43_200_000_000;

let nowUs: number;
let state: AnyState | undefined;
/** Answers on their way to who asked. */
let arrivals: (() => void)[];

beforeEach(() => {
  nowUs = NOON_US;
  state = undefined;
  arrivals = [];
});

/** Its clock shows the same as the process's. */
const source: LeaseSource = {
  nowUs: () => nowUs,
  lease: async ({ plan }, want) => {
    const charged = chargeLease(state, plan, want, nowUs);
    state = charged?.spent ?? state;
    const answer = {
      grant: charged && { tokens: charged.tokens, end: charged.end },
      left: left(),
      storeUs: nowUs,
    };
    await new Promise<void>((resolve) => arrivals.push(resolve));
    return answer;
  },
  returnLease: async ({ plan }, rest) => {
    const before = state;
    state = before && leasesOf(plan).takeBack(before, plan.numbers, rest, nowUs);
    return state !== before;
  },
};

function left(): number {
  return limit.plan.algorithm.decide(state, limit.plan.numbers, 0, nowUs).remaining;
}

async function arrive(): Promise<void> {
  for (const resolve of arrivals.splice(0)) resolve();
  await new Promise((resolve) => setImmediate(resolve));
}

function requestFor(want: number, { plan, stateKey } = limit): LeaseRequest {
  const { algorithm, stateId, numbers } = plan;
  return { algorithm: algorithm.name, stateId, stateKey, numbers, want };
}

/** A process whose first lease is on its way. */
function askingTable(): LeaseTable {
  const table = new LeaseTable(source);
  for (let request = 0; request < 200 && arrivals.length === 0; request += 1) {
    nowUs += 1000;
    table.decide([limit], 1);
    table.noteLeft(
      [limit],
      [{ allowed: true, remaining: 9000, retryAfterUs: 0, resetAfterUs: 1, delayUs: 0 }],
    );
  }
  expect(left()).toBeLessThan(api.limit);
  return table;
}

test('a lease that comes after the numbers have changed', async () => {
  const table = askingTable();

  table.decide([raised], 1);
  await arrive();

  expect(left()).toBe(api.limit);
});

test('a lease that comes after the key was forgotten is not given back: it is not in the state that began then', async () => {
  const table = askingTable();
  const charged = left();

  table.drop([limit]);
  await arrive();
  nowUs += 1_000_000;
  table.sweep();

  expect(left()).toBe(charged);
});

test('what is left of a key that so many others have pushed out', async () => {
  const table = askingTable();
  await arrive();
  for (let other = 0; other < 10_001; other += 1) table.decide([api.for(`other-${other}`)], 1);

  nowUs += 1_000_000;
  table.sweep();

  expect(left()).toBe(api.limit);
});

test('what a primary process holds under numbers that its workers no longer have', async () => {
  const broker = new LeaseBroker(source, emptyTally());
  const first = broker.lease(requestFor(30), 4);
  await arrive();
  expect((await first).grant?.tokens).toBe(30);
  expect(left()).toBeLessThan(api.limit - 30);

  const second = broker.lease(requestFor(1, raised), 1);
  await arrive();
  await second;

  expect(left()).toBe(api.limit - 31);
});

test('a lease that comes while a primary process is closed', async () => {
  const broker = new LeaseBroker(source, emptyTally());
  const asked = broker.lease(requestFor(30), 4);

  const closed = broker.close();
  await arrive();
  const { grant } = await asked;
  await closed;

  expect(left()).toBe(api.limit - (grant?.tokens ?? 0));
});

test('a primary process says what time it is when it hands out a piece, not when it was told', async () => {
  const broker = new LeaseBroker(source, emptyTally());
  const first = broker.lease(requestFor(30), 4);
  await arrive();
  await first;

  nowUs += 400_000;
  const { grant, storeUs } = await broker.lease(requestFor(30), 4);

  expect(grant?.tokens).toBe(30);
  expect(storeUs).toBeGreaterThanOrEqual(nowUs);
});

test('the latest time is not behind a store whose clock and that of the process run 200 ppm apart', () => {
  const moment = { storeUs: NOON_US, sentUs: 0, heardUs: 500 };

  for (const elapsedUs of [1, 4999, 1_000_000, 3_600_000_000]) {
    expect(latestStoreTimeUs(moment, elapsedUs)).toBeGreaterThan(NOON_US + elapsedUs * (1 + 200e-6));
  }
});
