// Logs and options that nobody wishes for: `spillgate simulate` counts right, or says what is wrong.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { spillgate, type Outcome } from '../cli/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'spillgate-odd-logs-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ONE_PER_SECOND = `
backend: { url: "http://127.0.0.1:1" }
rate_limit:
  policies: { steady: { average: 10, burst: 1, period: 1s } }
  rules: [{ name: api, match: { path: "/**" }, policies: [steady] }]
`;
const SHADOW_COST = `
backend: { url: "http://127.0.0.1:1" }
rate_limit:
  policies: { steady: { average: 10, burst: 10, period: 1s } }
  rules:
    - { name: api, match: { path: "/**" }, policies: [steady], shadow: true, cost: { type: header, header_name: X-Cost, max: 5 } }
`;
const CONFIGS = { 'steady.yaml': ONE_PER_SECOND, 'cost.yaml': SHADOW_COST };

let logs = 0;

function log(content: string | Uint8Array): string {
  logs += 1;
  const path = join(folder, `${logs}.log`);
  writeFileSync(path, content);
  return path;
}

function combined(second: number, client = '203.0.113.7'): string {
  return `${client} - - [18/Nov/2026:10:00:0${second} +0000] "GET /a HTTP/1.1" 200 5 "-" "-"\n`;
}

function caddy(ts: number | string, more = '', client = '203.0.113.8'): string {
  return `{"ts":${ts},"logger":"a","msg":"b","request":{"client_ip":"${client}","method":"GET","uri":"/a"${more}},"duration":0}\n`;
}

const SECOND = Date.UTC(2026, 10, 18, 10) / 1000;

async function simulate(...args: readonly string[]): Promise<Outcome> {
  return spillgate(['simulate', '--config', 'steady.yaml', ...args], { files: CONFIGS });
}

async function simulated(...args: readonly string[]): Promise<unknown> {
  const { stdout } = await simulate('--json', ...args);
  return JSON.parse(stdout);
}

describe('requests of a log with whole seconds are spread over their second', () => {
  /** Ten in a second are just as many as the policy admits, if they come evenly. */
  const ten = combined(1).repeat(10);

  test('next to a log that is empty', async () => {
    expect(await simulated(log(ten), log(''))).toMatchObject({ requests: 10, denied: 0 });
  });

  test('next to a log that is more exact, whose requests stay where they are', async () => {
    const exact = [0.25, 0.5, 0.75].map((part) => caddy(SECOND + 1 + part)).join('');

    expect(await simulated(log(ten), log(exact))).toMatchObject({
      requests: 13,
      denied: 0,
      reading: { lateRequests: 0 },
    });
  });
});

describe('a time that cannot be', () => {
  test.each([['1e300'], ['1e14'], ['-5'], ['"3026-01-01T00:00:00Z"'], ['"1960-01-01T00:00:00Z"']])(
    '%s is a line that cannot be read, and harms no other',
    async (ts) => {
      const lines = caddy(SECOND) + caddy(ts) + caddy(SECOND + 0.01) + caddy(SECOND + 10);

      expect(await simulated(log(lines))).toMatchObject({
        requests: 3,
        denied: 1,
        reading: { unreadable: 1, to: '2026-11-18T10:00:10.000Z' },
      });
    },
  );

  test('nor can a duration of a million years', async () => {
    const long = caddy(SECOND).replace('"duration":0', '"duration":3e13');

    expect(await simulated(log(caddy(SECOND) + long))).toMatchObject({ reading: { unreadable: 1 } });
  });

  test('a duration of a load balancer that is no number', async () => {
    const line = (took: string): string =>
      `h2 2026-10-10T13:55:37.5Z app/lb/1 203.0.113.7:2817 10.0.0.1:80 ${took} 0 0 200 200 34 366 "GET https://a/a HTTP/2.0" "curl/8" x\n`;

    expect(await simulated(log(line('1') + line('1.2.3') + line('2')))).toMatchObject({
      requests: 2,
      reading: { unreadable: 1 },
    });
  });
});

describe('what strangers wrote into a log', () => {
  const odd = '\u001b[2J\u009b31m\u202eevil\u0007';

  test('does not command the terminal, in the report', async () => {
    const { stdout } = await simulate(log(`${combined(1)}${odd}\n`));

    expect(stdout).toContain('1 lines cannot be read');
    expect(stdout).toContain('evil');
    expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{C}]/u);
  });

  test('nor in the message about a log that nobody knows', async () => {
    const { stderr } = await simulate(log(`${odd}\n`));

    expect(stderr).toContain('evil');
    expect(stderr.replaceAll('\n', '')).not.toMatch(/[\p{C}]/u);
  });
});

describe('a condition that can never hold is refused', () => {
  test.each([
    ['denied rule:ap > 1%', /there is no rule "ap": the configuration has api/],
    ['denied policy:stedy > 0', /there is no policy "stedy": the configuration has steady/],
    ['wouldDeny plan:gold > 0', /there is no plan "gold": the configuration has none/],
    ['newlyDenied > 0', /newlyDenied needs --against/],
  ])('%s', async (condition, message) => {
    const { exitCode, stderr } = await simulate('--fail-if', condition, '--', log(combined(1)));

    expect(stderr).toMatch(message);
    expect(exitCode).toBe(2);
  });

  test('one about a rule of which the log has no request is fine', async () => {
    const { exitCode } = await simulate('--fail-if', 'denied rule:api > 1%', '--', log(''));

    expect(exitCode).toBe(0);
  });
});

test('clients may be names, also where a condition is about a network', async () => {
  const { exitCode, stderr } = await simulate(
    '--fail-if',
    'denied client:203.0.113.0/24 > 10',
    '--',
    log(combined(1, 'host-7.example.com') + combined(2)),
  );

  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
});

test('what a rule in shadow mode has against a cost is counted', async () => {
  const lines = caddy(SECOND) + caddy(SECOND + 1, ',"headers":{"X-Cost":["many"]}');
  const run = async (...more: readonly string[]): Promise<Outcome> =>
    spillgate(['simulate', '--config', 'cost.yaml', ...more, log(lines)], { files: CONFIGS });

  expect(JSON.parse((await run('--json')).stdout)).toMatchObject({
    requests: 2,
    denied: 0,
    wouldDeny: 1,
    reasons: { invalidCost: 1 },
  });
  expect((await run()).stdout).toMatch(/^a cost that is no number, or too much +1$/m);
});

test('whom a rule in shadow mode would deny is told, and not denied', async () => {
  const files = { 'shadow.yaml': ONE_PER_SECOND.replace('[steady] }', '[steady], shadow: true }') };
  const lines = caddy(SECOND) + caddy(SECOND) + caddy(SECOND);
  const run = async (...more: readonly string[]): Promise<Outcome> =>
    spillgate(['simulate', '--config', 'shadow.yaml', ...more, '--', log(lines)], { files });

  expect(JSON.parse((await run('--json')).stdout)).toMatchObject({
    deniedKeys: 0,
    keys: [{ key: '203.0.113.8', policy: 'steady', denied: 0, wouldDeny: 2 }],
  });
  expect((await run()).stdout).toMatch(/^203\.0\.113\.8 +steady +0 +2$/m);
  expect((await run('--fail-if', 'deniedKeys > 0')).exitCode).toBe(0);
});

test('standard input is read once', async () => {
  const { exitCode, stderr } = await simulate('-', '-');

  expect(stderr).toMatch(/standard input cannot be read twice/);
  expect(exitCode).toBe(2);
});

test.each([
  ['is cut off', gzipSync(combined(1).repeat(10_000)).subarray(0, 150), /is packed, and ends too soon/],
  ['is damaged', gzipSync(combined(1).repeat(10)).fill(0xff, 20, 60), /is packed, and damaged/],
])('a gzipped log that %s is refused with the reason', async (_, bytes, message) => {
  const { exitCode, stderr } = await simulate(log(bytes));

  expect(stderr).toMatch(message);
  expect(exitCode).toBe(2);
});

test('a mark of UTF-8 at the beginning is no part of the first line', async () => {
  expect(await simulated(log(`\uFEFF${combined(1)}`))).toMatchObject({
    requests: 1,
    reading: { unreadable: 0 },
  });
});

test('a line of a megabyte is one line that cannot be read', async () => {
  const huge = `203.0.113.7 - - [18/Nov/2026:10:00:01 +0000] "GET /${'a'.repeat(1e6)} HTTP/1.1" 200 5 "-" "-"\n`;

  expect(await simulated(log(combined(1) + huge + combined(2)))).toMatchObject({
    requests: 2,
    reading: { lines: 3, unreadable: 1 },
  });
});

test('a report that cannot be written is said in a sentence', async () => {
  const { exitCode, stderr } = await spillgate(
    [
      'simulate',
      '--config',
      'steady.yaml',
      '--html',
      join(folder, 'no', 'such', 'report.html'),
      log(combined(1)),
    ],
    { files: CONFIGS, writeFile: (path, text) => writeFileSync(path, text) },
  );

  expect(stderr).toMatch(/report\.html cannot be written: its folder does not exist\.\n$/);
  expect(exitCode).toBe(2);
});

test('suggest takes an empty header for none', async () => {
  const lines =
    caddy(SECOND, ',"headers":{"X-Tenant":[""]}') + caddy(SECOND + 1, ',"headers":{"X-Tenant":["acme"]}');

  const { stdout, stderr } = await spillgate(['suggest', '--json', '--header', 'X-Tenant', log(lines)]);

  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ clients: 1, withoutKey: 1 });
});

test('suggest proposes limits that deny no more clients than they say', async () => {
  let seed = 7;
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (seed >>> 8) % below;
  };
  // Steady, in bursts that begin anywhere, and now and then.
  const requests = Array.from({ length: 40 }, (_, client) => {
    const every = [50, 700, 9000, 33_333][client % 4] ?? 1;
    const start = random(60_000);
    return Array.from({ length: 5 + random(60) }, (__, at) => ({
      client,
      ms: start + at * every + random(40),
    }));
  }).flat();
  const lines = requests
    .toSorted((one, other) => one.ms - other.ms)
    .map(({ client, ms }) => caddy(((SECOND * 1000 + ms) / 1000).toFixed(3), '', `203.0.113.${client}`));

  const { stdout } = await spillgate(['suggest', '--json', log(lines.join(''))]);

  const suggested: { clients: number; limits: { percentile: number; deniedClients: number }[] } =
    JSON.parse(stdout);
  expect(suggested.clients).toBe(40);
  expect(suggested.limits.length).toBeGreaterThan(1);
  for (const { percentile, deniedClients } of suggested.limits)
    expect(deniedClients, `${percentile}%`).toBeLessThanOrEqual(Math.floor((40 * (100 - percentile)) / 100));
});

test('more logs than can be read at once are refused, with how many can', async () => {
  const one = log(combined(0));

  const { exitCode, stderr } = await spillgate(['suggest', ...Array.from({ length: 501 }, () => one)]);

  expect(stderr).toMatch(/^501 logs are more than the 500 that can be read at once: .*cat/);
  expect(exitCode).toBe(2);
});

test('a date that no calendar has makes no other request late', async () => {
  const dates = [
    '31/Feb/2026:10:00:00',
    '99/Nov/2026:10:00:00',
    '00/Nov/2026:10:00:00',
    '18/Nov/2026:24:00:00',
  ];
  const more = ['18/Nov/2026:10:60:00', '18/Nov/2026:10:00:61'];
  const impossible = [...dates, ...more].map((date) => combined(0).replace('18/Nov/2026:10:00:00', date));
  const leapSecond = combined(0).replace('10:00:00', '09:59:60');
  const lines = [leapSecond, ...impossible, ...[0, 1, 2].map((second) => combined(second))];

  expect(await simulated(log(lines.join('')))).toMatchObject({
    requests: 4,
    reading: { unreadable: 6, lateRequests: 0, to: '2026-11-18T10:00:02.000Z' },
  });
});
