import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { createServer as createPlainServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createCertificates, type Certificates } from '../../../../../test/redis/certificates.ts';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import type { Upstream } from '../../../src/proxy/upstreams/pooled-upstream.ts';
import { textOf } from '../../http-client/asking.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { listen } from '../local-server.ts';

type Transport = NonNullable<Parameters<typeof backendOf>[0]['transport']>;

let folder = '';
let certificates: Certificates;

beforeAll(async () => {
  certificates = await createCertificates();
  folder = mkdtempSync(join(tmpdir(), 'spillgate-upstream-tls-'));
  writeFileSync(join(folder, 'ca.crt'), certificates.ca);
  writeFileSync(join(folder, 'client.crt'), certificates.client.cert);
  writeFileSync(join(folder, 'client.key'), certificates.client.key);
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function file(name: string): string {
  return join(folder, name);
}

function upstreamAt(url: string, transport: Transport): Upstream {
  const upstreams = createUpstreams(backendOf({ url, transport }), { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  const upstream = upstreams.next();
  if (upstream === undefined) throw new Error('no upstream');
  return upstream;
}

async function get({ pool }: Upstream, headers: readonly string[] = []): Promise<string> {
  try {
    return await textOf(pool, '/', { headers });
  } catch (failure) {
    return failure instanceof Error && 'code' in failure ? String(failure.code) : String(failure);
  }
}

async function https(listener: RequestListener, options = {}): Promise<number> {
  const server = await listen(createServer({ ...certificates.server, ...options }, listener));
  return server.port;
}

const greet: RequestListener = ({ socket }, response) => {
  const name = socket instanceof TLSSocket ? socket.servername : undefined;
  response.end(`hello ${String(name)}`);
};

test('a certificate that nobody known has signed is refused, unless it is not looked at', async () => {
  const port = await https(greet);
  const url = `https://localhost:${port}`;

  expect(await get(upstreamAt(url, {}))).toMatch(/UNABLE_TO|SELF_SIGNED/);
  expect(await get(upstreamAt(url, { tls: { insecure_skip_verify: true } }))).toBe('hello localhost');
  expect(await get(upstreamAt(url, { tls: { ca_file: file('ca.crt') } }))).toBe('hello localhost');
});

test('the name to verify can be another one than the host', async () => {
  const port = await https(greet);
  const tls = { ca_file: file('ca.crt') };

  const named = upstreamAt(`https://127.0.0.1:${port}`, { tls: { ...tls, server_name: 'redis.test' } });
  const wrong = upstreamAt(`https://127.0.0.1:${port}`, { tls: { ...tls, server_name: 'other.test' } });

  expect(await get(named)).toBe('hello redis.test');
  expect(await get(wrong)).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
});

test.each(['h1', 'auto'] as const)(
  'the Host of a request changes neither the name in TLS nor the connection (%s)',
  async (backend_protocol) => {
    const server = await listen(createServer({ ...certificates.server }, greet));
    const transport = { backend_protocol, tls: { ca_file: file('ca.crt') } };
    const byName = upstreamAt(`https://localhost:${server.port}`, transport);
    const byAddress = upstreamAt(`https://127.0.0.1:${server.port}`, transport);

    for (const host of ['a.example', 'b.example']) {
      expect(await get(byName, ['host', host])).toBe('hello localhost');
      expect(await get(byAddress, ['host', host])).toBe('hello false');
    }

    // One each; and with `auto` one more each, to ask whether HTTP/2 is spoken.
    expect(server.accepted()).toBe(backend_protocol === 'h1' ? 2 : 4);
  },
);

test('a server that asks for a certificate gets ours', async () => {
  const port = await https(greet, { ca: certificates.ca, requestCert: true, rejectUnauthorized: true });
  const url = `https://localhost:${port}`;
  const client = { cert_file: file('client.crt'), key_file: file('client.key') };

  expect(await get(upstreamAt(url, { tls: { ca_file: file('ca.crt'), ...client } }))).toBe('hello localhost');
  expect(await get(upstreamAt(url, { tls: { ca_file: file('ca.crt') } }))).not.toContain('hello');
});

test.each([
  ['auto', true, '2.0'],
  ['auto', false, '1.1'],
  ['h1', true, '1.1'],
  ['h2', true, '2.0'],
  ['h2', false, 'NO_HTTP2'],
] as const)(
  '%s, and a server that speaks HTTP/2: %s, gives %s',
  async (backend_protocol, speaksHttp2, version) => {
    const server = speaksHttp2
      ? createSecureServer({ ...certificates.server, allowHTTP1: true }, (asked, response) => {
          response.end(asked.httpVersion);
        })
      : createServer(certificates.server, (asked, response) => {
          response.end(asked.httpVersion);
        });
    const { port } = await listen(server);
    const upstream = upstreamAt(`https://localhost:${port}`, {
      backend_protocol,
      tls: { ca_file: file('ca.crt') },
    });

    expect(await Promise.all([get(upstream), get(upstream)])).toEqual([version, version]);
    expect(await get(upstream)).toBe(version);
  },
);

test('a connection for a tunnel is secure and speaks HTTP/1.1', async () => {
  const server = createSecureServer({ ...certificates.server, allowHTTP1: true }, (asked, response) => {
    response.end(asked.httpVersion);
  });
  const { port } = await listen(server);
  const socket = await upstreamAt(`https://localhost:${port}`, { tls: { ca_file: file('ca.crt') } }).dial();

  socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  const [answer] = await socket.toArray();

  expect(String(answer)).toContain('HTTP/1.1 200');
});

test('a file that cannot be read is named with its setting', () => {
  const transport = { tls: { ca_file: '/nowhere/ca.crt' } };

  expect(() =>
    createUpstreams(backendOf({ url: 'https://localhost', transport }), { log: keptLog() }),
  ).toThrow(/^backend\.transport\.tls\.ca_file: \/nowhere\/ca\.crt does not exist$/);
});

test('other certificates in the same files make other upstreams', () => {
  const copy = file('copy.crt');
  writeFileSync(copy, certificates.ca);
  const backend = backendOf({ url: 'https://localhost', transport: { tls: { ca_file: copy } } });
  const upstreams = createUpstreams(backend, { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));

  expect(upstreams.fits(backend)).toBe(true);
  writeFileSync(copy, certificates.server.cert);
  expect(upstreams.fits(backend)).toBe(false);
});

test('a server that takes a connection and does not say a word of TLS is an error within dial_timeout', async () => {
  const { port } = await listen(createPlainServer());
  const upstream = upstreamAt(`https://127.0.0.1:${port}`, { dial_timeout: '100ms' });

  await expect(upstream.dial()).rejects.toMatchObject({ code: 'CONNECT_TIMEOUT' });
  expect(await get(upstream)).toBe('CONNECT_TIMEOUT');
});
