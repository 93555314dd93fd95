// `spillgate simulate` as it is called.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as zlib from 'node:zlib';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { spillgate, type Outcome } from '../cli/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'spillgate-simulate-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TWO = `
backend: { url: "http://127.0.0.1:1" }
rate_limit:
  policies: { two: { average: 2, burst: 2, period: 1h } }
  rules: [{ name: api, match: { path: "/api/**" }, policies: [two] }]
`;
const THREE = TWO.replace('burst: 2', 'burst: 3');
const SHADOW = TWO.replace('policies: [two] }', 'policies: [two], shadow: true }');
const CONFIGS = { 'two.yaml': TWO, 'three.yaml': THREE, 'shadow.yaml': SHADOW, 'broken.yaml': 'server: [' };

let logs = 0;

function log(lines: readonly string[] | Uint8Array): string {
  logs += 1;
  const path = join(folder, `${logs}.log`);
  writeFileSync(path, lines instanceof Uint8Array ? lines : `${lines.join('\n')}\n`);
  return path;
}

function line(second: number, client = '203.0.113.7', path = '/api/a'): string {
  const time = `10:${String(Math.floor(second / 60)).padStart(2, '0')}:${String(second % 60).padStart(2, '0')}`;
  return `${client} - - [18/Nov/2026:${time} +0000] "GET ${path} HTTP/1.1" 200 5 "-" "-"`;
}

async function simulate(...args: readonly string[]): Promise<Outcome> {
  return spillgate(['simulate', ...args], { files: CONFIGS });
}

async function simulated(...args: readonly string[]): Promise<unknown> {
  const { stdout } = await simulate('--json', ...args);
  return JSON.parse(stdout);
}

const FOUR = [line(0), line(1), line(2), line(3), line(3, '203.0.113.8'), line(4, '203.0.113.7', '/free')];

test('says who would have been denied: by rule, policy, key and minute', async () => {
  expect(await simulated('--config', 'two.yaml', log(FOUR))).toMatchObject({
    requests: 6,
    denied: 2,
    reasons: { limits: 2 },
    rules: [
      { rule: 'api', requests: 5, denied: 2 },
      { rule: '(no rule)', requests: 1, denied: 0 },
    ],
    policies: [{ policy: 'two', denied: 2 }],
    deniedKeys: 1,
    keys: [{ policy: 'two', key: '203.0.113.7', denied: 2 }],
    slices: [{ from: '2026-11-18T10:00:00.000Z', requests: 6, denied: 2 }],
  });
});

test('shows it as tables', async () => {
  const { stdout, exitCode } = await simulate('--config', 'two.yaml', log(FOUR));

  expect(exitCode).toBe(0);
  expect(stdout).toContain('6 requests: 2 would be denied (33.333%)');
  expect(stdout).toMatch(/^api +5 +2 +40\.000%/m);
  expect(stdout).toMatch(/203\.0\.113\.7 +two +2$/m);
  expect(stdout).toMatch(/2026-11-18T10:00:00Z +6 +2/);
});

test('counts by the time of the log: an hour later there is room again', async () => {
  const later = [...FOUR, line(3599)];

  expect(await simulated('--config', 'two.yaml', log(later))).toMatchObject({ denied: 2, requests: 7 });
});

test('compares with another configuration', async () => {
  expect(await simulated('--config', 'two.yaml', '--against', 'three.yaml', log(FOUR))).toMatchObject({
    denied: 2,
    against: {
      current: { denied: 1 },
      newlyDenied: { requests: 1, keys: [{ key: '203.0.113.7', denied: 1 }] },
      newlyAdmitted: { requests: 0 },
    },
  });
});

test('counts what rules in shadow mode would have denied', async () => {
  expect(await simulated('--config', 'shadow.yaml', log(FOUR))).toMatchObject({ denied: 0, wouldDeny: 2 });
});

test('reads gzip, and several logs in the order of their requests', async () => {
  const packed = log(gzipSync(`${FOUR.slice(3).join('\n')}\n`));

  const found = await simulated('--config', 'two.yaml', packed, log(FOUR.slice(0, 3)));

  expect(found).toMatchObject({ requests: 6, denied: 2, reading: { unreadable: 0 } });
});

describe('zstd', () => {
  // One request, as `zstd` packs it: not every Node.js that runs this can.
  const packed = Buffer.from(
    'KLUv/QRYRQIAEgURF4BVbazjlDWgGdaD42HrtCXX1vbCJnoCgZ3Zzjz4X5ui5qJU4pUOYKXVgZib/xf8pz9dE7HfDDxKGsr4fC4QqeIRfQMA6Q0zXQ==',
    'base64',
  );

  test('is read where Node.js can, and else the message says what to do', async () => {
    const path = log(packed);

    const { exitCode, stdout, stderr } = await simulate('--config', 'two.yaml', path);

    expect({ exitCode, said: exitCode === 0 ? stdout.split('\n')[2] : stderr }).toEqual(
      'createZstdDecompress' in zlib
        ? { exitCode: 0, said: '1 requests: 0 would be denied (0.000%)' }
        : {
            exitCode: 2,
            said: `${path} is packed with zstd, which this version of Node.js cannot read: unpack it with \`zstd -d ${path}\` first, or use Node.js 22.15 or newer.\n`,
          },
    );
  });
});

