// API keys as an operator handles them: the program, its file, and two workers behind one port.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stopwatch } from '../../../../test/redis/running-clock.ts';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, type Backend } from './traffic.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const REVOKED_WITHIN_MS = 1000;

let redis: RedisServer;
let backend: Backend;
let gateway: GatewayProcess;
const folder = mkdtempSync(join(tmpdir(), 'spillgate-api-keys-'));
const file = join(folder, 'keys.yaml');

async function apiKeys(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    PROGRAM,
    'api-keys',
    ...args,
    '--file',
    file,
  ]);
  return stdout;
}

async function added(name: string, ...args: readonly string[]): Promise<string> {
  const made: unknown = JSON.parse(await apiKeys('add', name, '--json', ...args));
  return (made as { readonly key: string }).key;
}

beforeAll(async () => {
  await added('first');
  [redis, backend] = await Promise.all([startRedis(), startBackend()]);
  gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0", workers: 2 }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 1s }
identity: { api_keys: { file: "${file}" } }
rate_limit: { average: 1000000, period: 1s, key_strategy: { type: apiKey } }
`);
});

afterAll(async () => {
  await gateway.remove();
  await Promise.all([redis.stop(), backend.close()]);
  rmSync(folder, { recursive: true });
});

/** Connections stay with the worker that took them: several of them reach both. */
const agents = Array.from({ length: 8 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));

async function statusesOf(key: string): Promise<readonly number[]> {
  return Promise.all(
    agents.map(
      async (agent) =>
        new Promise<number>((resolve, reject) => {
          const asking = request({ port: gateway.port, agent, headers: { 'X-API-Key': key } });
          asking.on('error', reject);
          asking.on('response', (answer) => {
            answer.resume();
            answer.on('end', () => resolve(answer.statusCode ?? 0));
          });
          asking.end();
        }),
    ),
  );
}

/** How long it takes, in the time of this process, until every connection gets this status. */
async function timeUntil(key: string, status: number): Promise<number> {
  const watch = stopwatch();
  for (;;) {
    const statuses = await statusesOf(key);
    if (statuses.every((found) => found === status)) break;
  }
  watch.stop();
  return watch.passedMs();
}

test('a key is accepted on every worker soon after it was added, and refused within a second after it was revoked', async () => {
  const key = await added('acme');
  await timeUntil(key, 200);

  await apiKeys('revoke', 'acme');
  const tookMs = await timeUntil(key, 401);

  expect(gateway.workerPids()).toHaveLength(2);
  expect(tookMs).toBeLessThan(REVOKED_WITHIN_MS);
});

test('a rotated key and the old one are accepted for as long as that is wanted', async () => {
  const old = await added('beta');
  const { key } = JSON.parse(await apiKeys('rotate', 'beta', '--keep-old', '1h', '--json')) as {
    key: string;
  };

  await timeUntil(key, 200);
  expect(await statusesOf(old)).toEqual(agents.map(() => 200));
  const { key: last } = JSON.parse(await apiKeys('rotate', 'beta', '--json')) as { key: string };

  await timeUntil(last, 200);
  await timeUntil(key, 401);
  await timeUntil(old, 401);
});

test('the file holds hashes and no key, for nobody else to read', async () => {
  const key = await added('hidden');

  expect(readFileSync(file, 'utf8')).not.toContain(key.slice(3));
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(await apiKeys('list')).toMatch(/^NAME +PLAN +STATE +EXPIRES +OLD KEY UNTIL\nfirst +- +active/);
});
