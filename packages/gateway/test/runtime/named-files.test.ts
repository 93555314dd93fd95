// Settings that name files: whatever is wrong with a file, the answer says where the setting was written.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createCertificates, type Certificates } from '../../../../test/redis/servers.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { limitsMetrics } from '../../src/external/limits-source.ts';
import { MovedMetrics } from '../../src/telemetry/traffic-tally.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { NO_CHANGE } from '../../src/runtime/listen.ts';
import { ConfigRefused, ActiveConfig } from '../../src/runtime/active-config.ts';
import { createFolder } from '../../src/fleet/settings-store.ts';
import { namedFiles } from '../../src/runtime/named-files.ts';
import { spillgate } from '../cli/terminal.ts';

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const GOOD = 'backend: { url: "http://127.0.0.1:1" }\n';
const folder = mkdtempSync(join(tmpdir(), 'spillgate-files-'));
const at = (name: string): string => join(folder, name);
const opened: ActiveConfig[] = [];
let certificates: Certificates;

beforeAll(async () => {
  certificates = await createCertificates();
  writeFileSync(at('server.crt'), certificates.server.cert);
  writeFileSync(at('server.key'), certificates.server.key);
  writeFileSync(at('client.key'), certificates.client.key);
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map(async (active) => active.close()));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(text: () => string): Promise<ActiveConfig> {
  const active = await ActiveConfig.start({
    readConfig: () => loadConfig({ file: { path: 'a.yaml', text: text() } }),
    tools: {
      log: SILENT,
      version: '1.2.3',
      limitsObserver: limitsMetrics(new MovedMetrics()),
      onDecision: () => undefined,
      count: () => undefined,
    },
    prepare: async () => Promise.resolve(NO_CHANGE),
    swapped: () => undefined,
  });
  opened.push(active);
  return active;
}

/** What `run` says about a file, and what a running gateway says when it is told to use it. */
async function refusals(yaml: string): Promise<readonly (readonly string[])[]> {
  const atStart = await start(() => yaml).then(
    () => [],
    (failure: unknown) => {
      if (!(failure instanceof ConfigRefused)) throw failure;
      return failure.problems.map(formatProblem);
    },
  );
  let text = GOOD;
  const active = await start(() => text);
  text = yaml;
  const atReload = (await active.reload()).problems.map(formatProblem);
  return [atStart, atReload];
}

const serverTls = (cert: string, key: string, more = ''): string =>
  `${GOOD}server:\n  tls:\n    enabled: true\n    cert_file: ${cert}\n    key_file: ${key}\n${more}`;

const UNREADABLE = 'Correct the path, or make the file readable for the gateway.';

/** Each with the place of the setting and its name. */
const MISSING = [
  [serverTls('/none.pem', '/none.key'), 'a.yaml:5:16', 'server.tls.cert_file'],
  [
    'backend:\n  url: "http://127.0.0.1:1"\n  transport:\n    tls:\n      ca_file: /none.pem\n',
    'a.yaml:5:16',
    'backend.transport.tls.ca_file',
  ],
  [
    `${GOOD}redis:\n  endpoints: ["127.0.0.1:1"]\n  tls:\n    enabled: true\n    ca_file: /none.pem\n`,
    'a.yaml:6:14',
    'redis.tls.ca_file',
  ],
  [
    `${GOOD}rate_limit:\n  external:\n    enabled: true\n    http:\n      url: https://127.0.0.1:1/\n      tls:\n        ca_file: /none.pem\n`,
    'a.yaml:8:18',
    'rate_limit.external.http.tls.ca_file',
  ],
  [
    `${GOOD}identity:\n  jwt:\n    issuer: [https://issuer.test]\n    audience: [api]\n    algorithms: [RS256]\n    jwks:\n      file: /none.pem\n`,
    'a.yaml:8:13',
    'identity.jwt.jwks.file',
  ],
] as const;

describe('a file that cannot be read', () => {
  test.each(MISSING)('refuses the start and a reload, and is found: %#', async (yaml, place, setting) => {
    const problem = `${place}: error: ${setting}: /none.pem does not exist. ${UNREADABLE}`;

    expect(await refusals(yaml)).toEqual([
      expect.arrayContaining([problem]),
      expect.arrayContaining([problem]),
    ]);
  });

  test.each(MISSING)(
    'is a warning of `check`, which may run where no secrets are: %#',
    async (text, place, setting) => {
      const { exitCode, stdout, stderr } = await spillgate(['check', 'a.yaml'], {
        files: { 'a.yaml': text },
      });

      expect(stdout).toContain(
        `${place}: warning: ${setting}: /none.pem does not exist here. The gateway does not start without it.\n`,
      );
      expect(stdout).toContain('a.yaml is valid: ');
      expect([exitCode, stderr]).toEqual([0, '']);
    },
  );
});

describe('a key that does not fit its certificate', () => {
  const yaml = (): string => serverTls(at('server.crt'), at('client.key'));
  const problem = (): string =>
    `a.yaml:6:15: error: server.tls.key_file (${at('client.key')}) is not the key of the certificate in ${at('server.crt')}. Name the files of one pair.`;

  test('refuses the start and a reload, and is found', async () => {
    expect(await refusals(yaml())).toEqual([[problem()], [problem()]]);
  });

  test('is an error of `check` where both files are', async () => {
    const files = {
      'a.yaml': yaml(),
      [at('server.crt')]: certificates.server.cert,
      [at('client.key')]: certificates.client.key,
    };

    const text = await spillgate(['check', 'a.yaml'], { files });
    const json = await spillgate(['check', '--json', 'a.yaml'], { files });

    expect([text.exitCode, text.stdout]).toEqual([1, `${problem()}\na.yaml cannot be used: 1 error.\n`]);
    expect([json.exitCode, JSON.parse(json.stdout)]).toMatchObject([
      1,
      { ok: false, problems: [{ path: 'server.tls.key_file' }] },
    ]);
  });
});

test('keys for tokens that cannot be used refuse the start and a reload, and are an error of `check`', async () => {
  writeFileSync(at('keys.json'), '{"keys":5}');
  const yaml = `${GOOD}identity:\n  jwt:\n    issuer: [https://issuer.test]\n    audience: [api]\n    algorithms: [RS256]\n    jwks:\n      file: ${at('keys.json')}\n`;
  const problem = `a.yaml:8:13: error: identity.jwt.jwks.file: ${at('keys.json')} is not a JWK Set: expected {"keys": [...]}. Name a file with the public keys of the issuer, as its jwks_uri shows them.`;

  const { exitCode, stdout } = await spillgate(['check', 'a.yaml'], {
    files: { 'a.yaml': yaml, [at('keys.json')]: '{"keys":5}' },
  });

  expect(await refusals(yaml)).toEqual([[problem], [problem]]);
  expect([exitCode, stdout]).toEqual([1, expect.stringContaining(problem)]);
});

describe('state_dir', () => {
  test('below a file refuses the start and a reload, and is a warning of `check`', async () => {
    const yaml = `${GOOD}state_dir: ${at('server.crt')}/state\n`;
    const problem = `state_dir: ${at('server.crt')} is not a folder`;

    const { exitCode, stdout } = await spillgate(['check', 'a.yaml'], { files: { 'a.yaml': yaml } });

    expect(await refusals(yaml)).toEqual([
      [expect.stringContaining(problem)],
      [expect.stringContaining(problem)],
    ]);
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining(problem)]);
  });

  test('that does not exist yet is created, with what is above it, for nobody else', () => {
    createFolder(at('var/lib/spillgate'));
    expect(statSync(at('var/lib/spillgate')).mode & 0o777).toBe(0o700);
  });

  test('in a folder that takes none is refused at once, and does not keep the process busy for ever', () => {
    expect(() => createFolder('/proc/spillgate/state')).toThrow(
      /^state_dir: \/proc\/spillgate\/state cannot be created \(E[A-Z]+\)$/,
    );
  });
});