describe('standard input', () => {
  const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

  async function piped(input: string | Uint8Array): Promise<string> {
    const config = join(folder, 'piped.yaml');
    writeFileSync(config, TWO);
    const child = execFile(process.execPath, [PROGRAM, 'simulate', '--config', config, '--json', '-']);
    child.stdin?.end(input);
    return new Promise((resolve, reject) => {
      let output = '';
      child.stdout?.setEncoding('utf8').on('data', (text: string) => (output += text));
      child.once('error', reject).once('close', () => resolve(output));
    });
  }

  test.each([
    ['plain', (text: string) => text],
    ['packed with gzip', (text: string) => gzipSync(text)],
  ])('is read, %s', async (_, pack) => {
    const found: unknown = JSON.parse(await piped(pack(`${FOUR.join('\n')}\n`)));

    expect(found).toMatchObject({ requests: 6, denied: 2, reading: { unreadable: 0 } });
  });
});

test('a terminal sees how far it is, how fast, and how long it will take', async () => {
  // Long enough to be shown on any machine: a line is written at most five times a second.
  const many = Array.from({ length: 400_000 }, (_, at) => line(Math.floor(at / 200)));

  const { stderr, stdout } = await spillgate(['simulate', '--config', 'two.yaml', log(many)], {
    files: CONFIGS,
    isTerminal: true,
  });

  expect(stderr).toMatch(/[\d,]+ lines, [\d,]+ lines\/s, \d+%, \d+ s left/);
  expect(stderr.endsWith('\r\u001b[K')).toBe(true);
  expect(stdout).toContain('400,000 requests');
});

test('counts and shows lines that cannot be read', async () => {
  const { stdout } = await simulate('--config', 'two.yaml', log([line(0), 'nonsense', '', line(1)]));

  expect(stdout).toContain('1 lines cannot be read');
  expect(stdout).toContain('.log:2: nonsense');
});

test('reads any other log by a pattern', async () => {
  const tenants = TWO.replace(
    'policies: [two] }]',
    'policies: [two], key: { type: header, header_name: X-Tenant } }]',
  );
  const lines = [
    '1795000000.0|GET|/api/a|acme',
    '1795000001.0|GET|/api/a|acme',
    '1795000002.0|GET|/api/a|acme',
  ];

  const { stdout } = await spillgate(
    [
      'simulate',
      '--json',
      '--config',
      'a.yaml',
      '--pattern',
      '$msec|$request_method|$request_uri|$http_x_tenant',
      log(lines),
    ],
    { files: { 'a.yaml': tenants } },
  );

  expect(JSON.parse(stdout)).toMatchObject({ denied: 1, keys: [{ key: 'acme', denied: 1 }] });
});

describe('--fail-if', () => {
  test.each([
    ['denied > 30%', 1],
    ['denied > 34%', 0],
    ['denied >= 2', 1],
    ['denied > 2', 0],
    ['denied rule:api > 39%', 1],
    ['denied rule:api > 41%', 0],
    ['denied policy:two >= 2', 1],
    ['deniedKeys > 0', 1],
    ['wouldDeny > 0', 0],
    ['unreadable > 0', 0],
  ])('%s', async (condition, exitCode) => {
    const { stderr, ...found } = await simulate(
      '--config',
      'two.yaml',
      '--fail-if',
      condition,
      '--',
      log(FOUR),
    );

    expect(found.exitCode).toBe(exitCode);
    expect(stderr).toEqual(exitCode === 0 ? '' : expect.stringContaining(`failed: ${condition}: `));
  });
});

