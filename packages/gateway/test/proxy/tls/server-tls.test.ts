import { createPrivateKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectPlain } from 'node:net';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  createCertificates,
  type Certificates,
  type KeyPair,
} from '../../../../../test/redis/certificates.ts';
import { loadServerTls, type ServerTls } from '../../../src/proxy/tls/server-tls.ts';
import { configOf, keptLog, type KeptLog } from '../gateway-settings.ts';
import { listen, until } from '../local-server.ts';

type Settings = NonNullable<NonNullable<Parameters<typeof configOf>[0]['server']>['tls']>;

let folder = '';
let first: Certificates;
let second: Certificates;

beforeAll(async () => {
  [first, second] = await Promise.all([createCertificates(), createCertificates()]);
});

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillgate-server-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  place(first.server);
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function at(name: string): string {
  return join(folder, name);
}

/** As a careful program does it: written beside, then renamed. */
function replace(name: string, text: string): void {
  writeFileSync(at(`${name}.new`), text);
  renameSync(at(`${name}.new`), at(name));
}

function place({ cert, key }: KeyPair): void {
  replace('tls.crt', cert);
  replace('tls.key', key);
}

function load(settings: Settings = {}, log: KeptLog = keptLog(), pollMs = 20): ServerTls {
  const files = { enabled: true, cert_file: at('tls.crt'), key_file: at('tls.key') };
  const tls = loadServerTls(configOf({ server: { tls: { ...files, ...settings } } }).server.tls, {
    log,
    pollMs,
  });
  onTestFinished(() => tls.close());
  return tls;
}

async function serve(tls: ServerTls): Promise<number> {
  const server = createServer(tls.options, (_request, response) => response.end('ok'));
  tls.onChange((options) => server.setSecureContext(options));
  const { port } = await listen(server);
  return port;
}

async function client(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  socket.on('error', () => {});
  onTestFinished(() => {
    socket.destroy();
  });
  await once(socket, 'secureConnect');
  return socket;
}

async function fingerprint(port: number, options: ConnectionOptions = {}): Promise<string> {
  const socket = await client(port, options);
  return socket.getPeerCertificate().fingerprint256;
}

function fingerprintOf({ cert }: KeyPair): string {
  return new X509Certificate(cert).fingerprint256;
}

/** Asks over a connection, and answers the status line. */
async function ask(socket: TLSSocket): Promise<string> {
  const answered = new Promise<string>((resolve) => {
    socket.once('data', (chunk: Buffer) => resolve(String(chunk).split('\r\n')[0] ?? ''));
    socket.once('error', (error: Error) => resolve(error.message));
    socket.once('close', () => resolve('closed'));
  });
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  return answered;
}

describe('at the start', () => {
  test.each([
    [
      'a file that is missing',
      { cert_file: '/nowhere/tls.crt' },
      /^server\.tls\.cert_file: \/nowhere\/tls\.crt does not exist$/,
    ],
    ['no certificate in the file', { cert_file: 'key' }, /server\.tls\.cert_file .* contains no certificate/],
    ['no key in the file', { key_file: 'cert' }, /server\.tls\.key_file .* contains no private key/],
    [
      'the key of another certificate',
      { key_file: 'other' },
      /server\.tls\.key_file .* is not the key of the certificate in .*tls\.crt/,
    ],
    [
      'an encrypted key',
      { key_file: 'encrypted' },
      /server\.tls\.key_file .* is encrypted; decrypt it first/,
    ],
    [
      'half a certificate',
      { cert_file: 'broken' },
      /server\.tls\.cert_file .* contains a certificate that cannot be read/,
    ],
    [
      'authorities that are none',
      { client_auth: 'require', client_ca_file: 'key' },
      /server\.tls\.client_ca_file .* contains no certificate/,
    ],
  ] as const)('%s is an error that names it', (_name, named, message) => {
    writeFileSync(at('key'), first.server.key);
    writeFileSync(at('cert'), first.server.cert);
    writeFileSync(at('other'), second.server.key);
    writeFileSync(at('broken'), '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n');
    const encrypted = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' } as const;
    writeFileSync(at('encrypted'), createPrivateKey(first.server.key).export(encrypted));
    const settings = Object.fromEntries(
      Object.entries(named).map(([name, value]) => [
        name,
        name.endsWith('_file') && !value.startsWith('/') ? at(value) : value,
      ]),
    );

    expect(() => load(settings)).toThrow(message);
  });

  test.each([
    [2, /^warn certificate loaded, but the certificate expired on/],
    [-1, /^warn certificate loaded, but the certificate is not valid before/],
    [0, /^info certificate loaded .*IP Address:127\.0\.0\.1/],
  ])('a certificate is served %i days from now, with a warning if it is not valid then', (days, line) => {
    const log = keptLog();
    const now = (): Date => new Date(Date.now() + days * 86_400_000);
    const settings = { enabled: true, cert_file: at('tls.crt'), key_file: at('tls.key') };

    loadServerTls(configOf({ server: { tls: settings } }).server.tls, { log, now }).close();

    expect(log.lines).toEqual([expect.stringMatching(line)]);
  });
});

