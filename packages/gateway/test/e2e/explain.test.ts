// `spillgate explain` as an operator uses it: with the id of a 429, or with a request that nobody sent.
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startRedis, type RedisServer } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const run = promisify(execFile);
const backend = createServer((_, response) => response.end('hello'));
let redis: RedisServer;
let gateway: GatewayProcess;

beforeAll(async () => {
  redis = await startRedis();
  await new Promise<void>((resolve) => {
    backend.listen(0, '127.0.0.1', resolve);
  });
});

afterEach(async () => gateway.remove());

afterAll(async () => {
  backend.closeAllConnections();
  backend.close();
  await redis.stop();
});

async function start(workers: number): Promise<void> {
  gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0", workers: ${workers} }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:${(backend.address() as AddressInfo).port}" }
${workers === 1 ? '' : `redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 20s }`}
rate_limit:
  deadline: 20s
  policies: { login: { algorithm: fixedWindow, quota: 1, window: 1h } }
  rules:
    - { name: reads, match: { method: GET, path: /login }, policies: [] }
    - { name: logins, match: { path: /login }, key: { type: header, header_name: Authorization }, policies: [login] }
`);
}

async function explain(...words: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, [
    PROGRAM,
    'explain',
    '--admin',
    `http://127.0.0.1:${gateway.adminPort}`,
    ...words,
  ]);
  return stdout;
}

async function login(name: string): Promise<{ readonly status: number; readonly requestId: string }> {
  const response = await fetch(`${gateway.url}/login`, {
    method: 'POST',
    headers: { authorization: `Bearer secret-of-${name}` },
  });
  const text = await response.text();
  const requestId = response.status === 429 ? (JSON.parse(text) as { requestId: string }).requestId : '';
  return { status: response.status, requestId };
}

describe.each([1, 2])('with %i workers', (workers) => {
  test('the id of a 429 leads to its story, in which no secret is', async () => {
    await start(workers);
    let denied = await login('ann');
    while (denied.status !== 429) denied = await login('ann');

    const story = await explain(denied.requestId);

    expect(story).toMatch(/^POST \/login was denied: sha256:\w+ has 0 of 1 left under the policy login;/);
    expect(story).toContain(`Request   ${denied.requestId}`);
    expect(story).toContain('Client    127.0.0.1: it is the address of the connection');
    expect(story).toContain('- reads: the method is "POST", not one of "GET", "HEAD"');
    expect(story).toContain('* logins: the path matches');
    expect(story).toMatch(/x login denies sha256:\w+: 0 of 1 left before, 0 after; it costs 1/);
    expect(story).toMatch(/To be admitted\n {2}Wait /);
    expect(story).not.toContain('secret-of-ann');
  });

  test('a made-up request is explained without being counted', async () => {
    await start(workers);
    const words = ['--method', 'POST', '--path', '/login', '--header', 'Authorization: Bearer secret-of-ben'];
    const told = [await explain(...words), await explain(...words)];

    expect(told[0]).toMatch(/^POST \/login would be admitted: sha256:\w+ has 0 of 1 left/);
    // Another worker may have answered, a moment later.
    const same = (text = ''): string => text.replace(/ at \d{4}-.*|by \S+/g, '');
    expect(same(told[1])).toBe(same(told[0]));
    expect((await login('ben')).status).toBe(200);
  });
});

test('an id that nobody remembers, and words that make no request, are told', async () => {
  await start(1);

  await expect(explain('nobody')).rejects.toMatchObject({
    code: 2,
    stderr: /The id is "nobody"; expected one/,
  });
  await expect(explain()).rejects.toMatchObject({ stderr: /Give the id of a request/ });
  await expect(explain('x', '--path', '/')).rejects.toMatchObject({ stderr: /not both/ });
  await expect(explain('--path', '/', '--header', 'nonsense')).rejects.toMatchObject({
    stderr: /--header is "nonsense"; expected a name and a value/,
  });
});

