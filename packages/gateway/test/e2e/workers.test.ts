// Several processes behind one port, looked after by a primary one.
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { burst, startBackend, startLoad, type Backend } from './traffic.ts';

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

function config(average = 100, server = 'address: "127.0.0.1:0", workers: 2'): string {
  return `
server: { ${server} }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 1s }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit: { average: ${average}, period: 1h, deadline: 5s, failure_policy: failClosed, failure_code: 503 }
`;
}

/** What a connection says until it is closed, in whichever way. */
async function endOf(client: Socket): Promise<string> {
  let said = '';
  client.setEncoding('utf8').on('data', (text: string) => (said += text));
  client.on('error', () => undefined);
  await new Promise((resolve) => {
    client.once('close', resolve);
  });
  return said;
}

test('the limit holds exactly, and the admin server sums up what all workers did', async () => {
  const { statuses, failures } = await burst([gateway.url], 300);

  expect(failures).toEqual([]);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 100, 429: 200 });
  const stats: unknown = await (await fetch(`${gateway.adminUrl}/v1/stats`)).json();
  expect(stats).toMatchObject({ traffic: { requests: { forwarded: 100, refused: 200 } } });
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).toMatch(/^spillgate_gateway_requests_total\{.*outcome="forwarded".*\} 100$/m);
  expect(metrics).toMatch(/^spillgate_gateway_config_generation 1$/m);
});

test('a reload and an override reach every worker', async () => {
  await gateway.reload(config(10));
  const override = await fetch(`${gateway.adminUrl}/v1/keys/default/127.0.0.1/override`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ average: 30 }),
  });

  const { statuses } = await burst([gateway.url], 60);

  expect(override.status).toBe(200);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 30, 429: 30 });
});

test('metrics tell of a reload that no worker heard of, because it was refused', async () => {
  const metrics = async (): Promise<string> => (await fetch(`${gateway.adminUrl}/metrics`)).text();
  await gateway.reload('rate_limit: { average: no }');

  const refused = await metrics();
  await gateway.reload(config(10));

  expect(refused).toMatch(/^spillgate_gateway_last_reload_successful 0$/m);
  expect(refused).toMatch(/^spillgate_gateway_reloads_total\{result="refused"\} 1$/m);
  await expect.poll(metrics).toMatch(/^spillgate_gateway_last_reload_successful 1$/m);
  expect(await metrics()).toMatch(/^spillgate_gateway_config_generation 2$/m);
});

test('a worker that dies is replaced, and the others go on', async () => {
  await gateway.reload(config(1_000_000));
  const [victim] = gateway.workerPids();

  process.kill(victim ?? 0, 'SIGKILL');
  await gateway.line(({ msg }) => msg === 'a worker was started again');

  const { statuses, failures } = await burst([gateway.url], 50);
  expect(failures).toEqual([]);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 50 });
  expect(gateway.workerPids()).toHaveLength(2);
});

test.each([
  ['refused', () => config(1000).replace('127.0.0.1:0', backend.url.replace('http://', ''))],
  ['broken', () => 'rate_limit: { average: no }'],
])('a worker that is replaced uses what the others use, and not a file that was %s', async (_, file) => {
  await gateway.reload(file());
  const [victim] = gateway.workerPids();

  process.kill(victim ?? 0, 'SIGKILL');
  await gateway.line(({ msg }) => msg === 'a worker was started again');

  const { statuses, failures } = await burst([gateway.url], 300);
  expect(failures).toEqual([]);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 100, 429: 200 });
});

test('a connection that was on its way to a worker that dies is closed: its client does not wait for ever', async () => {
  const [worker = 0] = gateway.workerPids();
  process.kill(worker, 'SIGSTOP');
  const clients = Array.from({ length: 4 }, () => connect(gateway.port, '127.0.0.1'));
  const ends = clients.map(async (client) => endOf(client));
  for (const client of clients) client.write('GET / HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n');
  // Node hands the worker that stands still one connection, and waits for its word before it hands it another one.
  let answered = 0;
  const allButOne = new Promise<void>((resolve) => {
    for (const end of ends) void end.then(() => (answered += 1) === 3 && resolve());
  });
  await allButOne;

  process.kill(worker, 'SIGKILL');

  const said = await Promise.all(ends);
  expect(said.filter((text) => text.startsWith('HTTP/1.1 200'))).toHaveLength(3);
  expect(said.filter((text) => text === '')).toHaveLength(1);
});

