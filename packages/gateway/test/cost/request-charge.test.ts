import {
  createLimiter,
  fixedWindow,
  memoryStore,
  type Limiter,
  type Reservation,
  type Store,
} from 'spillgate';
import { expect, test } from 'vitest';
import { RequestCharge } from '../../src/cost/request-charge.ts';

const tokens = fixedWindow({ name: 'tokens', quota: 1000, window: '365d' });
const SETTLE = { type: 'responseBytes', within: 600_000 } as const;
const AT_ONCE = [0, 0, 0, 0];

interface Failing {
  readonly limiter: Limiter;
  readonly reservation: Reservation;
  attempts: number;
}

/** A store that settles from the n-th attempt on; what the others did is lost, or only their answers. */
async function failing(failures: number, isApplied = false): Promise<Failing> {
  const store = memoryStore();
  const told = { attempts: 0 };
  const settle: Store['settle'] = async (id, adjustments) => {
    told.attempts += 1;
    if (told.attempts > failures || isApplied) {
      const adjusted = await store.settle(id, adjustments);
      if (told.attempts > failures) return adjusted;
    }
    throw new Error('the connection is lost');
  };
  const broken: Store = Object.assign(Object.create(store) as Store, { settle });
  const limiter = createLimiter({ store: broken });
  return Object.assign(told, {
    limiter,
    reservation: await limiter.reserve(tokens.for('ann'), { cost: 100 }),
  });
}

async function charged({ limiter }: Failing): Promise<number> {
  return 1000 - (await limiter.peek(tokens.for('ann'))).remaining;
}

test.each([false, true])(
  'what the store did not take is tried again, and never applied twice (%s)',
  async (isApplied) => {
    const store = await failing(4, isApplied);
    const charge = new RequestCharge(SETTLE, store.reservation, AT_ONCE);

    expect(await charge.end({ cost: 30, estimated: false })).toBe('settled');
    expect(store.attempts).toBe(5);
    expect(await charged(store)).toBe(30);
  },
);

test('behind the last attempt it has failed, counts in full, and nobody waits any longer', async () => {
  const store = await failing(Infinity);
  const charge = new RequestCharge(SETTLE, store.reservation, AT_ONCE);

  expect(await charge.end({ cost: 30, estimated: false })).toBe('failed');
  await charge.ended;
  expect(store.attempts).toBe(5);
  expect(await charged(store)).toBe(100);
});

test('only the first end counts', async () => {
  const store = await failing(0);
  const charge = new RequestCharge(SETTLE, store.reservation, AT_ONCE);

  expect(await charge.end({ cost: 30, estimated: false })).toBe('settled');
  expect(await charge.end({ cost: 90, estimated: false })).toBe('unchanged');
  expect(await charged(store)).toBe(30);
});

test('without a measured cost what was reserved stands, marked as an estimate', async () => {
  const store = await failing(0);
  const charge = new RequestCharge(SETTLE, store.reservation, AT_ONCE);

  expect(await charge.end(undefined)).toBe('unchanged');
  expect(charge.measured).toEqual({ cost: 100, estimated: true });
  expect(await charged(store)).toBe(100);
});
