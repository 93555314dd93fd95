// What becomes of reserved costs when gateways die, are reloaded or stopped, and when Redis is away.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLimiter, fixedWindow } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { expect, onTestFinished, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';

const QUOTA = 100_000;
const ESTIMATE = 500;
const USED = 70;
const tokens = fixedWindow({ name: 'tokens', quota: QUOTA, window: '365d' });

/** A backend that says what a request has cost, and ends its stream when it is told. */
interface Streams {
  readonly url: string;
  readonly open: ServerResponse[];
  readonly endAll: () => void;
}

async function startStreams(): Promise<Streams> {
  const open: ServerResponse[] = [];
  const server = createServer((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Cost': String(USED) });
    response.write('data: {}\n\n');
    open.push(response);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const endAll = (): void => {
    for (const response of open) response.end();
  };
  return { url: `http://127.0.0.1:${port}`, open, endAll };
}

function config(backend: string, redis: RedisServer): string {
  return `
server: { address: "127.0.0.1:0", drain_timeout: ${PATIENCE_MS}ms }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"] }
rate_limit:
  failure_policy: failClosed
  deadline: ${PATIENCE_MS}ms
  policies: { tokens: { algorithm: fixedWindow, quota: ${QUOTA}, window: 365d } }
  rules:
    - name: chat
      key: { type: global, global_key: all }
      policies: [tokens]
      cost: ${ESTIMATE}
      settle: { type: header, header_name: X-Cost }
`;
}

interface Scene {
  readonly redis: RedisServer;
  readonly backend: Streams;
  readonly gateway: GatewayProcess;
  /** What the key has been charged. */
  readonly charged: () => Promise<number>;
  /** A stream that has begun: resolves when it has ended, however. */
  readonly begin: () => Promise<{ readonly ended: Promise<string> }>;
}

async function scene(): Promise<Scene> {
  const [redis, backend] = await Promise.all([startRedis(), startStreams()]);
  onTestFinished(async () => redis.stop());
  const gateway = await GatewayProcess.start(config(backend.url, redis));
  onTestFinished(async () => gateway.remove());
  const limiter = createLimiter({
    store: redisStore({ url: `redis://127.0.0.1:${redis.port}` }),
    deadlineMs: PATIENCE_MS,
    failurePolicy: 'failClosed',
  });
  onTestFinished(async () => limiter.close());
  return {
    redis,
    backend,
    gateway,
    charged: async () => QUOTA - (await limiter.peek(tokens.for('all'), { cost: 0 })).remaining,
    begin: async () => {
      const response = await fetch(`${gateway.url}/`);
      return { ended: response.text().catch(() => 'broken off') };
    },
  };
}

const SLOW = { timeout: 3 * PATIENCE_MS };

test('what a gateway had reserved when it was killed counts in full', SLOW, async () => {
  const { gateway, backend, charged, begin } = await scene();
  const settled = await begin();
  backend.endAll();
  await settled.ended;
  await expect.poll(charged, { timeout: PATIENCE_MS }).toBe(USED);

  const streams = [await begin(), await begin()];
  gateway.signal('SIGKILL');
  await gateway.exit();

  expect(await Promise.all(streams.map(({ ended }) => ended))).toEqual(['broken off', 'broken off']);
  expect(await charged()).toBe(USED + 2 * ESTIMATE);
  await gateway.launch();
  expect(await charged()).toBe(USED + 2 * ESTIMATE);
});

test('a gateway that is told to stop settles what it has reserved before it exits', SLOW, async () => {
  const { gateway, backend, charged, begin } = await scene();
  const streams = [await begin(), await begin()];

  gateway.signal('SIGTERM');
  await gateway.line(({ msg }) => msg.startsWith('the gateway finishes what is under way'));
  backend.endAll();
  await Promise.all(streams.map(({ ended }) => ended));

  expect(await gateway.exit()).toBe(0);
  expect(await charged()).toBe(2 * USED);
});

test(
  'a request that began before a reload is settled by its own rule, also without that rule and its store',
  SLOW,
  async () => {
    const { gateway, backend, charged, begin } = await scene();
    const stream = await begin();

    const { outcome } = await gateway.reload(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
rate_limit: { average: 100 }
`);
    expect(outcome).toBe('applied');
    expect(await charged()).toBe(ESTIMATE);
    backend.endAll();
    await stream.ended;

    await expect.poll(charged, { timeout: PATIENCE_MS }).toBe(USED);
  },
);

test('a settlement that Redis did not take at once is tried again', SLOW, async () => {
  const { gateway, backend, redis, charged, begin } = await scene();
  const stream = await begin();

  await redis.pause();
  backend.endAll();
  await stream.ended;
  await gateway.line((line) => line['cost'] === USED);
  redis.resume();

  await expect.poll(charged, { timeout: PATIENCE_MS }).toBe(USED);
  const settlements = async (): Promise<string> => (await fetch(`${gateway.adminUrl}/metrics`)).text();
  await expect.poll(settlements, { timeout: PATIENCE_MS }).toContain('settlement="settled"} 1');
});