test('SIGTERM drains all workers under load: whoever was accepted gets an answer, and the exit code is 0', async () => {
  await gateway.reload(config(1_000_000));
  const load = startLoad({ urls: () => [gateway.url], clients: 4 });
  await load.answers(50);

  const exitCode = await gateway.terminate();

  const { statuses, failures } = await load.stop();
  expect(exitCode).toBe(0);
  expect([...statuses.keys()]).toEqual([200]);
  expect(failures.filter((failure) => !failure.startsWith('ECONNREFUSED'))).toEqual([]);
});

test('SIGTERM while a worker is being started: nobody waits for drain_timeout, and the exit code is 0', async () => {
  await gateway.reload(config(100, 'address: "127.0.0.1:0", workers: 2, drain_timeout: 10m'));
  const [victim = 0, other] = gateway.workerPids();
  process.kill(victim, 'SIGKILL');
  // Before it has its own environment, whoever starts it waits for it.
  const runs = (pid: number): boolean =>
    readFileSync(`/proc/${pid}/environ`, 'utf8').includes('NODE_UNIQUE_ID');
  const started = (): number | undefined =>
    gateway.workerPids().find((pid) => pid !== victim && pid !== other && runs(pid));
  await expect.poll(started).toBeDefined();
  const newcomer = started() ?? 0;
  process.kill(newcomer, 'SIGSTOP');

  gateway.signal('SIGTERM');
  await expect.poll(() => gateway.workerPids()).toEqual([newcomer]);
  process.kill(newcomer, 'SIGCONT');

  expect(await gateway.exit()).toBe(0);
});

test('workers come and go under load, and no request fails', async () => {
  await gateway.reload(config(1_000_000));
  const load = startLoad({ urls: () => [gateway.url], clients: 6 });
  const counts: number[] = [];

  for (const workers of [3, 4, 2]) {
    await gateway.reload(config(1_000_000, `address: "127.0.0.1:0", workers: ${workers}`));
    await expect.poll(() => gateway.workerPids()).toHaveLength(workers);
    counts.push(gateway.workerPids().length);
    await load.answers(50);
  }

  const { statuses, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
  expect(counts).toEqual([3, 4, 2]);
  expect(gateway.lines.filter(({ level }) => level === 'error')).toEqual([]);
});

test('what the port is made with changes in every worker under load, and no request fails', async () => {
  await gateway.reload(config(1_000_000));
  const load = startLoad({ urls: () => [gateway.url], clients: 6 });
  const here = 'address: "127.0.0.1:0", workers: 2';
  const servers = [`${here}, http2: false`, `${here}, max_headers: 50`, here];
  const outcomes: unknown[] = [];

  for (const server of servers) {
    outcomes.push((await gateway.reload(config(1_000_000, server)))['outcome']);
    await load.answers(50);
  }

  const { statuses, failures } = await load.stop();
  expect(outcomes).toEqual(['applied', 'applied', 'applied']);
  expect(failures).toEqual([]);
  expect([...statuses.keys()]).toEqual([200]);
});

test.each([
  [
    'the address, which needs a restart',
    () => config(1000).replace('127.0.0.1:0', '127.0.0.1:1'),
    /spillgate\.yaml:2:20: error: server\.address cannot change while several workers share the port .* Restart/,
  ],
  [
    'a port for the admin server that is taken',
    () =>
      config(1000).replace(
        'admin: { address: "127.0.0.1:0" }',
        `admin: { address: "${backend.url.replace('http://', '')}" }`,
      ),
    /spillgate\.yaml:3:19: error: admin\.address: .* is in use by another program\./,
  ],
])('%s is refused with the reason, and every worker goes on as before', async (_, file, reason) => {
  const line = await gateway.reload(file());

  expect(line).toMatchObject({ outcome: 'refused', generation: 1 });
  expect(line['problems']).toEqual([expect.stringMatching(reason)]);
  const { statuses, failures } = await burst([gateway.url], 300);
  expect(failures).toEqual([]);
  expect(Object.fromEntries(statuses)).toEqual({ 200: 100, 429: 200 });
});

test('a port in use ends all of them with a clear word', async () => {
  const second = GatewayProcess.start(config().replace('127.0.0.1:0', `127.0.0.1:${gateway.port}`));

  await expect(second).rejects.toThrow(
    `the gateway ended with 1: server.address: 127.0.0.1:${gateway.port} is in use by another program.`,
  );
});