describe('versions and clients', () => {
  test.each([
    ['1.2', 'TLSv1.1', false],
    ['1.2', 'TLSv1', false],
    ['1.2', 'TLSv1.2', true],
    ['1.2', 'TLSv1.3', true],
    ['1.3', 'TLSv1.2', false],
    ['1.3', 'TLSv1.3', true],
  ] as const)(
    'with min_version %s, a client that speaks only %s gets in: %s',
    async (min_version, version, getsIn) => {
      const port = await serve(load({ min_version }));
      const versions = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' };

      const outcome = client(port, versions).then(
        (socket) => socket.getProtocol(),
        () => 'refused',
      );

      expect(await outcome).toBe(getsIn ? version : 'refused');
    },
  );

  const OLD_CIPHERS = 'ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:AES128-SHA:AES128-GCM-SHA256';

  test.each<
    [what: string, offered: ConnectionOptions, settings: Parameters<typeof load>[0], outcome: string]
  >([
    ['CBC or RSA key exchange', { ciphers: OLD_CIPHERS, maxVersion: 'TLSv1.2' }, {}, 'refused'],
    [
      'CBC that the configuration allows',
      { ciphers: OLD_CIPHERS, maxVersion: 'TLSv1.2' },
      { cipher_suites: OLD_CIPHERS.split(':') },
      'TLSv1.2',
    ],
    [
      'one suite of 1.3 that the configuration leaves out',
      { ciphers: 'TLS_AES_128_GCM_SHA256', minVersion: 'TLSv1.3' },
      { cipher_suites: ['TLS_AES_256_GCM_SHA384'] },
      'refused',
    ],
    ['a curve that is not offered', { ecdhCurve: 'P-521' }, {}, 'refused'],
    ['a curve that the configuration allows', { ecdhCurve: 'P-521' }, { curves: ['P-521'] }, 'TLSv1.3'],
  ])('a client with %s', async (_, offered, settings, outcome) => {
    const port = await serve(load(settings));

    const protocol = client(port, offered).then(
      (socket) => socket.getProtocol(),
      () => 'refused',
    );

    expect(await protocol).toBe(outcome);
  });

  test('with client_auth none nobody is asked for a certificate', async () => {
    const port = await serve(load());

    expect(await ask(await client(port))).toBe('HTTP/1.1 200 OK');
  });

  test.each([
    ['request', 'none', true],
    ['request', 'right', true],
    ['require', 'none', false],
    ['require', 'wrong', false],
    ['require', 'right', true],
  ] as const)(
    'with client_auth %s, who shows %s gets an answer: %s',
    async (client_auth, shown, answered) => {
      writeFileSync(at('ca.crt'), first.ca);
      const port = await serve(load({ client_auth, client_ca_file: at('ca.crt') }));
      const pair = shown === 'right' ? first.client : shown === 'wrong' ? second.client : {};

      const answer = await client(port, { ...pair, maxVersion: 'TLSv1.2' }).then(ask, () => 'refused');

      expect(answer === 'HTTP/1.1 200 OK').toBe(answered);
    },
  );

  test.each(['no.such.name', 'a'.repeat(200), '-bad_.example'])(
    'a client that asks for the name %s is served, and nothing breaks',
    async (servername) => {
      const port = await serve(load());

      expect(await fingerprint(port, { servername })).toBe(fingerprintOf(first.server));
      expect(await ask(await client(port))).toBe('HTTP/1.1 200 OK');
    },
  );

  test('bytes that are no TLS do not disturb others', async () => {
    const port = await serve(load());
    const plain = connectPlain(port, '127.0.0.1');
    plain.on('error', () => {});
    plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(plain, 'close');

    expect(await ask(await client(port))).toBe('HTTP/1.1 200 OK');
  });
});

