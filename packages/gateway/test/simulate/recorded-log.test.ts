// What a gateway decided is what its log replays to.
import { afterEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { verdictOf } from '../../src/simulate/denial-tally.ts';
import { OWN_LOG } from '../../src/simulate/formats/json-formats.ts';
import { SimulatedGateway } from '../../src/simulate/simulated-gateway.ts';
import { GatewayProcess, type LogLine } from '../e2e/gateway-process.ts';
import { startBackend, type Backend } from '../e2e/traffic.ts';

const REQUESTS = 400;

let backend: Backend | undefined;
let gateway: GatewayProcess | undefined;

afterEach(async () => {
  await gateway?.remove();
  await backend?.close();
});

function config(url: string): string {
  return `
server: { address: "127.0.0.1:0", client_address: { trusted_proxies: ["127.0.0.1"] } }
admin: { address: "127.0.0.1:0" }
backend: { url: "${url}" }
rate_limit:
  average: 20
  burst: 10
  period: 1h
  deny: { cidrs: ["198.51.100.0/24"] }
  policies:
    writes: { average: 1, burst: 4, period: 1h }
    window: { algorithm: slidingWindowLog, quota: 7, window: 1h }
    counter: { algorithm: slidingWindowCounter, quota: 30, window: 1d }
    everybody: { algorithm: fixedWindow, quota: 150, window: 1d }
  rules:
    - { name: writes, match: { method: [POST, PUT], path: "/api/**" }, policies: [writes, window], cost: 2 }
    - { name: item, match: { path: "/api/items/{id}" }, policies: [counter], key: { type: pathParameter, name: id } }
    - { name: reads, match: { path: "/api/**" }, policies: [window, everybody] }
`;
}

test('every decision of a recorded log is the one that the gateway made', async () => {
  backend = await startBackend();
  const yaml = config(backend.url);
  gateway = await GatewayProcess.start(yaml);
  const { lines, url } = gateway;
  const random = randomFrom(42);
  const pick = <Value>(values: readonly Value[]): Value | undefined =>
    values[Math.floor(random() * values.length)];
  for (let sent = 0; sent < REQUESTS; sent += 1) {
    const path = pick(['/api/a', '/api/items/1', '/api/items/2', '/other', '/api//b/../c']) ?? '/';
    const client = pick(['203.0.113.1', '203.0.113.2', '2001:db8::1', '2001:db8::2', '198.51.100.9']) ?? '';
    const method = pick(['GET', 'GET', 'HEAD', 'POST', 'PUT']) ?? 'GET';
    await (await fetch(url + path, { method, headers: { 'X-Forwarded-For': client } })).arrayBuffer();
  }
  const logged = (): readonly LogLine[] => lines.filter(({ msg }) => msg === 'request');
  await expect.poll(() => logged().length).toBe(REQUESTS);

  const replayed = replay(yaml, logged());

  expect(replayed).toEqual(logged().map(({ status }) => status === 429 || status === 403));
  // Otherwise it would prove nothing.
  expect(replayed.filter(Boolean).length).toBeGreaterThan(REQUESTS / 5);
  expect(replayed.filter((denied) => !denied).length).toBeGreaterThan(REQUESTS / 5);
});

function replay(yaml: string, lines: readonly LogLine[]): readonly boolean[] {
  const loaded = loadConfig({ file: { path: 'a.yaml', text: yaml } });
  if (!loaded.ok) throw new Error('the configuration has to be valid');
  const clock = { nowUs: 0 };
  const simulated = new SimulatedGateway(loaded.config, clock);
  return lines.map((line) => {
    const request = OWN_LOG.read(JSON.stringify(line));
    if (typeof request !== 'object') throw new Error(`no request: ${JSON.stringify(line)}`);
    clock.nowUs = Math.round(request.atMs * 1000);
    const outcome = simulated.decide(request);
    if (outcome instanceof Promise) throw new Error('nobody waits here');
    return verdictOf(outcome).denied;
  });
}

/** The same numbers in every run (a linear congruential generator). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}
