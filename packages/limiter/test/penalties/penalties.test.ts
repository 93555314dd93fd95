import { expect, test } from 'vitest';
import {
  calendarQuota,
  concurrency,
  createLimiter,
  fixedWindow,
  leakyBucket,
  memoryStore,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Limiter,
  type Policy,
} from '../../src/index.ts';
import { remoteStore } from '../unit/remote-store.ts';
import { runPenaltyProgram, virtualClock, type VirtualClock } from '../../src/testing/index.ts';

const MINUTE_US = 60_000_000;
const block = { after: 3, within: '1m', for: '15m' } as const;
const login = fixedWindow({ name: 'login', quota: 1, window: '10s', block });

function limited(): { readonly clock: VirtualClock; readonly limiter: Limiter } {
  const clock = virtualClock();
  return { clock, limiter: createLimiter({ clock, store: memoryStore({ clock }) }) };
}

test.each([1, 2, 3, 4])(
  'blocks decide 25,000 random requests like the lists of all denials and blocks (seed %i)',
  { timeout: 60_000 },
  async (seed) => {
    const result = await runPenaltyProgram({
      seed,
      operations: 25_000,
      createStore: (clock) => memoryStore({ clock }),
    });

    expect(result.allowed).toBeGreaterThan(2000);
    expect(result.penalties).toBeGreaterThan(500);
    expect(result.blocked).toBeGreaterThan(1000);
  },
);

test('who is denied that often is denied for that long, and told why', async () => {
  const { clock, limiter } = limited();
  const ann = login.for('ann');
  await limiter.check(ann);

  const first = await limiter.check(ann);
  const second = await limiter.check(ann);
  const third = await limiter.check(ann);

  expect([first, second].map(({ penalty }) => penalty)).toEqual([undefined, undefined]);
  expect(third).toMatchObject({
    allowed: false,
    remaining: 0,
    retryAfterMs: 900_000,
    penalty: { endsInMs: 900_000, reason: 'denied 3 times within 1m', began: true },
  });
  clock.set(clock() + 15 * MINUTE_US - 1);
  expect((await limiter.check(ann)).penalty).toEqual({
    endsInMs: 0.001,
    reason: 'denied 3 times within 1m',
    began: false,
  });
  clock.set(clock() + 1);
  expect(await limiter.check(ann)).toMatchObject({ allowed: true, penalty: undefined });
});

test('denials during a block neither extend it nor count for the next one', async () => {
  const { clock, limiter } = limited();
  const ann = login.for('ann');
  for (let request = 0; request < 4; request += 1) await limiter.check(ann);
  const beganUs = clock();
  for (let minute = 1; minute < 15; minute += 1) {
    clock.set(beganUs + minute * MINUTE_US);
    for (let request = 0; request < 10; request += 1) await limiter.check(ann);
  }

  clock.set(beganUs + 15 * MINUTE_US);
  const after = await limiter.check(ann);
  const denied = [await limiter.check(ann), await limiter.check(ann)];

  expect(after.allowed).toBe(true);
  expect(denied.map(({ allowed, penalty }) => [allowed, penalty])).toEqual([
    [false, undefined],
    [false, undefined],
  ]);
});

test('a denial counts for as long as `within` says, and no longer', async () => {
  const { clock, limiter } = limited();
  const ann = login.for('ann');
  await limiter.check(ann, { cost: 2 });
  await limiter.check(ann, { cost: 2 });

  clock.set(clock() + MINUTE_US);
  const apart = await limiter.check(ann, { cost: 2 });
  clock.set(clock() + MINUTE_US - 1);
  await limiter.check(ann, { cost: 2 });
  const together = await limiter.check(ann, { cost: 2 });

  expect(apart.penalty).toBeUndefined();
  expect(together.penalty?.began).toBe(true);
});

test('peek shows a block, counts nothing and changes nothing; forget ends it', async () => {
  const { limiter } = limited();
  const ann = login.for('ann');
  await limiter.check(ann);
  for (let look = 0; look < 10; look += 1) expect((await limiter.peek(ann)).penalty).toBeUndefined();
  for (let request = 0; request < 3; request += 1) await limiter.check(ann);

  const seen = await limiter.peek(ann);
  await limiter.forget(ann);

  expect(seen).toMatchObject({ allowed: false, penalty: { endsInMs: 900_000, began: false } });
  expect(await limiter.check(ann)).toMatchObject({ allowed: true, penalty: undefined });
  expect((await limiter.check(ann)).penalty).toBeUndefined();
});

