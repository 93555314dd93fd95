import { Agent } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { openRaw, statusesIn } from '../client.ts';
import { startServer, type Framework } from '../running-server.ts';

const three = tokenBucket({ name: 'three', average: 3, burst: 3, period: '1h' });
const CAPACITY = 137;
const crowd = tokenBucket({ name: 'crowd', average: CAPACITY, burst: CAPACITY, period: '1h' });
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

export function wireTests<Request>(framework: Framework<Request>): void {
  test('requests that share a connection are counted one by one', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { server, statuses } = await startServer<Request>(framework, { limiter, policies: three });
    let connections = 0;
    server.on('connection', () => (connections += 1));
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());

    expect(await statuses(5, { agent })).toEqual([200, 200, 200, 429, 429]);
    expect(connections).toBe(1);
  });

  test('pipelined requests are answered in their order', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { port } = await startServer<Request>(framework, { limiter, policies: three });

    const client = await openRaw(port, GET.repeat(5));
    const received = await client.until((text) => text.split('admits this request again').length === 3);
    client.socket.destroy();

    expect(statusesIn(received)).toEqual([200, 200, 200, 429, 429]);
    expect([...received.matchAll(/^ratelimit: (.*)\r$/gim)].map(([, value]) => value)).toEqual([
      '"three";r=2;t=1200',
      '"three";r=1;t=2400',
      '"three";r=0;t=1200',
      '"three";r=0;t=1200',
      '"three";r=0;t=1200',
    ]);
  });

  test('a denied request with a body leaves the connection usable', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { statuses } = await startServer<Request>(framework, { limiter, policies: three });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const post = { agent, method: 'POST', body: 'x'.repeat(100_000) };

    expect(await statuses(5, post)).toEqual([200, 200, 200, 429, 429]);
  });

  test('of 1,000 concurrent requests exactly as many pass as the policy admits', async () => {
    const limiter = createLimiter({ clock: virtualClock() });
    const { get, served } = await startServer<Request>(framework, { limiter, policies: crowd });
    const agent = new Agent({ keepAlive: true, maxSockets: 200 });
    onTestFinished(() => agent.destroy());

    const replies = await Promise.all(Array.from({ length: 1000 }, () => get({ agent })));

    expect(replies.filter(({ status }) => status === 200)).toHaveLength(CAPACITY);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(1000 - CAPACITY);
    expect(served()).toBe(CAPACITY);
  });

  test.each([
    tokenBucket({ name: 'bucket', average: 7, burst: 5, period: '10s' }),
    leakyBucket({ name: 'queue', average: 3, period: '7s', maxDelay: 0 }),
    fixedWindow({ name: 'fixed', quota: 5, window: '90s' }),
    slidingWindowLog({ name: 'log', quota: 5, window: '61s' }),
    slidingWindowCounter({ name: 'counter', quota: 5, window: '10s' }),
  ])('a client that obeys Retry-After is admitted the first time ($algorithm)', async (policy) => {
    const clock = virtualClock(1_767_225_600_123_457);
    const { get } = await startServer<Request>(framework, {
      limiter: createLimiter({ clock }),
      policies: policy,
    });

    for (let round = 0; round < 5; round += 1) {
      let reply = await get();
      while (reply.status === 200) {
        clock.advance('13ms');
        reply = await get();
      }
      expect(reply.status).toBe(429);
      clock.advance(`${Number(reply.headers['retry-after'])}s`);
      expect((await get()).status).toBe(200);
    }
  });
}
