// Several gateways, wrong clocks, leases and a Redis that is away, against numbers worked out by hand.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { spillgate, type Outcome } from '../cli/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'spillgate-fleets-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PATTERN = '$msec $remote_addr $request_method $request_uri';
const NOON = Date.UTC(2026, 10, 18, 12) / 1000;

/** Ten requests per second of one client, for ten minutes from noon on. */
const log = join(folder, 'access.log');
writeFileSync(
  log,
  Array.from({ length: 6000 }, (_, at) => `${(NOON + at / 10).toFixed(3)} 203.0.113.7 GET /a\n`).join(''),
);

function config({
  redis = true,
  policy = '{ average: 1, burst: 100, period: 1d }',
  failure = '',
} = {}): string {
  return `
backend: { url: "http://127.0.0.1:1" }
${redis ? 'redis: { url: "redis://127.0.0.1:1" }' : ''}
rate_limit:
  ${failure}
  instances: 4
  policies: { few: ${policy} }
  rules: [{ name: all, match: { path: "/**" }, policies: [few] }]
`;
}

async function simulate(yaml: string, ...options: readonly string[]): Promise<Outcome> {
  const args = ['simulate', '--config', 'a.yaml', '--pattern', PATTERN, '--json', ...options, '--', log];
  return spillgate(args, { files: { 'a.yaml': yaml } });
}

async function admitted(yaml: string, ...options: readonly string[]): Promise<number> {
  const { stdout, stderr } = await simulate(yaml, ...options);
  expect(stderr).toBe('');
  const { requests, denied } = JSON.parse(stdout) as { requests: number; denied: number };
  return requests - denied;
}

test('gateways that share a Redis admit what one does, whatever their clocks show', async () => {
  expect(await admitted(config())).toBe(100);
  expect(await admitted(config(), '--instances', '5', '--skew', '30s')).toBe(100);
});

test('gateways without Redis admit what each does', async () => {
  expect(await admitted(config({ redis: false }), '--instances', '4')).toBe(400);
});

test('windows of gateways without Redis begin by their own clocks', async () => {
  const policy = '{ algorithm: fixedWindow, quota: 10, window: 10m }';

  // The second one is a minute ahead: a minute before the end its next window begins.
  expect(await admitted(config({ redis: false, policy }), '--instances', '2')).toBe(20);
  expect(await admitted(config({ redis: false, policy }), '--instances', '2', '--skew', '60s')).toBe(30);
});

describe('while Redis is away', () => {
  test.each([
    // 12:02 to 12:03 are 600 requests; everything else was spent before.
    ['failure_policy: passThrough', '1', 100 + 600],
    ['failure_policy: failClosed', '1', 100],
    // The file says that there are four: each admits a quarter.
    ['failure_policy: inMemoryFallback', '1', 100 + 25],
    ['failure_policy: inMemoryFallback', '4', 100 + 100],
  ])('%s of %s answers', async (failure, instances, expected) => {
    expect(await admitted(config({ failure }), '--instances', instances, '--outage', '12:02..12:03')).toBe(
      expected,
    );
  });

  test('says how many came meanwhile, and who answers', async () => {
    const { stdout } = await simulate(
      config({ failure: 'failure_policy: failClosed' }),
      '--outage',
      '2026-11-18T12:00:10Z..2026-11-18T12:00:20Z',
      '12:05..12:06',
    );

    expect(JSON.parse(stdout)).toMatchObject({
      whileAway: { requests: 700, denied: 700 },
      reasons: { storeFailure: 700 },
      notes: ['While Redis is away, failClosed answers.'],
    });
  });
});

test('leases admit no more than one exact bucket, and nearly as much', async () => {
  const policy = '{ average: 5, burst: 100, period: 1s }';
  const exact = await admitted(config({ policy }), '--instances', '4');
  const leased = await admitted(config({ policy }), '--instances', '4', '--leases', 'on', '--skew', '1s');

  expect(exact).toBe(100 + Math.floor(5 * 599.9));
  expect(leased).toBeLessThanOrEqual(exact);
  expect(leased).toBeGreaterThan(0.97 * exact);
});

test.each([
  [['--instances', '0'], '--instances 0: write a number from 1 to 1000.'],
  [['--skew', 'much'], '--skew much: write a duration up to 1 h, such as 200ms or 2s.'],
  [['--outage', 'noon'], '"noon" is no outage: write for example "12:00..12:05"'],
  [['--leases', 'some'], '--leases some: write one of on, off, auto.'],
])('%j is refused', async (options, message) => {
  const { exitCode, stderr } = await simulate(config(), ...options);

  expect(exitCode).toBe(2);
  expect(stderr).toContain(message);
});

test.each(['--outage=12:00..12:05', '--leases=on'])('%s needs a Redis', async (option) => {
  const { exitCode, stderr } = await simulate(config({ redis: false }), option);

  expect(exitCode).toBe(2);
  expect(stderr).toContain('is about gateways that share a Redis, and the configuration has none');
});

describe('--fail-if of a class of clients', () => {
  test.each([
    ['denied key:203.0.113.* > 98%', 1],
    ['denied key:203.0.114.* > 0', 0],
    ['denied client:203.0.113.0/24 > 98%', 1],
    ['denied client:10.0.0.0/8 > 0', 0],
    ['denied client:2001:db8::/32 > 0', 0],
    ['denied plan:gold > 0', 2],
    ['denied client:x > 0', 2],
  ])('%s', async (condition, exitCode) => {
    expect((await simulate(config(), '--fail-if', condition)).exitCode).toBe(exitCode);
  });
});
