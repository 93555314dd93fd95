// What a gateway decided is what its log replays to.
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { OWN_LOG } from '../../src/simulate/formats/own-log.ts';
import { verdictFrom } from '../../src/simulate/replay-log.ts';
import { SimulatedGateway } from '../../src/simulate/simulated-gateway.ts';
import { GatewayProcess, type LogLine } from '../e2e/gateway-process.ts';

const REQUESTS = 1000;
const AT_ONCE = 8;
const KEYS = ['acme', 'globex', 'initech'];
/** What comes back does so within hours: the test takes seconds. */
const POLICIES: readonly ((random: () => number) => string)[] = [
  (random) => `{ average: 1, burst: ${3 + below(random, 60)}, period: 1h }`,
  (random) => `{ algorithm: slidingWindowLog, quota: ${3 + below(random, 60)}, window: 12h }`,
  (random) => `{ algorithm: slidingWindowCounter, quota: ${3 + below(random, 60)}, window: 2d }`,
  (random) => `{ algorithm: fixedWindow, quota: ${20 + below(random, 100)}, window: 30d }`,
  (random) =>
    `{ algorithm: calendarQuota, quota: ${20 + below(random, 100)}, every: year, time_zone: Europe/Berlin }`,
  (random) => `{ algorithm: calendarQuota, quota: ${20 + below(random, 100)}, every: ever }`,
];
const COUNTED_BY = [
  '',
  'key: clientIP, ',
  'key: { type: global }, ',
  'key: { type: apiKey, on_missing: clientIP }, ',
  'key: { type: apiKey, on_missing: reject }, ',
  'key: { type: composite, parts: [{ type: clientIP }, { type: apiKey, on_missing: clientIP }] }, ',
];
const MATCHES = [
  '{ method: [POST, PUT], path: "/api/**" }',
  '{ path: "/api/items/{id}" }',
  '{ path: "/api/**" }',
  '{ method: [HEAD], path: "/**" }',
];

let backend: Server | undefined;
let gateway: GatewayProcess | undefined;
const held = new EventEmitter().setMaxListeners(0);

afterEach(async () => {
  await gateway?.remove();
  backend?.closeAllConnections();
  backend?.close();
});

/** `/held` is answered when the test says so. */
async function startBackend(): Promise<string> {
  backend = createServer((request, response) => {
    request.resume();
    if (request.url === '/held') held.once('release', () => response.end());
    else response.end('ok');
    held.emit('arrived');
  });
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  return `http://127.0.0.1:${(backend.address() as AddressInfo).port}`;
}

function head(url: string): string {
  const keys = KEYS.map(
    (name, at) =>
      `      - { name: ${name}, hash: "sha256:${hashOf(name)}"${at === 0 ? '' : ', plan: paid'} }`,
  );
  return `
server: { address: "127.0.0.1:0", client_address: { trusted_proxies: ["127.0.0.1"] } }
admin: { address: "127.0.0.1:0" }
backend: { url: "${url}" }
identity:
  api_keys:
    keys:
${keys.join('\n')}
  plans:
    paid: { policies: [p0, p1] }
`;
}

function randomConfig(random: () => number, url: string): string {
  const policies = Array.from({ length: 6 }, (_, at) => `    p${at}: ${pick(random, POLICIES)(random)}`);
  const rules = Array.from({ length: 4 }, (_, at) => {
    const chosen = [...new Set([below(random, 6), below(random, 6)])].map((policy) => `p${policy}`);
    const shadow = below(random, 6) === 0;
    return `    - { name: r${at}, match: ${pick(random, MATCHES)}, policies: [${chosen.join(', ')}], ${pick(random, COUNTED_BY)}cost: ${1 + below(random, 3)}, shadow: ${shadow} }`;
  });
  return `${head(url)}
rate_limit:
  average: 2
  burst: ${20 + below(random, 100)}
  period: 1h
  deny: { cidrs: ["198.51.100.0/24"] }
  policies:
${policies.join('\n')}
  rules:
${rules.join('\n')}
`;
}