test('a penalty and a settlement are part of the story, for the command and the admin API', async () => {
  gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:${(backend.address() as AddressInfo).port}" }
rate_limit:
  policies:
    login: { algorithm: fixedWindow, quota: 1, window: 1h, block: { after: 2, within: 1m, for: 15m } }
    bytes: { algorithm: fixedWindow, quota: 1000, window: 1h }
  rules:
    - { name: logins, match: { path: /login }, key: { type: header, header_name: Authorization }, policies: [login] }
    - { name: files, match: { path: /files }, policies: [bytes], cost: 100, settle: { type: responseBytes } }
`);
  const ids = [];
  for (let at = 0; at < 4; at += 1) ids.push((await login('ann')).requestId);
  const blocked = ids.at(-1) ?? '';
  const download = await fetch(`${gateway.url}/files`);
  const settled = download.headers.get('x-request-id') ?? '';
  await download.text();
  await gateway.line((line) => line['cost'] === 5);

  const story = await explain(blocked);
  expect(story).toMatch(
    /is blocked by the policy login, because it was denied 2 times within 1m; the next is/,
  );
  expect(story).toMatch(/x login denies sha256:\w+: .*; blocked: denied 2 times within 1m$/m);
  expect(await explain(settled)).toMatch(
    /^Cost {6}100 charged before, 5 in the end, settled by responseBytes$/m,
  );

  const told = async (id: string): Promise<unknown> =>
    (await fetch(`${gateway.adminUrl}/v1/explain/${id}`)).json();
  expect(await told(blocked)).toMatchObject({
    outcome: 'denied',
    policies: [{ policy: 'login', allowed: false, penalty: 'denied 2 times within 1m' }],
  });
  expect(await told(settled)).toMatchObject({
    outcome: 'allowed',
    settlement: { by: 'responseBytes', reserved: 100, cost: 5, estimated: false },
  });
});

describe('what is refused before any rule is asked', () => {
  async function refused(more: string, options: RequestInit = {}): Promise<string> {
    gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:${(backend.address() as AddressInfo).port}" }
rate_limit: { average: 100 }
${more}
`);
    const response = await fetch(`${gateway.url}/items`, options);
    await response.arrayBuffer();
    return response.headers.get('x-request-id') ?? '';
  }

  test('by maintenance has a story, made up and real', async () => {
    const id = await refused('maintenance: { enabled: true }');

    expect(await explain(id)).toMatch(
      /^GET \/items was denied: the service is closed for maintenance, and no rule/,
    );
    expect(await explain('--path', '/items')).toMatch(
      /^GET \/items would be denied: the service is closed for maintenance/,
    );
  });

  test('by CORS has a story, made up and real', async () => {
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'PUT' };
    const id = await refused('cors: { allowed_origins: ["https://app.example"] }', {
      method: 'OPTIONS',
      headers,
    });

    expect(await explain(id)).toMatch(/^OPTIONS \/items was denied: it is a preflight of a page that cors/);
    const words = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
    expect(await explain('--method', 'OPTIONS', '--path', '/items', ...words)).toMatch(
      /^OPTIONS \/items would be denied: it is a preflight of a page that cors/,
    );
  });

  test('by the authorization service has a story; a made-up request does not ask it', async () => {
    let asked = 0;
    const service = createServer((_, response) => {
      asked += 1;
      response.statusCode = 403;
      response.end('no');
    });
    await new Promise<void>((resolve) => {
      service.listen(0, '127.0.0.1', resolve);
    });
    const { port } = service.address() as AddressInfo;
    const id = await refused(`authorization: { enabled: true, http: { url: "http://127.0.0.1:${port}/" } }`);

    expect(await explain(id)).toMatch(/^GET \/items was denied: the authorization service refuses it/);
    expect(await explain('--path', '/items')).toContain(
      'Before that the authorization service has to let it pass, which was not asked.',
    );
    expect(asked).toBe(1);
    service.closeAllConnections();
    service.close();
  });

  test('by an authorization service that does not answer has a story', async () => {
    const id = await refused('authorization: { enabled: true, http: { url: "http://127.0.0.1:1/" } }');

    expect(await explain(id)).toMatch(/^GET \/items was denied: the authorization service did not answer/);
  });

  test('because the client is not who it says has a story, made up and real', async () => {
    const more = `
identity:
  api_keys: { keys: [{ name: ann, hash: "sha256:${'0'.repeat(64)}" }] }
`;
    const id = await refused(more, { headers: { 'x-api-key': 'nobodys-key' } });

    expect(await explain(id)).toMatch(
      /^GET \/items was denied: what it shows about who is asking is not valid/,
    );
    expect(await explain('--path', '/items', '--header', 'X-Api-Key: nobodys-key')).toMatch(
      /^GET \/items would be denied: what it shows about who is asking is not valid/,
    );
  });
});
