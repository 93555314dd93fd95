import { expect, test, vi } from 'vitest';
import { createLimiter, tokenBucket, type FailurePolicy, type Limiter } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { remoteStore, type RemoteStore } from '../../unit/remote-store.ts';
import { startServer, type Framework } from '../running-server.ts';

const api = tokenBucket({ name: 'api', average: 2, burst: 2, period: '1h' });

export function outageTests<Request>(framework: Framework<Request>): void {
  const brokenBy = (behaviour: RemoteStore['behaviour'], failurePolicy: FailurePolicy): Limiter => {
    const clock = virtualClock();
    const store = remoteStore(clock);
    store.behaviour = behaviour;
    return createLimiter({ store, clock, failurePolicy, deadlineMs: 20 });
  };

  test.each(['rejects', 'hangs'] as const)(
    'failClosed answers 503 when the store %s, which does not look like a denial',
    async (behaviour) => {
      const limiter = brokenBy(behaviour, 'failClosed');
      const heard = vi.fn<() => void>();
      const sources: string[] = [];
      const { get, served } = await startServer(framework, {
        limiter,
        policies: api,
        onLimited: heard,
        onDecision: ({ decision }) => sources.push(decision.source),
      });

      const reply = await get();

      expect(reply.status).toBe(503);
      expect(reply.headers['retry-after']).toBe('1');
      expect(Object.keys(reply.headers).filter((name) => name.includes('ratelimit'))).toEqual([]);
      expect(JSON.parse(reply.body)).toEqual({
        type: 'about:blank',
        title: 'Service Unavailable',
        status: 503,
        detail: 'The limits of this request cannot be checked at the moment.',
      });
      expect(heard).not.toHaveBeenCalled();
      expect(sources).toEqual(['failurePolicy']);
      expect(served()).toBe(0);
    },
  );

  test('the status of an outage can be chosen', async () => {
    const limiter = brokenBy('rejects', 'failClosed');
    const { get } = await startServer(framework, { limiter, policies: api, failureStatus: 500 });

    expect((await get()).status).toBe(500);
  });

  test('passThrough lets everything pass and claims nothing about limits', async () => {
    const limiter = brokenBy('rejects', 'passThrough');
    const { get, statuses } = await startServer(framework, { limiter, policies: api });

    expect(await statuses(4)).toEqual([200, 200, 200, 200]);
    expect(Object.keys((await get()).headers).filter((name) => name.includes('ratelimit'))).toEqual([]);
  });

  test('inMemoryFallback goes on limiting, and says so as always', async () => {
    const limiter = brokenBy('hangs', 'inMemoryFallback');
    const { get, statuses } = await startServer(framework, { limiter, policies: api });

    expect(await statuses(3)).toEqual([200, 200, 429]);
    expect((await get()).headers['ratelimit']).toBe('"api";r=0;t=1800');
  });

  test.each([
    ['failClosed', 'passThrough', [503, 503, 503]],
    ['passThrough', 'failClosed', [200, 200, 200]],
    ['inMemoryFallback', 'failClosed', [200, 200, 429]],
  ] as const)(
    'its own failure policy %s wins over %s of the limiter',
    async (failurePolicy, other, expected) => {
      const limiter = brokenBy('rejects', other);
      const { statuses } = await startServer(framework, { limiter, policies: api, failurePolicy });

      expect(await statuses(3)).toEqual(expected);
    },
  );

  test('shadow mode lets everything pass, whatever the failure policy', async () => {
    const limiter = brokenBy('rejects', 'failClosed');
    const { get } = await startServer(framework, { limiter, policies: api, shadow: 'headers' });

    const reply = await get();

    expect(reply.status).toBe(200);
    expect(reply.headers).not.toHaveProperty('ratelimit');
  });

  test('a closed limiter is an error and neither a denial nor an admission', async () => {
    vi.spyOn(console, 'error').mockReturnValue();
    const limiter = createLimiter();
    await limiter.close();
    const { get, served } = await startServer(framework, { limiter, policies: api });

    expect((await get()).status).toBe(500);
    expect(served()).toBe(0);
  });
}