test('retryAfterMs waits for the block and for the limit, whichever is later', async () => {
  const { clock, limiter } = limited();
  const daily = fixedWindow({
    name: 'daily',
    quota: 1,
    window: '1d',
    block: { after: 1, within: '1m', for: '1m' },
  });
  await limiter.check(daily.for('ann'));

  const { retryAfterMs, penalty } = await limiter.check(daily.for('ann'));
  clock.set(clock() + retryAfterMs * 1000);

  expect(penalty?.endsInMs).toBe(60_000);
  expect(retryAfterMs).toBeGreaterThan(60_000);
  expect((await limiter.check(daily.for('ann'))).allowed).toBe(true);
});

test('all or none: what a blocked key asks of other limits spends nothing there', async () => {
  const { limiter } = limited();
  const other = fixedWindow({ name: 'other', quota: 10, window: '1h' });
  const limits = [login.for('ann'), other.for('acme')];
  for (let request = 0; request < 4; request += 1) await limiter.check(login.for('ann'));

  const decision = await limiter.check(limits);

  expect(decision).toMatchObject({ allowed: false, policy: 'login', penalty: { began: false } });
  expect((await limiter.peek(other.for('acme'))).remaining).toBe(10);
});

test('a denial by another limit of the check does not count', async () => {
  const { limiter } = limited();
  const other = fixedWindow({ name: 'other', quota: 1, window: '1h' });
  await limiter.check(other.for('acme'));
  for (let request = 0; request < 10; request += 1)
    await limiter.check([login.for('ann'), other.for('acme')]);

  expect(await limiter.check(login.for('ann'))).toMatchObject({ allowed: true, penalty: undefined });
});

test('keys, policies and overridden numbers: a block is of one policy and key, whatever its numbers', async () => {
  const { limiter } = limited();
  for (let request = 0; request < 4; request += 1) await limiter.check(login.for('ann'));

  const bob = await limiter.check(login.for('bob'));
  const raised = await limiter.check(login.with({ quota: 100 }).for('ann'));

  expect(bob.allowed).toBe(true);
  expect(raised).toMatchObject({ allowed: false, penalty: { began: false } });
});

const EVERY: readonly Policy[] = [
  tokenBucket({ name: 'tokenBucket', average: 1, period: '1h', block }),
  leakyBucket({ name: 'leakyBucket', average: 1, period: '1h', maxDelay: 0, block }),
  fixedWindow({ name: 'fixedWindow', quota: 1, window: '1h', block }),
  slidingWindowLog({ name: 'slidingWindowLog', quota: 1, window: '1h', block }),
  slidingWindowCounter({ name: 'slidingWindowCounter', quota: 1, window: '1h', block }),
  calendarQuota({ name: 'calendarQuota', quota: 1, every: 'day', block }),
];

test.each(EVERY)('a policy of $algorithm blocks', async (policy) => {
  const { limiter } = limited();
  const decisions = [];
  for (let request = 0; request < 5; request += 1) decisions.push(await limiter.check(policy.for('ann')));

  expect(decisions.map(({ allowed, penalty }) => [allowed, penalty?.began])).toEqual([
    [true, undefined],
    [false, undefined],
    [false, undefined],
    [false, true],
    [false, false],
  ]);
});

test('a policy of concurrency blocks new slots, and renews those that are held', async () => {
  const { limiter } = limited();
  const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1h', block });
  const held = await limiter.acquire(inFlight.for('ann'), { id: 'one' });
  const denied = [];
  for (let attempt = 0; attempt < 3; attempt += 1) denied.push(await limiter.acquire(inFlight.for('ann')));

  const renewed = await limiter.acquire(inFlight.for('ann'), { id: 'one' });
  await held.release();
  const another = await limiter.acquire(inFlight.for('ann'));

  expect(denied.map(({ decision }) => decision.penalty?.began)).toEqual([undefined, undefined, true]);
  expect(renewed.allowed).toBe(true);
  expect(another.decision).toMatchObject({ allowed: false, penalty: { began: false } });
  await limiter.close();
});

