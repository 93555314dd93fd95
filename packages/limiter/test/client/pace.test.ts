import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextSendTime, type KnownQuota, type Traffic } from '../../src/client/send-time.ts';
import { ok, pathOf, refusal, scriptedServer } from './scripted-server.ts';
import { Timeline } from './timeline.ts';

const API = 'https://api.example.com/';

const IDLE: Traffic = { quotas: [], heldUntilMs: -Infinity, silent: false, inFlight: 0, lastSentMs: 0 };
const quota = (remaining: number, resetAtMs: number, limit?: number): KnownQuota => ({
  remaining,
  resetAtMs,
  limit,
  order: 1,
});

test.each<[string, Partial<Traffic>, { readonly atMs: number; readonly firm: boolean }]>([
  ['nothing is known and nothing on the way', {}, { atMs: -Infinity, firm: true }],
  ['nothing is known: one goes ahead', { inFlight: 1, lastSentMs: 5 }, { atMs: 1005, firm: false }],
  ['the server speaks of no limits', { inFlight: 9, silent: true }, { atMs: -Infinity, firm: true }],
  ['it was told to wait', { heldUntilMs: 70 }, { atMs: 70, firm: true }],
  ['nothing is left', { quotas: [quota(0, 90)] }, { atMs: 90, firm: true }],
  ['what is left is on the way', { quotas: [quota(2, 90)], inFlight: 2 }, { atMs: 90, firm: true }],
  ['the last one is left', { quotas: [quota(1, 90)] }, { atMs: 45, firm: false }],
  ['three are left', { quotas: [quota(3, 80)], lastSentMs: 40 }, { atMs: 50, firm: false }],
  ['those on the way are not left', { quotas: [quota(4, 80)], inFlight: 3 }, { atMs: 40, firm: false }],
  ['as many are left as is enough', { quotas: [quota(5, 80, 20)] }, { atMs: -Infinity, firm: true }],
  ['one less is left', { quotas: [quota(4, 80, 20)] }, { atMs: 16, firm: false }],
  ['it is over', { quotas: [quota(0, 10)] }, { atMs: -Infinity, firm: true }],
  ['it is over and one asks anew', { quotas: [quota(0, 10)], inFlight: 1 }, { atMs: 1000, firm: false }],
  [
    'the tightest policy speaks',
    { quotas: [quota(1, 90), quota(0, 50), quota(9, 90)] },
    { atMs: 50, firm: true },
  ],
  ['the slowest policy speaks', { quotas: [quota(1, 90), quota(8, 90)] }, { atMs: 45, firm: false }],
])('the next turn when %s', (_, traffic, expected) => {
  expect(nextSendTime({ ...IDLE, ...traffic }, 0.25, 10)).toEqual(expected);
});

test('requests in their turns never spend more than is left, and all of it is spent', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 86_400_000 }),
      (remaining, resetAtMs) => {
        let nowMs = 0;
        let sent = 0;
        while (nowMs < resetAtMs) {
          const turn = nextSendTime(
            { ...IDLE, quotas: [quota(remaining, resetAtMs)], inFlight: sent, lastSentMs: nowMs },
            1,
            nowMs,
          );
          nowMs = turn.atMs;
          if (nowMs < resetAtMs) sent += 1;
          expect(sent).toBeLessThanOrEqual(remaining);
        }
        expect(sent).toBe(remaining);
      },
    ),
  );
});

test('what is left is spread evenly until there is more', async () => {
  const time = new Timeline();
  const server = scriptedServer(
    time,
    ok({ RateLimit: '"api";r=3;t=8' }),
    ok({ RateLimit: '"api";r=2;t=6' }),
    ok({ RateLimit: '"api";r=1;t=4' }),
    ok({ RateLimit: '"api";r=0;t=2' }),
    ok(),
  );
  const fetch = time.client({ fetch: server.fetch, pace: 1 });

  for (let call = 0; call < 5; call += 1) await fetch(API);

  expect(server.times).toEqual([0, 2000, 4000, 6000, 8000]);
});