describe.each([11, 22, 33])('a random configuration (%i)', (seed) => {
  test('every decision of the log is the one that the gateway made', async () => {
    const random = randomFrom(seed);
    const yaml = randomConfig(random, await startBackend());
    gateway = await GatewayProcess.start(yaml);
    const { lines, url } = gateway;
    for (let sent = 0; sent < REQUESTS; sent += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => ask(url, random)));
    }

    const { made, replayed } = await replayOf(yaml, await logged(lines, REQUESTS));
    expect(replayed).toEqual(made);
  });
});

test('slots are held until requests end, as the log says', async () => {
  const yaml = `${head(await startBackend())}
rate_limit:
  policies:
    p0: { average: 1000, period: 1s }
    p1: { average: 1000, period: 1s }
    flight: { algorithm: concurrency, limit: 3, hold: 1s }
  rules: [{ name: all, match: { path: "/**" }, policies: [flight] }]
`;
  gateway = await GatewayProcess.start(yaml);
  const { lines, url } = gateway;
  let sent = 0;
  for (let round = 0; round < 8; round += 1) {
    // One after the other: with the first three there is no room for more.
    const answers: Promise<unknown>[] = [];
    for (let at = 0; at < 3; at += 1) {
      const arrived = once(held, 'arrived');
      answers.push(fetch(`${url}/held`).then((response) => response.arrayBuffer()));
      await arrived;
    }
    for (let at = 0; at < round; at += 1) expect((await fetch(`${url}/held`)).status).toBe(429);
    sent += 3 + round;
    held.emit('release');
    await Promise.all(answers);
    await logged(lines, sent);
  }

  const { made, replayed } = await replayOf(yaml, await logged(lines, sent));
  expect(replayed).toEqual(made);
});

async function ask(url: string, random: () => number): Promise<void> {
  const path = pick(random, ['/api/a', '/api/items/1', '/api/items/2', '/other', '/api//b/../c', '/a%zz']);
  const client = pick(random, ['203.0.113.1', '203.0.113.2', '2001:db8::1', '2001:db8::2', '198.51.100.9']);
  const method = pick(random, ['GET', 'GET', 'HEAD', 'POST', 'PUT']);
  const key = pick(random, [undefined, undefined, ...KEYS, 'nobody']);
  const headers = { 'X-Forwarded-For': client, ...(key === undefined ? {} : { 'X-API-Key': key }) };
  await (await fetch(url + path, { method, headers })).arrayBuffer();
}

async function logged(lines: readonly LogLine[], count: number): Promise<readonly LogLine[]> {
  const found = (): readonly LogLine[] => lines.filter(({ msg }) => msg === 'request');
  await expect.poll(() => found().length, { timeout: 20_000 }).toBe(count);
  return found().toSorted((one, other) => Number(one['at']) - Number(other['at']));
}

interface Decisions {
  readonly made: readonly string[];
  readonly replayed: readonly string[];
}

async function replayOf(yaml: string, lines: readonly LogLine[]): Promise<Decisions> {
  const loaded = loadConfig({ file: { path: 'a.yaml', text: yaml } });
  if (!loaded.ok) throw new Error('the configuration has to be valid');
  const simulated = new SimulatedGateway(loaded.config);
  const replayed: string[] = [];
  for (const line of lines) {
    const request = OWN_LOG.read(JSON.stringify(line));
    if (typeof request !== 'object') throw new Error(`no request: ${JSON.stringify(line)}`);
    const { denied } = await verdictFrom(simulated, request);
    replayed.push(denied ? 'denied' : 'admitted');
  }
  await simulated.end();

  // Otherwise it would prove nothing.
  for (const each of ['denied', 'admitted']) {
    expect(replayed.filter((found) => found === each).length).toBeGreaterThan(lines.length / 20);
  }
  const made = lines.map(({ status }) =>
    [400, 401, 403, 429].includes(Number(status)) ? 'denied' : 'admitted',
  );
  return { made, replayed };
}

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

function below(random: () => number, most: number): number {
  return Math.floor(random() * most);
}

function pick<Value>(random: () => number, values: readonly [Value, ...Value[]] | readonly Value[]): Value {
  const value = values[below(random, values.length)];
  if (value === undefined && values.length === 0) throw new RangeError('nothing to pick from');
  return value as Value;
}

/** The same numbers in every run (a linear congruential generator). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}