describe('while it is served', () => {
  test('a new certificate is for new connections, and open ones go on', async () => {
    const log = keptLog();
    const tls = load({}, log);
    const port = await serve(tls);
    const open = await client(port);
    expect(open.getPeerCertificate().fingerprint256).toBe(fingerprintOf(first.server));

    place(second.server);
    await until(() => log.lines.some((line) => line.startsWith('info certificate changed')));

    expect(await fingerprint(port)).toBe(fingerprintOf(second.server));
    expect(await fingerprint(port, { servername: 'localhost' })).toBe(fingerprintOf(second.server));
    expect(await ask(open)).toBe('HTTP/1.1 200 OK');
    expect(tls.options.cert).toBe(second.server.cert);
  });

  test('a pair of which only one half has changed is not served, and said so once', async () => {
    const log = keptLog();
    const tls = load({}, log);
    const port = await serve(tls);

    replace('tls.crt', second.server.cert);
    await until(() => log.lines.some((line) => line.startsWith('warn')));
    for (let look = 0; look < 5; look += 1) await tls.refresh();
    expect(await fingerprint(port)).toBe(fingerprintOf(first.server));
    expect(log.lines.filter((line) => line.startsWith('warn'))).toEqual([
      expect.stringMatching(/the old ones are kept .*is not the key of the certificate/),
    ]);

    replace('tls.key', second.server.key);
    await tls.refresh();
    expect(await fingerprint(port)).toBe(fingerprintOf(second.server));
  });

  test.each(['removed', 'unreadable', 'emptied'])('a file that is %s changes nothing', async (what) => {
    const log = keptLog();
    const tls = load({}, log, 60_000);
    const port = await serve(tls);

    if (what === 'removed') rmSync(at('tls.key'));
    else if (what === 'emptied') writeFileSync(at('tls.key'), '');
    else {
      rmSync(at('tls.key'));
      mkdirSync(at('tls.key'));
      chmodSync(at('tls.key'), 0o700);
    }
    await tls.refresh();

    expect(await fingerprint(port)).toBe(fingerprintOf(first.server));
    expect(log.lines.at(-1)).toMatch(
      /^warn certificate files changed and cannot be served.*server\.tls\.key_file/,
    );
  });

  test('links that are swapped, as Kubernetes does it, are seen', async () => {
    for (const [version, pair] of [
      ['v1', first.server],
      ['v2', second.server],
    ] as const) {
      mkdirSync(at(version));
      writeFileSync(at(`${version}/tls.crt`), pair.cert);
      writeFileSync(at(`${version}/tls.key`), pair.key);
    }
    symlinkSync('v1', at('..data'));
    for (const name of ['tls.crt', 'tls.key']) {
      rmSync(at(name));
      symlinkSync(join('..data', name), at(name));
    }
    const tls = load();
    const port = await serve(tls);
    expect(await fingerprint(port)).toBe(fingerprintOf(first.server));

    symlinkSync('v2', at('..data_tmp'));
    renameSync(at('..data_tmp'), at('..data'));
    await until(() => tls.options.cert === second.server.cert);

    expect(await fingerprint(port)).toBe(fingerprintOf(second.server));
  });

  test('other authorities for clients hold for new connections, and resumed sessions do not get around them', async () => {
    writeFileSync(at('ca.crt'), first.ca);
    const tls = load({ client_auth: 'require', client_ca_file: at('ca.crt') }, keptLog(), 60_000);
    const port = await serve(tls);
    const socket = await client(port, { ...first.client, maxVersion: 'TLSv1.2' });
    expect(await ask(socket)).toBe('HTTP/1.1 200 OK');
    const session = socket.getSession();

    writeFileSync(at('ca.crt'), second.ca);
    await tls.refresh();
    const again = client(port, {
      ...first.client,
      maxVersion: 'TLSv1.2',
      ...(session === undefined ? {} : { session }),
    });

    expect(await again.then(ask, () => 'refused')).not.toContain('200');
    expect(await client(port, { ...second.client, maxVersion: 'TLSv1.2' }).then(ask)).toBe('HTTP/1.1 200 OK');
  });

  test('after close nobody looks any more', async () => {
    const log = keptLog();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const tls = load({}, log);
    const looks = vi.getTimerCount();
    tls.close();

    place(second.server);
    vi.advanceTimersByTime(60_000);

    expect([looks, vi.getTimerCount()]).toEqual([1, 0]);
    expect(tls.options.cert).toBe(first.server.cert);
    expect(log.lines).toHaveLength(1);
  });
});
