// Clients that are told apart by the certificate that they show.
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createCertificates, type Certificates, type KeyPair } from '../../../../test/redis/certificates.ts';
import { startOrigin, type Origin } from '../proxy/rig.ts';
import { runGateway } from '../runtime/running-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'spillgate-certificates-'));
let ours: Certificates;
let theirs: Certificates;

beforeAll(async () => {
  [ours, theirs] = await Promise.all([createCertificates(), createCertificates()]);
  writeFileSync(join(folder, 'server.crt'), ours.server.cert);
  writeFileSync(join(folder, 'server.key'), ours.server.key);
  writeFileSync(join(folder, 'ca.crt'), ours.ca);
});

afterAll(() => rmSync(folder, { recursive: true }));

function config(origin: Origin, field: string): string {
  const at = (name: string): string => JSON.stringify(join(folder, name));
  return `
backend: { url: "${origin.url}" }
server:
  tls: { enabled: true, cert_file: ${at('server.crt')}, key_file: ${at('server.key')}, client_auth: request, client_ca_file: ${at('ca.crt')} }
rate_limit: { average: 1, burst: 1, period: 1h, key_strategy: { type: clientCertificate, field: ${field} } }
`;
}

async function statusOf(port: number, client?: KeyPair, headers = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    request({ port, host: '127.0.0.1', ca: ours.ca, ...client, headers, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    })
      .on('error', reject)
      .end();
  });
}

async function statusOverHttp2(port: number, client: KeyPair): Promise<number> {
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca: ours.ca, ...client });
  const status = await new Promise<number>((resolve, reject) => {
    session.on('error', reject);
    session.request({ ':path': '/' }).on('response', (headers) => resolve(Number(headers[':status'])));
  });
  session.destroy();
  return status;
}

test.each(['fingerprint', 'subject'])(
  'a client is counted by its %s, in every version of HTTP',
  async (field) => {
    const origin = await startOrigin();
    const { port } = await runGateway(config(origin, field));
    const forged = { 'X-Spillgate-Certificate': 'somebody' };

    expect(await statusOf(port, ours.client, forged)).toBe(200);
    expect(await statusOverHttp2(port, ours.client)).toBe(429);
    // Signed by the same authority, but not for clients.
    expect(await statusOverHttp2(port, ours.server)).toBe(400);

    const { fingerprint256 } = new X509Certificate(ours.client.cert);
    expect(origin.requests[0]?.header('X-Spillgate-Certificate')).toBe(
      fingerprint256.replaceAll(':', '').toLowerCase(),
    );
  },
);

test('a certificate that nobody we know has signed is none, and so is none', async () => {
  const { port } = await runGateway(config(await startOrigin(), 'subject'));

  expect(await statusOf(port, theirs.client)).toBe(400);
  expect(await statusOf(port)).toBe(400);
});