test('a slot that has ended is not held: its id is blocked like any other', async () => {
  const { clock, limiter } = limited();
  const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1s', block });
  await limiter.acquire(inFlight.for('ann'), { id: 'one' });
  for (let attempt = 0; attempt < 3; attempt += 1) await limiter.acquire(inFlight.for('ann'));
  clock.advance('2s');

  const again = await limiter.acquire(inFlight.for('ann'), { id: 'one' });

  expect(again.decision).toMatchObject({ allowed: false, penalty: { began: false } });
  await limiter.close();
});

test('the event comes once per block', async () => {
  const { clock, limiter } = limited();
  const events: object[] = [];
  limiter.on('penalty', (event) => events.push(event));
  for (let request = 0; request < 10; request += 1) await limiter.check(login.for('ann'));
  clock.set(clock() + 15 * MINUTE_US);
  for (let request = 0; request < 10; request += 1) await limiter.check(login.for('ann'));

  expect(events).toEqual(
    [1, 2].map(() => ({
      policy: 'login',
      key: 'ann',
      endsInMs: 900_000,
      reason: 'denied 3 times within 1m',
    })),
  );
});

test('also while the store fails and this process counts denials itself', async () => {
  const clock = virtualClock();
  const store = Object.assign(remoteStore(clock), { keepsPenalties: true });
  const limiter = createLimiter({ clock, store });
  limiter.on('undecided', () => undefined);
  const events: string[] = [];
  limiter.on('penalty', ({ key }) => events.push(key));
  store.behaviour = 'rejects';

  for (let request = 0; request < 6; request += 1) await limiter.check(login.for('ann'));

  expect(events).toEqual(['ann']);
});

test('a clock that steps back far locks nobody out for as long as the step', async () => {
  const { clock, limiter } = limited();
  for (let request = 0; request < 4; request += 1) await limiter.check(login.for('ann'));

  clock.set(clock() - 600 * MINUTE_US);
  const stepped = await limiter.check(login.for('ann'));
  clock.set(clock() + 15 * MINUTE_US);

  expect(stepped.penalty?.endsInMs).toBe(900_000);
  expect((await limiter.check(login.for('ann'))).penalty).toBeUndefined();
});

test('while the memory store is full, denials of keys that share a state block nobody', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: 1 }) });
  await limiter.check(login.for('first'));
  await limiter.check(login.for('second'));
  for (let request = 0; request < 20; request += 1) await limiter.check(login.for(`new ${request}`));

  expect((await limiter.peek(login.for('another'))).penalty).toBeUndefined();
  expect((await limiter.check(login.for('new 3'))).penalty).toBeUndefined();
});

test.each([
  [5, 'block is 5; expected an object such as'],
  [{ after: 0, within: '1m', for: '1m' }, 'block.after is 0; expected an integer from 1 to 1000'],
  [{ after: 1001, within: '1m', for: '1m' }, 'block.after is 1001; expected an integer from 1 to 1000'],
  [{ after: 5, within: '1x', for: '1m' }, 'block.within is "1x"'],
  [{ after: 5, within: '1m' }, 'block.for is undefined'],
  [{ after: 5, within: '1m', for: '2y' }, 'block.for is "2y"'],
  [{ after: 5, within: '1m', for: 0 }, 'block.for is 0'],
  [{ after: 5, within: '1m', for: '400d' }, 'block.for is "400d", outside 1ms to 365d'],
  [{ after: 5, within: '1m', until: '1m' }, 'block does not know "until"; it takes after, within, for'],
])('block: %j is a mistake', (given, message) => {
  const options: object = { name: 'login', quota: 1, window: '1m', block: given };
  expect(() => fixedWindow(options as Parameters<typeof fixedWindow>[0])).toThrow(message);
});

test('a store that keeps no denials cannot decide about a policy with block', async () => {
  const limiter = createLimiter({ store: remoteStore(virtualClock()) });

  await expect(limiter.check(login.for('ann'))).rejects.toMatchObject({ code: 'BLOCK_UNSUPPORTED' });
});

test('leases and block exclude each other', () => {
  expect(() => tokenBucket({ name: 'api', average: 1, period: '1s', leases: true, block })).toThrow(
    'leases is true and block is set; a lease would go on admitting a key that is blocked',
  );
});
