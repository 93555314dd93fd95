// What simulations say, against models that know nothing of the limiter.
import { describe, expect, test } from 'vitest';
import {
  concurrency,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../../src/index.ts';
import { Departures, simulate, simulatedFleet, type SimulateOptions } from '../../src/simulate/index.ts';
import { seededRandom } from '../../src/testing/index.ts';

interface Call {
  readonly atMs: number;
  readonly user: string;
  readonly endMs?: number;
}

const START_MS = Date.UTC(2026, 10, 18, 12);

function calls(count: number, { everyMs = 100, user = 'ann' } = {}): readonly Call[] {
  return Array.from({ length: count }, (_, at) => ({ atMs: START_MS + at * everyMs, user }));
}

async function verdicts(
  requests: readonly Call[],
  options: Omit<SimulateOptions<Call>, 'at'>,
): Promise<readonly boolean[]> {
  const allowed: boolean[] = [];
  await simulate(requests, {
    at: ({ atMs }) => atMs,
    onDecision: (_, decision) => allowed.push(decision.allowed),
    ...options,
  });
  return allowed;
}

const admitted = (allowed: readonly boolean[]): number => allowed.filter(Boolean).length;

/** Six in a row, then one every ten seconds. */
const api = tokenBucket({ name: 'api', average: 6, burst: 6, period: '1m' });
/** By the minute. */
const minutely = fixedWindow({ name: 'minutely', quota: 10, window: '1m' });

describe('one instance', () => {
  test('says who would have been denied, by policy and key', async () => {
    const requests = [...calls(8), ...calls(2, { user: 'bob' })].toSorted((a, b) => a.atMs - b.atMs);

    const result = await simulate(requests, { at: ({ atMs }) => atMs, limits: ({ user }) => api.for(user) });

    expect(result).toEqual({
      requests: 10,
      denied: 2,
      degraded: 0,
      policies: [{ policy: 'api', denied: 2 }],
      keys: [{ policy: 'api', key: 'ann', denied: 2 }],
    });
  });

  test('blocks whom a policy would have blocked', async () => {
    const block = { after: 2, within: '1m', for: '1h' } as const;
    const login = fixedWindow({ name: 'login', quota: 1, window: '1s', block });
    const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1m', block });
    const requests = calls(60, { everyMs: 500 });

    // Every second one is denied, the second denial is that of the fourth request.
    expect(admitted(await verdicts(requests, { limits: ({ user }) => login.for(user) }))).toBe(2);
    // The first holds its slot until all is over: the third is the second denial.
    const endsAt = ({ atMs }: Call): number => atMs + 1500;
    expect(admitted(await verdicts(requests, { limits: ({ user }) => inFlight.for(user), endsAt }))).toBe(1);
  });

  test('takes as many slots as a limit costs', async () => {
    const inFlight = concurrency({ name: 'in-flight', limit: 4, hold: '1m' });
    const limits = ({ user }: Call) => inFlight.for(user).withCost(2);

    expect(admitted(await verdicts(calls(5), { limits, endsAt: ({ atMs }) => atMs + 60_000 }))).toBe(2);
  });

  test('decides by the time of the requests', async () => {
    const limits = ({ user }: Call) => api.for(user);

    // A token every ten seconds is exactly the rate; the burst lasts for six faster ones.
    expect(admitted(await verdicts(calls(100, { everyMs: 10_000 }), { limits }))).toBe(100);
    expect(admitted(await verdicts(calls(100, { everyMs: 5000 }), { limits }))).toBe(
      6 + Math.floor(495 / 10),
    );
  });

  test('charges costs, and admits what no limit holds for', async () => {
    const limits = ({ user }: Call) => (user === 'free' ? [] : api.for(user));

    expect(admitted(await verdicts(calls(8), { limits, cost: () => 2 }))).toBe(3);
    expect(await simulate(calls(8, { user: 'free' }), { at: ({ atMs }) => atMs, limits })).toMatchObject({
      requests: 8,
      denied: 0,
    });
  });

  test('holds slots of concurrency until requests end, for longer than any process would', async () => {
    const inFlight = concurrency({ name: 'inFlight', limit: 2, hold: '1s' });
    const random = seededRandom(7);
    const requests = Array.from({ length: 500 }, (_, at) => {
      const atMs = START_MS + at * 1000;
      return { atMs, user: 'ann', endMs: atMs + random.below(5000) };
    });
    const model: boolean[] = [];
    let busy: number[] = [];
    for (const { atMs, endMs } of requests) {
      busy = busy.filter((until) => until > atMs);
      model.push(busy.length < 2);
      if (busy.length < 2) busy.push(endMs);
    }

    const found = await verdicts(requests, {
      limits: ({ user }) => inFlight.for(user),
      endsAt: ({ endMs = 0 }) => endMs,
    });

    expect(found).toEqual(model);
    expect(admitted(model)).toBeGreaterThan(200);
    expect(admitted(model)).toBeLessThan(490);
  });
});

describe('several instances', () => {
  test('that share a store decide as one would, whatever their clocks show', async () => {
    const limits = ({ user }: Call) => [api.for(user), minutely.for(user)];
    const requests = calls(600, { everyMs: 700 });

    const one = await verdicts(requests, { limits });
    const many = await verdicts(requests, { limits, instances: 7, clockSkewMs: 60_000 });

    expect(many).toEqual(one);
  });

  test('that count for themselves admit as often as there are instances', async () => {
    const requests = calls(100, { everyMs: 10 });

    expect(
      admitted(await verdicts(requests, { limits: () => api.for('a'), instances: 4, shared: false })),
    ).toBe(24);
  });

  test('that count for themselves begin windows when their own clocks do', async () => {
    // 40 requests in the last ten seconds before the minute: ten per instance fill its window.
    const requests = Array.from({ length: 40 }, (_, at) => ({
      atMs: START_MS + 50_000 + at * 250,
      user: 'a',
    }));
    const later = requests.map(({ atMs, user }) => ({ atMs: atMs + 2000, user }));
    const options = { limits: () => minutely.for('a'), instances: 2, shared: false };

    // In step, each admits its quota in this minute. The window of the second begins 5 s early: then it has two.
    expect(admitted(await verdicts(requests, options))).toBe(20);
    expect(admitted(await verdicts(requests, { ...options, clockSkewMs: 5000 }))).toBe(30);
    expect(admitted(await verdicts(later, options))).toBe(10 + 10 + 2 * 4);
  });

  test('take the requests that they are given', async () => {
    const all = { limits: () => api.for('a'), instances: 3, shared: false, instance: () => 2 };

    expect(admitted(await verdicts(calls(100, { everyMs: 1 }), all))).toBe(6);
    await expect(verdicts(calls(1), { ...all, instance: () => 3 })).rejects.toThrow(
      'instance() returned 3; expected an integer from 0 to 2',
    );
  });
});

describe('while the store is away', () => {
  const outages = [{ from: new Date(START_MS + 10_000), to: START_MS + 20_000 }];
  const requests = calls(300); // 30 seconds
  const ofPhase = (allowed: readonly boolean[]): readonly number[] =>
    [0, 100, 200].map((from) => admitted(allowed.slice(from, from + 100)));
  /** Nobody gets more within a minute. */
  const few = tokenBucket({ name: 'few', average: 1, burst: 40, period: '1h' });
  const limits = () => few.for('ann');

  test.each([
    ['failClosed', [40, 0, 0]],
    ['passThrough', [40, 100, 0]],
    // Each of four admits a quarter of the burst, and knows nothing of what the store has counted.
    ['inMemoryFallback', [40, 40, 0]],
  ] as const)('%s answers', async (failurePolicy, expected) => {
    const found = await verdicts(requests, { limits, outages, failurePolicy, instances: 4 });

    expect(ofPhase(found)).toEqual(expected);
  });

  test('a fallback that is not told how many there are admits as often', async () => {
    const found = await verdicts(requests, { limits, outages, instances: 2, fallbackInstances: 1 });

    expect(ofPhase(found)).toEqual([40, 80, 0]);
  });

  test('says how many requests that were', async () => {
    expect(await simulate(requests, { at: ({ atMs }) => atMs, limits, outages })).toMatchObject({
      degraded: 100,
    });
  });

  test('a function may know when', async () => {
    const isAway = (atMs: number) => atMs % 2000 < 1000;

    expect(await simulate(requests, { at: ({ atMs }) => atMs, limits, outages: isAway })).toMatchObject({
      degraded: 150,
    });
  });
});

describe('leases', () => {
  const busy = { name: 'busy', average: 1000, burst: 1000, period: '1s' } as const;
  const flood = calls(30_000, { everyMs: 0.25 }); // 4000 per second

  test('spare calls, and never admit more than one exact bucket', async () => {
    const leased = tokenBucket({ ...busy, leases: true });
    const atMs: number[] = [];
    const result = await simulate(flood, {
      at: (call) => call.atMs,
      limits: () => leased.for('ann'),
      instances: 4,
      clockSkewMs: 500,
      onDecision: (call, { allowed }) => void (allowed && atMs.push(call.atMs)),
    });

    expect(result.denied).toBeGreaterThan(20_000);
    // In every stretch of time: the burst, and what the rate gives.
    for (let first = 0; first < atMs.length; first += 97) {
      for (let last = first; last < atMs.length; last += 89) {
        const seconds = ((atMs[last] ?? 0) - (atMs[first] ?? 0)) / 1000;
        expect(last - first + 1).toBeLessThanOrEqual(1000 + 1000 * seconds + 1e-6);
      }
    }
    // What is stranded in leases is little.
    expect(atMs.length).toBeGreaterThan(0.9 * (1000 + 7500));
  });

  test('go on while the store is away, until they are spent', async () => {
    const { limiters, advanceTo } = simulatedFleet({
      outages: [{ from: START_MS + 900, to: START_MS + 2000 }],
    });
    const [limiter] = limiters;
    const leased = tokenBucket({ ...busy, burst: 100_000, leases: true });
    const sources = new Map<string, number>();
    let asked = 0;
    for (let at = 0; at < 1500; at += 1) {
      advanceTo(START_MS + at);
      if (at === 900) asked = limiter?.statistics()?.calls ?? Infinity;
      const decision = await limiter?.check(leased.for('ann'));
      const when = at < 900 ? 'before' : 'away';
      const source = `${when} ${decision?.source}`;
      sources.set(source, (sources.get(source) ?? 0) + 1);
    }

    expect(sources.get('before lease')).toBeGreaterThan(500);
    expect(sources.get('away lease')).toBeGreaterThan(0);
    expect(sources.get('away fallback')).toBeGreaterThan(0);
    expect(asked).toBeLessThan(450);
  });

  test.each([
    ['fixed window', fixedWindow],
    ['sliding window counter', slidingWindowCounter],
    ['sliding window log', slidingWindowLog],
  ])('what is not used of a %s is given back', async (_name, make) => {
    const leased = make({ name: 'leased', quota: 100_000, window: '1m', leases: true });
    const { limiters, advanceTo } = simulatedFleet({ instances: 2 });
    let leases = 0;
    for (let at = 0; at < 3000; at += 1) {
      advanceTo(START_MS + at);
      const decision = await limiters[at % 2]?.check(leased.for('ann'));
      if (decision?.source === 'lease') leases += 1;
    }

    advanceTo(START_MS + 4000);

    expect(leases).toBeGreaterThan(2000);
    expect((await limiters[0]?.peek(leased.for('ann')))?.remaining).toBe(100_000 - 3000);
  });
});

test.each([
  [{ instances: 0 }, 'instances is 0; expected an integer from 1 to 1000'],
  [{ instances: 1.5 }, 'instances is 1.5; expected an integer'],
  [{ clockSkewMs: -1 }, 'clockSkewMs is -1; expected a number from 0 to 3600000'],
  [{ outages: [{ from: 2, to: 1 }] }, 'An outage is from 2 to 1; expected two times, the later one last'],
  [
    { outages: [], outage: [] },
    'The options of simulatedFleet() do not include "outage"; accepted are instances',
  ],
])('%j is refused', (options, message) => {
  expect(() => simulatedFleet(options)).toThrow(message);
});

test('requests out of order are refused', async () => {
  const limits = () => api.for('ann');

  await expect(simulate([2, 1], { at: (ms) => ms, limits })).rejects.toThrow(
    'Request 2 came at 1 and the one before at 2; simulate() expects them in the order of time: sort them.',
  );
});

describe('what JavaScript lets pass is refused in words', () => {
  const limits = (): ReturnType<typeof api.for> => api.for('ann');

  test.each([
    ['2026-11-18T12:00:00Z', 'at() returned NaN for request 1; expected milliseconds since 1970, or a Date'],
    [-1, 'at() returned -1 for request 1'],
    [1e14, 'at() returned 100000000000000 for request 1'],
  ])('a request at %j', async (at, message) => {
    // @ts-expect-error -- a text is no time
    await expect(simulate([at], { at: (time) => time, limits })).rejects.toThrow(message);
  });

  test('no functions that say when, and what', async () => {
    // @ts-expect-error -- at is missing
    await expect(simulate([1], { limits })).rejects.toThrow('at is undefined; expected a function');
    // @ts-expect-error -- limits is missing
    await expect(simulate([1], { at: Number })).rejects.toThrow('limits is undefined; expected a function');
  });

  test('requests that are no list', async () => {
    // @ts-expect-error -- a number cannot be iterated
    await expect(simulate(5, { at: Number, limits })).rejects.toThrow(
      'The requests are 5; expected an array or anything else that can be iterated.',
    );
  });
});

test('departures come in their order', async () => {
  const random = seededRandom(3);
  const departures = new Departures();
  const gone: number[] = [];
  const times = Array.from({ length: 500 }, () => random.below(1000));
  for (const atMs of times) departures.add(atMs, async () => void gone.push(atMs));

  await departures.until(400, () => undefined);
  expect(gone).toEqual(times.filter((atMs) => atMs <= 400).toSorted((a, b) => a - b));
  await departures.until(Infinity, () => undefined);
  expect(gone).toEqual(times.toSorted((a, b) => a - b));
  expect(departures.size).toBe(0);
});
