import { expect, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../../../../test/patience.ts';
import type { EndedResponse, RateLimitOptions, UnsettledRequest } from '../../../src/http/index.ts';
import { concurrency, createLimiter, fixedWindow, leakyBucket, type Limiter } from '../../../src/index.ts';
import { openRaw } from '../client.ts';
import { startServer, type Framework } from '../running-server.ts';

const budget = fixedWindow({ name: 'budget', quota: 100, window: '1d' });
/** The second request waits for its turn, an hour long. */
const queue = leakyBucket({ name: 'queue', average: 1, period: '1h', maxDelay: '100h' });
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

export function settlingTests<Request>(framework: Framework<Request>): void {
  const common = (limiter: Limiter): RateLimitOptions<Request> => ({
    limiter,
    policies: budget,
    key: () => 'ann',
  });

  test('settle() says after the response what a request used: the rest is given back', async () => {
    const limiter = createLimiter();
    const ended: EndedResponse[] = [];
    const settle = (_: Request, response: EndedResponse): number => {
      ended.push(response);
      return 3;
    };
    const running = await startServer<Request>(framework, { ...common(limiter), cost: 10, settle });

    const reply = await running.get();

    expect(reply.status).toBe(200);
    expect(reply.headers['ratelimit']).toMatch(/^"budget";r=90;/);
    expect(await left(limiter, 97)).toBe(97);
    expect(ended).toHaveLength(1);
    expect(ended[0]).toMatchObject({ status: 200, finished: true });
    expect(ended[0]?.header('RateLimit')).toMatch(/^"budget";r=90;/);
  });

  test('what a request used beyond its cost is charged', async () => {
    const limiter = createLimiter();
    const settle = async (): Promise<number> => 25;
    const running = await startServer<Request>(framework, { ...common(limiter), cost: 10, settle });

    await running.get();

    expect(await left(limiter, 75)).toBe(75);
  });

  test("with count: 'failures' a success is free, and with count: 'successes' it counts", async () => {
    const failures = createLimiter();
    const successes = createLimiter();
    const running = await startServer<Request>(framework, [
      { ...common(failures), cost: 5, count: 'failures' },
      { ...common(successes), cost: 5, count: 'successes' },
    ]);

    await running.get();

    expect(await left(failures, 100)).toBe(100);
    expect(await left(successes, 95)).toBe(95);
  });

  test('a function says which requests count, by request and response', async () => {
    const limiter = createLimiter();
    const count = (request: Request, { status }: EndedResponse): boolean =>
      status === 200 && framework.headerOf(request, 'x-counts') === 'yes';
    const running = await startServer<Request>(framework, { ...common(limiter), cost: 5, count });

    await running.get();
    expect(await left(limiter, 100)).toBe(100);
    await running.get({ headers: { 'X-Counts': 'yes' } });

    expect(await left(limiter, 95)).toBe(95);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('no usage')), /no usage/],
    ['returns a fraction', () => 1.5, /settle\(\) returned 1\.5; expected an integer/],
    ['returns nothing', () => Number.NaN, /settle\(\) returned NaN/],
    ['returns less than nothing', () => -1, /settle\(\) returned -1/],
  ])('a settle function that %s is reported, and the request counts in full', async (_, settle, message) => {
    const limiter = createLimiter();
    const unsettled: UnsettledRequest<Request>[] = [];
    const onSettleError = (event: UnsettledRequest<Request>): void => void unsettled.push(event);
    const running = await startServer<Request>(framework, {
      ...common(limiter),
      cost: 10,
      settle,
      onSettleError,
    });

    expect((await running.get()).status).toBe(200);

    await vi.waitFor(() => expect(unsettled).toHaveLength(1), PATIENCE_MS);
    expect(unsettled[0]?.error).toMatchObject({
      code: 'SETTLE_FAILED',
      message: expect.stringMatching(message),
    });
    expect(await left(limiter, 90)).toBe(90);
  });

  test('a denied request settles nothing, and a client that goes before its turn counts in full', async () => {
    const limiter = createLimiter();
    const settle = vi.fn<() => number>(() => 0);
    const running = await startServer<Request>(framework, {
      ...common(limiter),
      policies: [budget, queue],
      cost: 1,
      settle,
    });
    await running.get();
    await vi.waitFor(() => expect(settle).toHaveBeenCalledTimes(1), PATIENCE_MS);
    await limiter.forget(budget.for('ann'));
    const spent = await limiter.check(queue.for('ann'));
    expect(spent.allowed).toBe(true);

    const waiting = await openRaw(running.port, GET);
    expect(await left(limiter, 99)).toBe(99);
    waiting.socket.destroy();
    await limiter.check(budget.for('ann'), { cost: 99 });
    const refused = await running.get();

    expect(refused.status).toBe(429);
    expect(settle).toHaveBeenCalledTimes(1);
    expect(await left(limiter, 0)).toBe(0);
  });

  test('a request that holds a slot is settled, too', async () => {
    const limiter = createLimiter();
    const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1h' });
    const policies = [inFlight, budget];
    const running = await startServer<Request>(framework, { ...common(limiter), policies, settle: () => 4 });

    for (const rest of [96, 92]) {
      expect((await running.get()).status).toBe(200);
      expect(await left(limiter, rest)).toBe(rest);
      await vi.waitFor(
        async () => expect((await limiter.peek(inFlight.for('ann'))).remaining).toBe(1),
        PATIENCE_MS,
      );
    }
  });
}

/** What is left of the budget, as soon as it is as much as expected or nobody expects it any more. */
async function left(limiter: Limiter, expected: number): Promise<number> {
  let remaining = -1;
  await vi.waitFor(async () => {
    ({ remaining } = await limiter.peek(budget.for('ann')));
    if (remaining !== expected) throw new Error(`${remaining} are left, expected ${expected}`);
  }, PATIENCE_MS);
  return remaining;
}
