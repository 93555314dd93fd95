// API keys as operators call them: by name, by the secret that a client sent, or by its hash. A gateway and its Redis.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { spillgate, type Outcome } from '../cli/terminal.ts';
import { GatewayProcess } from './gateway-process.ts';
import { startBackend, type Backend } from './traffic.ts';

const SECRETS = new Map(
  ['kim', 'lee', 'ann', 'bob', 'max', 'ron', 'own'].map((name) => [name, `sg_${name}${'x'.repeat(40)}`]),
).set('own', 'ThisIsAKeyOfTheirOwn-1234');
const NOBODYS = `sg_${'n'.repeat(43)}`;

let redis: RedisServer;
let backend: Backend;
let gateway: GatewayProcess;
const folder = mkdtempSync(join(tmpdir(), 'spillgate-called-keys-'));
const keyFile = join(folder, 'keys.yaml');

function secretOf(name: string): string {
  return SECRETS.get(name) ?? '';
}

function hashOf(name: string): string {
  return `sha256:${createHash('sha256').update(secretOf(name)).digest('hex')}`;
}

const CONFIG = (): string => `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { url: "${redis.url}", read_timeout: 1s }
identity:
  api_keys: { file: "${keyFile}" }
  plans: { pro: { policies: [pro] } }
rate_limit:
  deadline: 5s
  deny: { keys: ["${secretOf('ron')}"] }
  key_strategy: { type: apiKey, on_missing: clientIP }
  policies:
    pro: { algorithm: fixedWindow, quota: 1000, window: 1h, overrides: [{ key: "${secretOf('max')}", quota: 1 }] }
    p: { algorithm: fixedWindow, quota: 1000, window: 1h }
    addresses: { algorithm: fixedWindow, quota: 1000, window: 1h }
  rules:
    - { name: ip, match: { path: /ip }, key: clientIP, policies: [addresses] }
    - { name: all, policies: [p] }
`;

beforeAll(async () => {
  writeFileSync(
    keyFile,
    `keys:\n${[...SECRETS.keys()].map((name) => `  - { name: ${name}, hash: "${hashOf(name)}"${name === 'max' || name === 'lee' ? ', plan: pro' : ''} }\n`).join('')}`,
  );
  [redis, backend] = await Promise.all([startRedis(), startBackend()]);
  gateway = await GatewayProcess.start(CONFIG());
});

afterAll(async () => {
  await gateway.remove();
  await Promise.all([redis.stop(), backend.close()]);
  rmSync(folder, { recursive: true });
});

async function statusOf(name: string): Promise<number> {
  const response = await fetch(`${gateway.url}/`, { headers: { 'X-API-Key': secretOf(name) } });
  await response.arrayBuffer();
  return response.status;
}

const files = (): Readonly<Record<string, string>> => ({
  [gateway.configFile]: readFileSync(gateway.configFile, 'utf8'),
  [keyFile]: readFileSync(keyFile, 'utf8'),
});
const run = async (...args: readonly string[]): Promise<Outcome> => spillgate(args, { files: files() });
const admin = (): readonly string[] => ['--admin', gateway.adminUrl];
const onRedis = (): readonly string[] => ['--redis', redis.url, '--config', gateway.configFile];

describe('a key is blocked by', () => {
  test.each([
    ['its secret, through the gateway', 'kim', secretOf, admin],
    ['its whole hash, through the gateway', 'ann', hashOf, admin],
    ['its secret, directly on Redis', 'bob', secretOf, onRedis],
    ['a secret of its own', 'own', secretOf, admin],
  ] as const)('%s', async (_, name, calledBy, where) => {
    expect(await statusOf(name)).toBe(200);

    const { stdout, stderr } = await run('block', 'p', calledBy(name), ...where());

    expect(stderr).toBe('');
    expect(stdout).toMatch(new RegExp(`^p/${name} is denied everything until you end it`));
    expect(stdout).not.toContain('warning');
    await expect.poll(async () => statusOf(name), { timeout: PATIENCE_MS }).toBe(429);
    await run('block', 'p', calledBy(name), '--remove', ...where());
    await expect.poll(async () => statusOf(name), { timeout: PATIENCE_MS }).toBe(200);
  });
});

