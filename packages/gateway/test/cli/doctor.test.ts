// Plants one fault at a time into a set-up in which nothing is wrong; each has to be found, and nothing else.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { examineCertificates } from '../../src/cli/doctor/examine-machine.ts';
import type { DoctorFinding } from '../../src/cli/doctor/finding.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { GatewayProcess } from '../e2e/gateway-process.ts';
import { faults, findingsIn, HealthySetup } from './doctor-setup.ts';
import { spillgate } from './terminal.ts';

let setup: HealthySetup;

beforeAll(async () => {
  setup = await HealthySetup.start();
});

afterAll(async () => setup.stop());

test('a healthy set-up has no fault', async () => {
  const { exitCode, findings } = await setup.examine({});

  expect(findings.filter(({ verdict }) => verdict !== 'good')).toEqual([]);
  expect(findings.map(({ subject }) => subject.split(' ')[0])).toEqual(
    expect.arrayContaining(['configuration', 'port', 'open', 'redis', 'backend']),
  );
  expect(exitCode).toBe(0);
});

test('people get a line per finding, with what to do below it', async () => {
  const { stdout, exitCode } = await spillgate(['doctor', 'gateway.yaml'], {
    files: setup.files({ backend: 'url: "http://127.0.0.1:9"' }),
  });

  expect(stdout).toMatch(/^good {4}configuration gateway\.yaml: is valid\n/);
  expect(stdout).toContain(
    'bad     backend http://127.0.0.1:9: does not answer (connect ECONNREFUSED 127.0.0.1:9)\n        Start it, or correct backend.url.\n',
  );
  expect(stdout).toMatch(/\n\n\d+ good, 0 warnings, 1 bad\n$/);
  expect(exitCode).toBe(1);
});

test('a number of keys that is none is wrong usage', async () => {
  const { stderr, exitCode } = await spillgate(['doctor', 'gateway.yaml', '--keys', 'many'], {
    files: setup.files({}),
  });

  expect(stderr).toBe('--keys is "many"; expected a whole number from 1, such as 100000.\n');
  expect(exitCode).toBe(2);
});

describe('of the configuration', () => {
  test.each([
    [
      'a setting that does not exist',
      { server: 'address: "127.0.0.1:0", adress: ":1"' },
      'server.adress is not a setting',
    ],
    ['no backend', { backend: undefined }, 'neither backend.url nor backend.upstreams is set'],
    [
      'several workers without Redis',
      { server: 'address: "127.0.0.1:0", workers: 2', redis: undefined },
      'workers',
    ],
  ])('%s', async (_, sections, found) => {
    const { bad, exitCode } = await setup.examine(sections);

    expect(bad).toEqual([expect.objectContaining({ subject: 'configuration gateway.yaml' })]);
    expect(bad[0]?.found).toContain(found);
    expect(exitCode).toBe(1);
  });

  test('a file that is not there', async () => {
    const { stdout } = await spillgate(['doctor', 'other.yaml', '--json'], { files: {} });

    expect(stdout).toContain('does not exist');
  });

  test('a certificate that is not there', async () => {
    const { bad } = await setup.examine({ server: tls('missing.crt', 'server.key') });

    expect(bad.map(({ found }) => found)).toEqual([expect.stringContaining('missing.crt')]);
  });

  test('a key of another certificate', async () => {
    const { bad } = await setup.examine({ server: tls('server.crt', 'client.key') });

    expect(bad[0]?.found).toContain('is not the key of the certificate');
  });
});

describe('of the machine', () => {
  test('a port that another program holds', async () => {
    const port = setup.backendPort;

    const { bad } = await setup.examine({ server: `address: "127.0.0.1:${port}"` });

    expect(bad).toEqual([
      expect.objectContaining({
        subject: `port server.address 127.0.0.1:${port}`,
        found: 'is taken by another program',
      }),
    ]);
  });

  test("an address that is not the machine's", async () => {
    const { bad } = await setup.examine({ server: 'address: "192.0.2.1:8080"' });

    expect(bad).toEqual([expect.objectContaining({ found: 'is no address of this machine' })]);
  });

  test('too few open files', async () => {
    const { warnings, exitCode } = await setup.examine(
      {},
      { '/proc/self/limits': 'Max open files   1024   4096   files\n' },
    );

    expect(warnings).toEqual([expect.objectContaining({ subject: 'open files' })]);
    expect(warnings[0]?.fix).toContain('ulimit -n 10456');
    expect(exitCode).toBe(0);
  });
});

describe('of the certificate', () => {
  const days = (count: number): Date => new Date(Date.now() + count * 86_400_000);

  test.each([
    ['that has ended', days(50), 'bad', /^ended on /],
    ['that ends soon', days(20), 'warning', /^ends on .*, in \d+ days$/],
    ['that is not valid yet', days(-50), 'bad', /^is not valid before /],
  ])('%s', (_, now, verdict, found) => {
    const findings = certificateFindings(selfSigned('-newkey rsa:2048 -days 30'), now);

    expect(findings).toEqual([expect.objectContaining({ verdict, found: expect.stringMatching(found) })]);
  });

  test('a good one', () => {
    const findings = certificateFindings(selfSigned('-newkey rsa:2048 -days 90'), new Date());

    expect(findings.map(({ verdict }) => verdict)).toEqual(['good']);
  });

  test('a short key', () => {
    const findings = certificateFindings(selfSigned('-newkey rsa:1024 -days 90'), new Date());

    expect(findings.at(-1)?.found).toBe('has an RSA key of 1024 bits');
  });

  test('a chain in the wrong order, or without its issuer', () => {
    const other = selfSigned('-newkey rsa:2048 -days 90');

    expect(certificateFindings(`${setup.certificates.server.cert}${other}`, new Date()).at(-1)?.found).toBe(
      'certificate 1 of the chain is not signed by certificate 2',
    );
    expect(certificateFindings(setup.certificates.server.cert, new Date()).at(-1)?.found).toBe(
      'has no intermediate certificate behind it',
    );
  });
});

