// Two gateways, one Redis, one backend: real processes on real sockets.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually, startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { burst, startBackend, startLoad, statusOf, type Backend } from './traffic.ts';

let redis: RedisServer;
let backend: Backend;
let gateways: readonly GatewayProcess[] = [];

beforeAll(async () => {
  [redis, backend] = await Promise.all([startRedis(), startBackend()]);
});

afterEach(async () => {
  await Promise.all(gateways.map(async (gateway) => gateway.remove()));
  gateways = [];
});

afterAll(async () => {
  await Promise.all([redis.stop(), backend.close()]);
});

async function startFleet(limits: string): Promise<readonly string[]> {
  const yaml = `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 1s, key_prefix: "${Math.random().toString(36).slice(2)}:" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit: ${limits}
`;
  gateways = await Promise.all([GatewayProcess.start(yaml), GatewayProcess.start(yaml)]);
  return gateways.map(({ url }) => url);
}

test('a limit holds exactly across both gateways', async () => {
  const urls = await startFleet('{ average: 100, period: 1h, deadline: 5s, failure_policy: failClosed }');
  const before = backend.served();

  const { statuses, failures } = await burst(urls, 400);

  expect(failures).toEqual([]);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 100, 429: 300 });
  expect(backend.served() - before).toBe(100);
});

const CLIENTS = 8;

describe('when Redis dies under load and comes back', () => {
  /** Before, while Redis is gone, and after. */
  async function outage(limits: string): Promise<readonly Map<number, number>[]> {
    const urls = await startFleet(limits);
    const phases: Map<number, number>[] = [];
    const load = startLoad({ urls: () => urls, clients: CLIENTS, pauseMs: 5 });
    const phase = async (): Promise<void> => {
      // Whoever asked before it began.
      await load.answers(2 * CLIENTS);
      load.tally.statuses.clear();
      await load.answers(20 * CLIENTS);
      phases.push(new Map(load.tally.statuses));
    };
    await phase();
    await redis.kill();
    await Promise.all(
      gateways.map(async (gateway) =>
        gateway.line(({ msg }) => msg.startsWith('the store could not decide')),
      ),
    );
    await phase();
    for (const gateway of gateways) gateway.lines.length = 0;
    await redis.restart();
    await Promise.all(
      gateways.map(async (gateway) => gateway.line(({ msg }) => msg === 'the store decides again')),
    );
    await phase();
    const { failures } = await load.stop();
    expect(failures).toEqual([]);
    return phases;
  }

  test('passThrough admits everything meanwhile', async () => {
    const [before, during, after] = await outage(
      '{ average: 1000000, deadline: 1s, failure_policy: passThrough }',
    );

    expect([before, during, after].map((phase) => [...(phase?.keys() ?? [])])).toEqual([[200], [200], [200]]);
  });

  test('failClosed answers failure_code meanwhile', async () => {
    const [before, during, after] = await outage(
      '{ average: 1000000, deadline: 1s, failure_policy: failClosed, failure_code: 503 }',
    );

    expect([before, during, after].map((phase) => [...(phase?.keys() ?? [])])).toEqual([[200], [503], [200]]);
  });

  test('inMemoryFallback keeps to the policy meanwhile, each gateway with its part', async () => {
    const [, during] = await outage('{ average: 4, period: 1h, deadline: 1s, instances: 2 }');

    // Each fills a table of its own with half of the policy, once.
    expect(during?.get(200) ?? 0).toBeLessThanOrEqual(4);
    expect(during?.get(429)).toBeGreaterThan(10);
    expect([...(during?.keys() ?? [])].filter((status) => status !== 200 && status !== 429)).toEqual([]);
  });
});

test('both gateways are restarted one after the other under load, and no request fails', async () => {
  const urls = await startFleet(
    '{ average: 1000000, deadline: 5s, failure_policy: failClosed, failure_code: 503 }',
  );
  const load = startLoad({ urls: () => gateways.map(({ url }) => url), clients: 8 });
  await load.answers(50);
  const exitCodes: number[] = [];

  for (const gateway of gateways) {
    exitCodes.push(await gateway.terminate());
    await gateway.launch();
    await load.answers(50);
  }

  const { statuses, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
  expect(exitCodes).toEqual([0, 0]);
  expect(urls).toHaveLength(2);
});

test('a gateway starts without Redis, answers by its failure policy, and joins when Redis is there', async () => {
  await redis.kill();
  const [url = ''] = await startFleet(
    '{ average: 5, period: 1h, failure_policy: failClosed, failure_code: 503 }',
  );
  const without = await statusOf(url);

  await redis.restart();

  expect(without).toBe(503);
  await eventually('Redis decides', async () => (await statusOf(url)) === 200);
});
