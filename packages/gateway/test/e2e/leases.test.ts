// Workers that share leases, as an operator runs them.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, startLoad, type Backend } from './traffic.ts';

const AVERAGE = 20_000;

let redis: RedisServer;
let backend: Backend;
let gateway: GatewayProcess;

beforeEach(async () => {
  [redis, backend] = await Promise.all([startRedis(), startBackend()]);
  gateway = await GatewayProcess.start(config());
});

afterEach(async () => {
  await gateway.remove();
  await Promise.all([redis.stop(), backend.close()]);
});

function config(): string {
  return `
server: { address: "127.0.0.1:0", workers: 2 }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 5s, dial_timeout: 30s }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  deadline: 5s
  failure_policy: failClosed
  policies: { busy: { average: ${AVERAGE}, burst: ${AVERAGE}, period: 1s, leases: true } }
  rules: [{ name: all, policies: [busy] }]
`;
}

/** The sum of the series of a metric whose labels contain a text. */
async function metric(name: string, labels = ''): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

async function scriptCalls(): Promise<number> {
  const stats = String(await redis.command('INFO', 'commandstats'));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test('workers decide most requests of a busy key by leases that one process takes, and the metrics say so', async () => {
  const [seenAtFirst, countedAtFirst] = [await scriptCalls(), await metric('spillgate_store_calls_total')];
  const load = startLoad({ urls: () => [gateway.url], clients: 16 });
  await expect.poll(async () => metric('spillgate_decisions_total', 'source="lease"')).toBeGreaterThan(100);
  const [calls, decisions] = [await scriptCalls(), await metric('spillgate_decisions_total')];

  await load.answers(4000);

  expect(await metric('spillgate_leased_tokens')).toBeGreaterThanOrEqual(0);
  expect(await metric('spillgate_lease_clock_bound_seconds')).toBeGreaterThanOrEqual(0);
  const { statuses, failures } = await load.stop();
  const made = (await metric('spillgate_decisions_total')) - decisions;
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
  expect(await metric('spillgate_lease_tokens_total', 'fate="granted"')).toBeGreaterThan(1000);
  expect(await metric('spillgate_lease_tokens_total', 'fate="expired"')).toBeGreaterThan(0);
  expect(((await scriptCalls()) - calls) / made).toBeLessThan(1 / 10);
  // What the metrics count is what Redis has seen.
  const counted = (await metric('spillgate_store_calls_total')) - countedAtFirst;
  expect(counted).toBe((await scriptCalls()) - seenAtFirst);
});

test('a worker that dies takes nothing with it: the others and its successor go on', async () => {
  const load = startLoad({ urls: () => [gateway.url], clients: 16 });
  await expect.poll(async () => metric('spillgate_decisions_total', 'source="lease"')).toBeGreaterThan(100);

  process.kill(gateway.workerPids()[0] ?? 0, 'SIGKILL');
  await gateway.line(({ msg }) => msg === 'a worker was started again');
  await load.answers(1000);
  const { statuses } = await load.stop();

  expect([...statuses.keys()]).toEqual([200]);
});

test('a primary process that stands still holds up nobody: workers ask Redis themselves', async () => {
  const load = startLoad({ urls: () => [gateway.url], clients: 16 });
  await expect.poll(async () => metric('spillgate_decisions_total', 'source="lease"')).toBeGreaterThan(100);

  gateway.signal('SIGSTOP');
  await load.answers(2000);
  gateway.signal('SIGCONT');
  const { statuses, failures } = await load.stop();

  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
});