test('nothing is held back while more than the share is left', async () => {
  const time = new Timeline();
  const limits = { 'RateLimit-Policy': '"api";q=20;w=60' };
  const server = scriptedServer(
    time,
    ok({ ...limits, RateLimit: '"api";r=6;t=60' }),
    ok({ ...limits, RateLimit: '"api";r=5;t=60' }),
    ok({ ...limits, RateLimit: '"api";r=4;t=60' }),
    ok(),
  );
  const fetch = time.client({ fetch: server.fetch, pace: true });

  for (let call = 0; call < 4; call += 1) await fetch(API);

  expect(server.times).toEqual([0, 0, 0, 12_000]);
});

test('without pace nothing is held back', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=8' }));
  const fetch = time.client({ fetch: server.fetch });

  for (let call = 0; call < 3; call += 1) await fetch(API);

  expect(server.times).toEqual([0, 0, 0]);
});

test('the first call goes ahead, and the others follow when its answer says how many may', async () => {
  const time = new Timeline();
  let left = 10;
  const fetch = time.client({
    pace: true,
    fetch: async () => {
      left -= 1;
      return ok({ 'RateLimit-Policy': '"api";q=10;w=8', RateLimit: `"api";r=${left};t=8` })();
    },
  });
  const times: number[] = [];
  const call = async (): Promise<void> => {
    await fetch(API);
    times.push(time.nowMs());
  };

  await Promise.all(Array.from({ length: 10 }, call));

  // Below a quarter of 10 they are spread: two over 8 s, then the last over what is left of it.
  expect(times.slice(0, 8)).toEqual(Array(8).fill(0));
  expect(times[8]).toBeCloseTo(8000 / 3, 2);
});

test('an answer that does not come is not waited for forever', async () => {
  const time = new Timeline();
  const never = new Promise<Response>(() => undefined);
  const server = scriptedServer(time, () => () => never, ok());
  const fetch = time.client({ fetch: server.fetch, pace: true });
  void fetch(API);

  const second = fetch(API);
  // The first call never sleeps, so that time has to be moved by hand.
  time.clock.advance('1s');
  await new Promise((resolve) => setImmediate(resolve));
  expect(time.asleep()).toBe(1);
  time.wakeAll();

  expect((await second).status).toBe(200);
});

test('a call waits at most its patience for its turn, then it goes', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=1;t=3600' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true, maxWaitMs: 5000 });

  for (let call = 0; call < 2; call += 1) await fetch(API);

  expect(server.times).toEqual([0, 5000]);
});

test('a call that would be refused for longer than it may wait hears so at once', async () => {
  const time = new Timeline();
  const server = scriptedServer(
    time,
    ok({ RateLimit: '"api";r=0;t=3600' }),
    refusal({ 'Retry-After': '3600' }),
  );
  const fetch = time.client({ fetch: server.fetch, pace: true, maxWaitMs: 5000 });
  await fetch(API);

  const statuses = await Promise.all([fetch(API), fetch(API), fetch(API)]);

  expect(statuses.map(({ status }) => status)).toEqual([429, 429, 429]);
  expect(server.times).toEqual([0, 0, 0, 0]);
});

test('a wait that just fits the patience is waited for', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=5' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true, maxWaitMs: 5000 });

  for (let call = 0; call < 2; call += 1) await fetch(API);

  expect(server.times).toEqual([0, 5000]);
});

test('whoever was refused goes first, not before it was told, and the others after it', async () => {
  const time = new Timeline();
  const order: string[] = [];
  let requests = 0;
  const fetch = time.client({
    pace: true,
    random: () => 1,
    fetch: async (input) => {
      requests += 1;
      order.push(`${pathOf(input)} at ${time.nowMs()}`);
      return requests === 1 ? refusal({ 'Retry-After': '4' })() : ok()();
    },
  });

  await Promise.all([fetch(`${API}a`), fetch(`${API}b`), fetch(`${API}c`)]);

  expect(order).toEqual(['/a at 0', '/a at 5000', '/b at 5000', '/c at 5000']);
});

