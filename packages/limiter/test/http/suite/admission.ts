import { expect, test, vi } from 'vitest';
import {
  createLimiter,
  leakyBucket,
  slidingWindowLog,
  tokenBucket,
  type Decision,
} from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { startServer, type Framework } from '../running-server.ts';

const api = tokenBucket({ name: 'api', average: 3, burst: 3, period: '30s' });
const hourly = slidingWindowLog({ name: 'hourly', quota: 100, window: '1h' });

export function admissionTests<Request>(framework: Framework<Request>): void {
  test('what passes reaches the application and is told what is left', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get } = await startServer(framework, { limiter, policies: api });

    const reply = await get();

    expect(reply).toMatchObject({ status: 200, body: 'hello' });
    expect(reply.headers).toMatchObject({
      'ratelimit-policy': '"api";q=3;w=30',
      ratelimit: '"api";r=2;t=10',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '2',
      'x-ratelimit-reset': '10',
    });
    expect(reply.headers).not.toHaveProperty('retry-after');
    expect(reply.headers).not.toHaveProperty('access-control-expose-headers');
  });

  test('what is over the limit gets a 429 and never reaches the application', async () => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock });
    const { get, statuses, served } = await startServer(framework, { limiter, policies: api });
    await statuses(3);
    clock.advance('500ms');

    const reply = await get();

    expect(reply.status).toBe(429);
    expect(reply.headers).toMatchObject({
      'content-type': 'application/problem+json',
      'retry-after': '10',
      'ratelimit-policy': '"api";q=3;w=30',
      ratelimit: '"api";r=0;t=10',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '30',
      'x-ratelimit-retry-after': '10',
    });
    expect(JSON.parse(reply.body)).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      detail: 'The policy "api" admits this request again in 10 s.',
      'violated-policies': ['api'],
      retryAfterMs: 9500,
    });
    expect(served()).toBe(3);
  });

  test('several policies are charged together or not at all, and the headers name all of them', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, { limiter, policies: [hourly, api] });
    await statuses(3);

    const reply = await get();

    expect(reply.status).toBe(429);
    expect(reply.headers).toMatchObject({
      'ratelimit-policy': '"hourly";q=100;w=3600, "api";q=3;w=30',
      ratelimit: '"hourly";r=97;t=3600, "api";r=0;t=10',
      'x-ratelimit-limit': '3',
    });
    expect(JSON.parse(reply.body)).toMatchObject({ 'violated-policies': ['api'] });
  });

  test('a limiter before another: lists are appended to, and the one with less left speaks in X-RateLimit', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const tight = { limiter, policies: api };
    const wide = { limiter, policies: hourly };
    const tightFirst = await startServer(framework, [tight, wide]);
    const wideFirst = await startServer(framework, [wide, tight]);

    const first = await tightFirst.get();
    const second = await wideFirst.get();
    const [, denied] = [await wideFirst.get(), await wideFirst.get()];

    expect(first.headers).toMatchObject({
      ratelimit: '"api";r=2;t=10, "hourly";r=99;t=3600',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '2',
      'x-ratelimit-reset': '10',
    });
    expect(second.headers).toMatchObject({
      ratelimit: '"hourly";r=98;t=3600, "api";r=1;t=20',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '1',
      'x-ratelimit-reset': '20',
    });
    expect(denied.status).toBe(429);
    expect(denied.headers).toMatchObject({ 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '0' });
  });

  test('a request costs what the option or the function says', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const fixed = await startServer(framework, { limiter, policies: hourly, cost: 40 });
    const byRequest = await startServer(framework, {
      limiter,
      policies: api,
      cost: async (request) => Number(framework.headerOf(request, 'x-cost')),
    });

    expect(await fixed.statuses(3)).toEqual([200, 200, 429]);
    expect((await byRequest.get({ headers: { 'x-cost': '2' } })).status).toBe(200);
    expect((await byRequest.get({ headers: { 'x-cost': '2' } })).status).toBe(429);
    expect((await byRequest.get({ headers: { 'x-cost': '0' } })).headers['x-ratelimit-remaining']).toBe('1');
  });

  test('a cost that never fits is denied without a Retry-After', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get } = await startServer(framework, { limiter, policies: api, cost: 4 });

    const reply = await get();

    expect(reply.status).toBe(429);
    expect(reply.headers).not.toHaveProperty('retry-after');
    expect(reply.headers).not.toHaveProperty('x-ratelimit-retry-after');
    expect(JSON.parse(reply.body)).toMatchObject({
      detail:
        'This request costs more than the policy "api" ever admits at once, which is 3. Waiting does not help.',
      retryAfterMs: null,
    });
  });

  test('what is skipped is neither counted nor told anything', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, {
      limiter,
      policies: api,
      skip: async (request) => framework.headerOf(request, 'x-internal') === 'yes',
    });

    const skipped = await statuses(5, { headers: { 'x-internal': 'yes' } });
    const reply = await get({ headers: { 'x-internal': 'yes' } });

    expect(skipped).toEqual([200, 200, 200, 200, 200]);
    expect(reply.headers).not.toHaveProperty('ratelimit');
    expect((await get()).headers['x-ratelimit-remaining']).toBe('2');
  });

  test('a function chooses the policies of a request, and may choose none', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, {
      limiter,
      policies: (request) => (framework.headerOf(request, 'x-plan') === 'free' ? api : undefined),
    });

    expect(await statuses(4, { headers: { 'x-plan': 'free' } })).toEqual([200, 200, 200, 429]);
    expect(await statuses(4)).toEqual([200, 200, 200, 200]);
    expect((await get()).headers).not.toHaveProperty('ratelimit');
  });

  test('an override gives one request other numbers or another policy, and what was spent stays spent', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, {
      limiter,
      policies: api,
      override: (request, policy) => {
        const plan = framework.headerOf(request, 'x-plan');
        if (plan === 'paid') return { average: 5, burst: 5 };
        return plan === 'huge' && policy === api ? hourly : undefined;
      },
    });

    expect(await statuses(4)).toEqual([200, 200, 200, 429]);
    expect(await statuses(3, { headers: { 'x-plan': 'paid' } })).toEqual([200, 200, 429]);
    expect((await get({ headers: { 'x-plan': 'huge' } })).headers['ratelimit']).toBe('"hourly";r=99;t=3600');
  });

  test('shadow mode decides and reports, and holds nobody up', async () => {
    const limited: [Decision, boolean][] = [];
    const decided: boolean[] = [];
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, {
      limiter,
      policies: api,
      key: (request) => framework.headerOf(request, 'x-user'),
      shadow: true,
      onDecision: ({ shadow }) => decided.push(shadow),
      onLimited: ({ decision, shadow }) => limited.push([decision, shadow]),
    });

    expect(await statuses(5, { headers: { 'x-user': 'ann' } })).toEqual([200, 200, 200, 200, 200]);
    expect((await get()).status).toBe(200); // no key: in earnest this would be a 400
    expect((await get({ headers: { 'x-user': 'bob' } })).headers).not.toHaveProperty('ratelimit');
    expect(limited.map(([{ policy, allowed }, shadow]) => [policy, allowed, shadow])).toEqual([
      ['api', false, true],
      ['api', false, true],
    ]);
    expect(decided).toEqual([true, true, true, true, true, true]); // five of ann and one of bob
  });

  test('shadow mode with headers tells what would happen, but nobody to wait', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, statuses } = await startServer(framework, { limiter, policies: api, shadow: 'headers' });
    await statuses(3);

    const reply = await get();

    expect(reply.status).toBe(200);
    expect(reply.headers).toMatchObject({ ratelimit: '"api";r=0;t=10', 'x-ratelimit-remaining': '0' });
    expect(reply.headers).not.toHaveProperty('retry-after');
    expect(reply.headers).not.toHaveProperty('x-ratelimit-retry-after');
  });

  test('shadow mode lets a request pass even if the program is wrong, and says so', async () => {
    const complaint = vi.spyOn(console, 'error').mockReturnValue();
    const limiter = createLimiter({ clock: virtualClock() });
    const { get } = await startServer(framework, { limiter, policies: api, shadow: true, cost: () => -1 });

    expect((await get()).status).toBe(200);
    expect(complaint).toHaveBeenCalledOnce();
  });

  test('a queued request waits for its turn', async () => {
    const queue = leakyBucket({ name: 'queue', average: 10, period: '1s', maxDelay: '10s' });
    const { statuses } = await startServer(framework, { limiter: createLimiter(), policies: queue });
    const startMs = performance.now();

    expect(await statuses(3)).toEqual([200, 200, 200]);
    // Two waits of 100 ms between the three.
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(190);
  });
}