describe('certificates for connections that the gateway opens', () => {
  const yaml = (tls: string): string => `backend: { url: "https://127.0.0.1:1" }
redis:
  endpoints: ["127.0.0.1:1"]
  tls: { enabled: true, ${tls} }
`;
  const pair = (cert: string, key: string): string => `cert_file: ${at(cert)}, key_file: ${at(key)}`;

  test.each([
    [
      'half of a pair',
      () => pair('server.crt', 'client.key'),
      () =>
        `redis.tls.key_file (${at('client.key')}) is not the key of the certificate in ${at('server.crt')}. Name the files of one pair.`,
    ],
    [
      'a file without a certificate',
      () => `ca_file: ${at('server.key')}`,
      () =>
        `redis.tls.ca_file (${at('server.key')}) contains no certificate (PEM). A certificate begins with "-----BEGIN CERTIFICATE-----".`,
    ],
    [
      'a file without a key',
      () => pair('server.crt', 'server.crt'),
      () =>
        `redis.tls.key_file (${at('server.crt')}) contains no private key (PEM). A key begins with a line such as "-----BEGIN PRIVATE KEY-----".`,
    ],
  ])('%s is refused before anything is opened, and is an error of `check`', async (_, tls, problem) => {
    const line = new RegExp(`^a\\.yaml:4:\\d+: error: ${escaped(problem())}$`, 'm');
    const files = {
      'a.yaml': yaml(tls()),
      [at('server.crt')]: certificates.server.cert,
      [at('server.key')]: certificates.server.key,
      [at('client.key')]: certificates.client.key,
    };

    const [atStart, atReload] = await refusals(yaml(tls()));
    const checked = await spillgate(['check', 'a.yaml'], { files });

    expect([atStart, atReload]).toEqual([[expect.stringMatching(line)], [expect.stringMatching(line)]]);
    expect([checked.exitCode, checked.stdout]).toEqual([1, expect.stringMatching(line)]);
  });

  test('that fit are used', async () => {
    expect(await refusals(yaml(pair('server.crt', 'server.key')))).toEqual([[], []]);
  });
});