test.each([
  ['peek', ['peek', 'pro']],
  ['forget', ['forget', 'pro']],
  ['override', ['override', 'pro', '--quota', '5']],
  ['key', ['key', 'pro']],
] as const)('%s takes a secret, and names the key', async (_, [command, policy, ...rest]) => {
  for (const where of [admin(), onRedis()]) {
    const { stdout, stderr } = await run(command, policy, secretOf('lee'), ...rest, ...where);

    expect(stderr).toBe('');
    expect(stdout).toMatch(/^(?:pro\/)?lee\b/);
    expect(stdout).not.toMatch(/warning|sg_/);
  }
});

test('an override by a secret holds, is listed under the name, and no secret is kept or logged', async () => {
  await run('override', 'pro', secretOf('lee'), '--quota', '0', ...admin());
  await run('override', 'pro', NOBODYS, '--quota', '5', ...admin());
  await run('block', 'addresses', secretOf('lee'), ...admin());
  const listed = await run('overrides', ...admin());

  expect(listed.stdout).toContain('pro/lee');
  expect(listed.stdout).not.toMatch(/sg_/);
  await expect
    .poll(() => gateway.lines.filter(({ msg }) => msg === 'admin write').length, { timeout: PATIENCE_MS })
    .toBeGreaterThanOrEqual(3);
  expect(JSON.stringify(gateway.lines)).not.toMatch(/sg_|TheirOwn/);
});

test.each([
  ['a name that no key has', 'kum', /^p\/kum .*\nwarning: [^\n]* no API key has this name\./s],
  [
    'a secret that no key has',
    NOBODYS,
    /^p\/sha256:[\da-f]{32} .*\nwarning: [^\n]* it is the secret of no API key\./s,
  ],
])('%s is said to be nobody', async (_, key, message) => {
  for (const where of [admin(), onRedis()]) {
    expect((await run('peek', 'p', key, ...where)).stdout).toMatch(message);
  }
  expect((await run('key', 'p', key, '--config', gateway.configFile)).stdout).toMatch(/\nwarning: /);
});

test('without the configuration, what is in Redis does not say whose secret it is, and this is said', async () => {
  await expect
    .poll(async () => (await run('peek', 'pro', 'lee', '--redis', redis.url)).stderr, {
      timeout: PATIENCE_MS,
    })
    .toBe('');

  const { stdout } = await run('peek', 'pro', secretOf('lee'), '--redis', redis.url);

  expect(stdout).not.toContain('sg_');
  expect(stdout).toMatch(
    /^pro\/sha256:.*\nwarning: .*: give the name, or the configuration with --config\./s,
  );
});

test('lists and overrides of the configuration take a secret, too, and check advises the name', async () => {
  expect(await statusOf('ron')).toBe(403);
  expect([await statusOf('max'), await statusOf('max')]).toEqual([200, 429]);

  const { stdout } = await run('check', gateway.configFile);
  const shown = await run('config', '--config', gateway.configFile);

  expect(stdout).toMatch(/rate_limit\.deny\.keys\[0\] is the secret of the API key ron .*Write ron\./);
  expect(stdout).toMatch(/overrides\[0\]\.key is the secret of the API key max .*Write max\./);
  expect(stdout + shown.stdout).not.toContain('sg_');
});

test('a configuration is never shown with a secret in it, whatever it looks like and wherever its key is', async () => {
  const own = secretOf('own');
  const text = CONFIG().replace(secretOf('ron'), own);
  const withoutKeys = text.replace(keyFile, join(folder, 'none.yaml'));
  const config = async (yaml: string): Promise<string> =>
    (await spillgate(['config', '--config', 'a.yaml'], { files: { ...files(), 'a.yaml': yaml } })).stdout;

  const shown = await config(text);
  const unknown = await config(withoutKeys);
  const live = await (await fetch(`${gateway.adminUrl}/v1/config`)).text();

  expect(shown).toMatch(/deny:\n.*\n\s+keys: \[own\]/);
  expect(unknown).toMatch(/deny:\n.*\n\s+keys: \["?sha256:[\da-f]{32}"?\]/);
  expect(shown + unknown).not.toContain(own);
  expect(live).toContain('"ron"');
  expect(live).not.toContain(secretOf('ron'));
});