test('a refusal holds every call of its partition back, and none of another', async () => {
  const time = new Timeline();
  const times = new Map<string, number[]>();
  const fetch = time.client({
    pace: true,
    maxRetries: 0,
    partition: ({ pathname }) => pathname.slice(0, 2),
    fetch: async (input) => {
      const pathname = pathOf(input);
      times.set(pathname, [...(times.get(pathname) ?? []), time.nowMs()]);
      return pathname === '/a1' ? refusal({ 'Retry-After': '3' })() : ok()();
    },
  });

  await fetch(`${API}a1`);
  await Promise.all([fetch(`${API}b1`), fetch(`${API}a2`)]);

  expect(Object.fromEntries(times)).toEqual({ '/a1': [0], '/b1': [0], '/a2': [3000] });
});

test('by default a partition is an origin', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=3' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true });

  await fetch('https://a.example.com/x');
  await fetch('https://b.example.com/x');
  await fetch('http://a.example.com/x');
  await fetch('https://a.example.com:444/x');
  await fetch('https://a.example.com/y');

  expect(server.times).toEqual([0, 0, 0, 0, 3000]);
});

test('a partition that is no string is a mistake', async () => {
  const fetch = new Timeline().client({ pace: true, partition: (() => 7) as unknown as () => string });

  await expect(fetch(API)).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: 'partition() returned 7; it has to return a string, such as url.origin.',
  });
});

test('relative addresses are those of the page, where there is one', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=3' }), ok());
  const seen: string[] = [];
  const fetch = time.client({
    fetch: server.fetch,
    pace: true,
    partition: (url) => {
      seen.push(url.href);
      return url.origin;
    },
  });
  Reflect.set(globalThis, 'location', { href: 'https://page.example.com/index.html' });
  try {
    await fetch('/items');
  } finally {
    Reflect.deleteProperty(globalThis, 'location');
  }

  expect(seen).toEqual(['https://page.example.com/items']);
});

test('1000 partitions are remembered, and of more the latest', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=3' }));
  const fetch = time.client({ fetch: server.fetch, pace: true });
  const ask = (host: number): Promise<Response> => fetch(`https://h${host}.example.com/`);
  for (let host = 0; host < 1000; host += 1) await ask(host);
  expect(time.nowMs()).toBe(0);

  await ask(1000); // takes the place of 0
  await ask(0); // takes the place of 1
  expect(time.nowMs()).toBe(0);
  await ask(2);

  expect(time.nowMs()).toBe(3000);
});

test('when all 1000 partitions are busy, one more goes without', async () => {
  const time = new Timeline();
  let open: (() => void) | undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  let answered = 0;
  const fetch = time.client({
    pace: true,
    fetch: async (input) => {
      if (input !== API) await opened;
      answered += 1;
      return ok({ RateLimit: '"api";r=0;t=3' })();
    },
  });
  const busy = Array.from({ length: 1000 }, (_, host) => fetch(`https://h${host}.example.com/`));

  await fetch(API);
  await fetch(API);
  expect(answered).toBe(2);
  open?.();
  await Promise.all(busy);

  expect(time.nowMs()).toBe(0);
});

test('when as many calls wait as may, one more goes at once', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=3' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true, maxWaiting: 1 });
  await fetch(API);

  await Promise.all([fetch(API), fetch(API)]);

  expect(server.times).toEqual([0, 0, 3000]);
});

test('a network that fails does not block the line', async () => {
  const time = new Timeline();
  const server = scriptedServer(time, () => new TypeError('fetch failed'), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true });

  const [first, second] = await Promise.allSettled([fetch(API), fetch(API)]);

  expect([first.status, second.status]).toEqual(['rejected', 'fulfilled']);
  expect(server.times).toEqual([0, 0]);
});

test('a sleep that does not move the clock is believed here too', async () => {
  const time = new Timeline();
  const slept: number[] = [];
  const server = scriptedServer(time, ok({ RateLimit: '"api";r=0;t=3' }), ok());
  const fetch = time.client({ fetch: server.fetch, pace: true, sleep: async (ms) => slept.push(ms) });

  await fetch(API);
  await fetch(API);

  expect(slept).toEqual([3000]);
});