test('every file that cannot be read is named at once', async () => {
  const lines = (await refusals(serverTls('/none.pem', '/none.key')))[0];

  expect(lines).toEqual([
    expect.stringContaining('server.tls.cert_file: /none.pem does not exist'),
    expect.stringContaining('server.tls.key_file: /none.key does not exist'),
  ]);
});

test('a certificate of the server that is being replaced does not keep other settings from a reload', async () => {
  writeFileSync(at('changing.key'), certificates.server.key);
  let text = serverTls(at('server.crt'), at('changing.key'));
  const active = await start(() => text);
  writeFileSync(at('changing.key'), certificates.client.key);
  text += 'rate_limit: { average: 5 }\n';

  expect(await active.reload()).toMatchObject({ outcome: 'applied' });
});

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

test('`check` has nothing to say about files that fit', async () => {
  const files = {
    'a.yaml': serverTls('c', 'k', '    client_auth: require\n    client_ca_file: ca\n'),
    c: certificates.server.cert,
    k: certificates.server.key,
    ca: certificates.ca,
  };

  expect(await spillgate(['check', 'a.yaml'], { files })).toEqual({
    exitCode: 0,
    stdout: 'a.yaml is valid.\n',
    stderr: '',
  });
});

test('files of what is turned off are not asked for', async () => {
  const text = `${GOOD}server: { tls: { client_ca_file: /none.pem } }
redis: { endpoints: ["127.0.0.1:1"], tls: { ca_file: /none.pem } }
rate_limit: { external: { enabled: false, http: { url: "https://a/", tls: { ca_file: /none.pem } } } }
`;

  const { exitCode, stdout } = await spillgate(['check', 'a.yaml'], { files: { 'a.yaml': text } });

  expect(exitCode).toBe(0);
  expect(stdout).not.toContain('cannot be read');
});

test('every file of a connection that the gateway opens is watched', () => {
  const files = (name: string): string =>
    `{ enabled: true, ca_file: /${name}.ca, cert_file: /${name}.crt, key_file: /${name}.key }`;
  const loaded = loadConfig({
    file: {
      path: 'a.yaml',
      text: `backend: { url: "https://a", transport: { tls: ${files('backend').replace('enabled: true, ', '')} } }
redis: { endpoints: ["a:1"], tls: ${files('redis')} }
cache_redis: { endpoints: ["a:1"], tls: ${files('cache')} }
rate_limit: { external: { enabled: true, grpc: { address: "a:1", tls: ${files('grpc')} } } }
`,
    },
  });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));

  expect(namedFiles(loaded.config).map(({ file }) => file)).toEqual(
    ['backend', 'redis', 'cache', 'grpc'].flatMap((name) =>
      ['ca', 'crt', 'key'].map((end) => `/${name}.${end}`),
    ),
  );
});