describe('of the neighbours', () => {
  test('a backend whose health check fails', async () => {
    const port = setup.backendPort;
    setup.healthStatus = 500;
    const { bad } = await setup.examine({
      backend: `url: "http://127.0.0.1:${port}", health_check: { enabled: true, path: /health }`,
    });
    setup.healthStatus = 200;

    expect(bad[0]?.found).toBe('answers 500 to its health check /health, so it gets no requests');
  });

  test('a backend with a certificate of an unknown authority', async () => {
    const secure = createSecureServer({ ...setup.certificates.server }, (_, response) => response.end());
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    const { port } = secure.address() as AddressInfo;
    const { bad } = await setup.examine({
      backend: `url: "https://127.0.0.1:${port}", transport: { dial_timeout: 30s }`,
    });
    secure.close();

    expect(bad[0]?.fix).toBe(
      'Name its authority in backend.transport.tls.ca_file, or its name in server_name.',
    );
  });

  test('a limits service that is not there', async () => {
    const { warnings } = await setup.examine({
      rate_limit:
        'average: 10, deadline: 5s, external: { enabled: true, http: { url: "http://127.0.0.1:9/limits" } }',
    });

    expect(warnings).toEqual([expect.objectContaining({ subject: 'limits service 127.0.0.1:9' })]);
  });

  test('a proxy that is not trusted, and a reload that was refused', async () => {
    const gateway = await GatewayProcess.start(setup.yaml({ redis: undefined }));
    await gateway.reload('nonsense: 1\n');
    await fetch(gateway.url, { headers: { 'x-forwarded-for': '203.0.113.7' } });
    await fetch(gateway.url);
    const { stdout } = await spillgate(['doctor', 'gateway.yaml', '--json', '--admin', gateway.adminUrl], {
      files: setup.files({ redis: undefined }),
    });
    await gateway.remove();
    const findings = findingsIn(stdout);

    expect(findings.filter(({ verdict }) => verdict !== 'good').map(({ subject }) => subject)).toEqual([
      'running gateway',
      'trusted proxies',
    ]);
    expect(findings.find(({ subject }) => subject === 'trusted proxies')?.found).toBe(
      '1 request named a client in a header, but came from an address that is not trusted, the latest from 127.0.0.1',
    );
  });

  test('a reload that was refused, also where the file is still broken', async () => {
    const gateway = await GatewayProcess.start(setup.yaml({ redis: undefined }));
    await gateway.reload('nonsense: 1\n');
    const { stdout } = await spillgate(['doctor', 'gateway.yaml', '--json', '--admin', gateway.adminUrl], {
      files: { 'gateway.yaml': 'nonsense: 1\n' },
    });
    await gateway.remove();

    expect(faults(findingsIn(stdout))).toEqual([
      expect.stringContaining('nonsense is not a setting'),
      'running gateway: has refused the file as it is now, and runs an older one',
    ]);
  });

  test('a proxy that is trusted is no fault', async () => {
    const server = 'address: "127.0.0.1:0", client_address: { trusted_proxies: [loopback] }';
    const gateway = await GatewayProcess.start(setup.yaml({ redis: undefined, server }));
    await fetch(gateway.url, { headers: { 'x-forwarded-for': '203.0.113.7' } });
    const { stdout } = await spillgate(['doctor', 'gateway.yaml', '--json', '--admin', gateway.adminUrl], {
      files: setup.files({ redis: undefined, server }),
    });
    await gateway.remove();
    const findings = findingsIn(stdout);

    expect(faults(findings)).toEqual([]);
    expect(findings.map(({ subject }) => subject)).toContain('trusted proxies');
  });
});

function tls(cert: string, key: string): string {
  return `address: "127.0.0.1:0", tls: { enabled: true, cert_file: ${cert}, key_file: ${key} }`;
}

function certificateFindings(chain: string, now: Date): readonly DoctorFinding[] {
  const loaded = loadConfig({
    file: { path: 'gateway.yaml', text: `server: { ${tls('a.crt', 'a.key')} }\n` },
  });
  if (!loaded.ok) throw new Error('not a configuration');
  return examineCertificates({
    config: loaded.config,
    readFile: () => chain,
    expectedKeys: 1,
    now: () => now,
  });
}

function selfSigned(options: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-doctor-'));
  try {
    const args = `req -x509 -subj /CN=test -addext subjectAltName=DNS:test -nodes ${options} -keyout a.key -out a.crt`;
    execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'ignore' });
    return readFileSync(join(folder, 'a.crt'), 'utf8');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
