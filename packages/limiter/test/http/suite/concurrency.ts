import { expect, test, vi } from 'vitest';
import { PATIENCE_MS } from '../../../../../test/patience.ts';
import { concurrency, createLimiter, leakyBucket, type Limiter } from '../../../src/index.ts';
import { openRaw } from '../client.ts';
import { startServer, type Framework } from '../running-server.ts';

const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1h' });
/** The second request waits for its turn, an hour long, and holds its slot meanwhile. */
const queue = leakyBucket({ name: 'queue', average: 1, period: '1h', maxDelay: '100h' });
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

export function concurrencyTests<Request>(framework: Framework<Request>): void {
  test('a request holds its slot until its response has ended', async () => {
    const limiter = createLimiter();
    const running = await startServer<Request>(framework, { limiter, policies: inFlight, key: () => 'ann' });

    for (let request = 0; request < 5; request += 1) {
      const reply = await running.get();
      expect(reply.status).toBe(200);
      expect(reply.headers['ratelimit-policy']).toBe('"in-flight";q=1;qu="concurrent-requests"');
      expect(reply.headers['ratelimit']).toBe('"in-flight";r=0');
      await isFree(limiter);
    }
    expect(running.served()).toBe(5);
  });

  test('a response without its body, as to HEAD, has ended when it was made', async () => {
    const limiter = createLimiter();
    const running = await startServer<Request>(framework, { limiter, policies: inFlight, key: () => 'ann' });

    for (let request = 0; request < 3; request += 1) {
      expect((await running.get({ method: 'HEAD' })).status).toBe(200);
      await isFree(limiter);
    }
  });

  test('while it holds the last slot others are refused, and a client that goes gives its slot back', async () => {
    const limiter = createLimiter();
    const policies = [inFlight, queue];
    const running = await startServer<Request>(framework, { limiter, policies, key: () => 'ann' });
    await running.get();
    await isFree(limiter);
    const waiting = await openRaw(running.port, GET);
    await vi.waitFor(async () => expect(await free(limiter)).toBe(0), PATIENCE_MS);

    const refused = await running.get();
    waiting.socket.destroy();
    await isFree(limiter);

    expect(refused.status).toBe(429);
    expect(JSON.parse(refused.body)).toMatchObject({ 'violated-policies': ['in-flight'] });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(3500);
    expect(running.served()).toBe(1);
  });
}

async function free(limiter: Limiter): Promise<number> {
  return (await limiter.peek(inFlight.for('ann'))).remaining;
}

async function isFree(limiter: Limiter): Promise<void> {
  await vi.waitFor(async () => expect(await free(limiter)).toBe(1), PATIENCE_MS);
}