test.each([
  [['--config', 'two.yaml', '--fail-if', 'many', '--', 'x'], 2, /"many" is no condition: write for example/],
  [['--config', 'two.yaml', '--fail-if', 'unreadable rule:a > 1', '--', 'x'], 2, /only denied and wouldDeny/],
  [
    ['--config', 'two.yaml', '--format', 'iis', 'x'],
    2,
    /"iis" is no format of a log: use one of spillgate, combined/,
  ],
  [['--config', 'two.yaml', '--pattern', 'x', 'x'], 2, /has no variables/],
  [['--config', 'two.yaml', '/does/not/exist'], 2, /\/does\/not\/exist does not exist/],
  [['--config', 'gone.yaml', 'x'], 1, /gone\.yaml does not exist/],
  [['--config', 'broken.yaml', 'x'], 1, /broken\.yaml:1:10: error/],
  [['x'], 2, /required option '-c, --config <file>'/],
])('%j ends with %i and says why', async (args, exitCode, message) => {
  const outcome = await simulate(...args);

  expect(outcome.exitCode).toBe(exitCode);
  expect(outcome.stderr).toMatch(message);
});

test('a log in no known format is refused with its first line', async () => {
  const { exitCode, stderr } = await simulate('--config', 'two.yaml', log(['what is this', 'and this']));

  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/is in no format that is known: .* Its first line is "what is this"\.\n$/);
});

describe('the page of --html', () => {
  async function page(lines: readonly string[], config = 'two.yaml'): Promise<string> {
    const written = new Map<string, string>();
    await spillgate(['simulate', '--config', config, '--html', 'report.html', log(lines)], {
      files: CONFIGS,
      writeFile: (path, text) => written.set(path, text),
    });
    return written.get('report.html') ?? '';
  }

  test('has the tables and a plot, and needs nothing from elsewhere', async () => {
    const html = await page(FOUR);

    expect(html).toMatch(/^<!doctype html>/);
    expect(html).toContain('<title>Simulation: 2 of 6 requests denied</title>');
    expect(html).toContain('<title>2026-11-18T10:00:00Z: 6 requests, 2 denied, 0 in shadow mode</title>');
    expect(html).toContain('<code>203.0.113.7</code>');
    expect(html).not.toMatch(/<script|<link|<img|src=|href=|@import|url\(/i);
  });

  test('shows what strangers sent as text', async () => {
    const html = await page([line(0), '<script>alert(1)</script>', `"'<img src=x>&`]);

    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(html).toContain('&quot;&#39;&lt;img src=x&gt;&amp;');
    expect(html).not.toMatch(/<script|<img/);
  });
});

describe('spillgate suggest', () => {
  /** Nine clients with 2 requests each, and one with 30 in half a minute. */
  const TEN = [
    ...Array.from({ length: 9 }, (_, at) => [
      line(at, `203.0.113.${at}`),
      line(at + 30, `203.0.113.${at}`),
    ]).flat(),
    ...Array.from({ length: 30 }, (_, at) => line(at, '198.51.100.1')),
  ];

  test('proposes limits from what clients did, with whom each would have denied', async () => {
    const { stdout, exitCode } = await spillgate(['suggest', '--json', log(TEN)]);

    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      clients: 10,
      withoutKey: 0,
      limits: [
        { percentile: 90, average: 2, burst: 1, deniedClients: 1 },
        { percentile: 95, average: 30, burst: 16, denied: 0, deniedClients: 0 },
      ],
    });
  });

  test('shows them as a table, and the usual one as a configuration to begin with', async () => {
    const { stdout } = await spillgate(['suggest', log(FOUR)]);

    expect(stdout).toMatch(/^90% of clients +5 per minute +5 +0 \(0\.000%\) +0 of 2 \(0\.000%\)$/m);
  });

  test('its configuration is valid', async () => {
    const { stdout } = await spillgate(['suggest', log(TEN)]);
    const yaml = `backend: { url: "http://127.0.0.1:1" }\n${stdout.slice(stdout.indexOf('rate_limit:'))}`;

    const { exitCode, stderr } = await spillgate(['check', 'a.yaml'], { files: { 'a.yaml': yaml } });

    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  });

  test.each([
    [['-'], /standard input cannot be read twice/],
    [['/does/not/exist'], /does not exist/],
  ])('%j is refused', async (args, message) => {
    const { exitCode, stderr } = await spillgate(['suggest', ...args]);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(message);
  });
});

test('says what a log does not know of who asked', async () => {
  const identity = `
identity:
  api_keys: { keys: [{ name: acme, hash: "sha256:${'a'.repeat(64)}" }] }
  jwt: { jwks: { url: "https://id.example.com/keys" }, issuer: ["https://id.example.com/"], audience: [api], algorithms: [RS256], on_invalid: clientIP }
`;
  const { stdout, stderr } = await spillgate(['simulate', '--config', 'who.yaml', log(FOUR)], {
    files: { 'who.yaml': `${TWO}${identity}` },
  });

  expect(stderr).not.toContain('error');
  expect(stdout).toContain('Tokens are not in the log: nobody shows one here.');
  expect(stdout).toContain("API keys are not in the log: only Spillgate's own log names them.");
  expect(stdout).toContain('6 requests: 2 would be denied');
});
