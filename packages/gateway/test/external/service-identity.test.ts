// The gateway and its limits service know each other: by certificates, and by a secret in a header.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createGrpcServer } from 'node:http2';
import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createCertificates, type Certificates } from '../../../../test/redis/certificates.ts';
import { effectiveYaml, secretsOf } from '../../src/config/effective.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { PLAN, json, startService } from './services.ts';
import { question, testSource } from './sources.ts';

let folder = '';
let certificates: Certificates;

beforeAll(async () => {
  certificates = await createCertificates();
  folder = mkdtempSync(join(tmpdir(), 'spillgate-limits-tls-'));
  writeFileSync(join(folder, 'ca.crt'), certificates.ca);
  writeFileSync(join(folder, 'client.crt'), certificates.client.cert);
  writeFileSync(join(folder, 'client.key'), certificates.client.key);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** What a service at an https URL says to a gateway with these settings. */
async function outcome(tls: object, { host = '127.0.0.1', requestCert = false } = {}): Promise<string[]> {
  const server = createServer(
    { ...certificates.server, ca: certificates.ca, requestCert, rejectUnauthorized: requestCert },
    (_, response) => response.end(JSON.stringify(PLAN)),
  );
  const port = await listen(server);
  const { source, told } = testSource({ external: { http: { url: `https://${host}:${port}/`, tls } } });
  await source.limitsFor(question('acme'));
  await source.close();
  return told.calls;
}

test('a service over https is believed if its certificate is one of the CA that is named', async () => {
  const ca_file = join(folder, 'ca.crt');

  expect(await outcome({})).toEqual(['unreachable']);
  expect(await outcome({ ca_file })).toEqual(['answered']);
  expect(await outcome({ ca_file, server_name: 'redis.test' })).toEqual(['answered']);
  expect(await outcome({ ca_file, server_name: 'somebody.else' })).toEqual(['unreachable']);
  expect(await outcome({ insecure_skip_verify: true })).toEqual(['answered']);
});

test('the gateway shows its own certificate where it has one', async () => {
  const tls = { ca_file: join(folder, 'ca.crt') };
  const own = { ...tls, cert_file: join(folder, 'client.crt'), key_file: join(folder, 'client.key') };

  expect(await outcome(tls, { requestCert: true })).toEqual(['unreachable']);
  expect(await outcome(own, { requestCert: true })).toEqual(['answered']);
});

test('a file that cannot be read is said at the start', () => {
  const http = { url: 'https://127.0.0.1:1/', tls: { ca_file: join(folder, 'nowhere') } };

  expect(() => testSource({ external: { http } })).toThrow(/ENOENT.*nowhere/);
});

test.each([
  [{ value: 'Bearer s3cret' }, 'authorization', 'Bearer s3cret'],
  [{ header: 'X-Limits-Key', value: 's3cret' }, 'x-limits-key', 's3cret'],
])(
  'over HTTP the service gets %j as a header, and clients cannot send another',
  async (auth, name, value) => {
    const service = await startService(json(PLAN));
    onTestFinished(async () => service.close());
    const { source, told } = testSource({
      external: { http: { url: service.url }, auth, header_filter: { allow_list: [name] } },
    });

    await source.limitsFor(question('acme', { headers: { raw: [name, 'of the client'] } }));
    await source.close();

    expect(service.asked.map(({ headers }) => headers[name])).toEqual([value]);
    // What a client sent is in the body, where it always is.
    expect(JSON.parse(service.asked[0]?.body ?? '')).toMatchObject({ key: 'acme' });
    expect(JSON.stringify(told)).not.toContain('s3cret');
  },
);

test('over gRPC it is metadata', async () => {
  const seen: unknown[] = [];
  const server = createGrpcServer();
  server.on('stream', (stream, headers) => {
    seen.push(headers['authorization']);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5' });
    stream.end();
  });
  const port = await listen(server);
  const { source } = testSource({
    external: { grpc: { address: `127.0.0.1:${port}` }, auth: { value: 'Bearer s3cret' } },
  });

  await source.limitsFor(question('acme'));
  await source.close();

  expect(seen).toEqual(['Bearer s3cret']);
});

test('the secret comes from a file, and is never shown', () => {
  const loaded = loadConfig({
    file: {
      path: 'a.yaml',
      text: stringify({
        backend: { url: 'http://a' },
        rate_limit: { average: 1, external: { enabled: true, http: { url: 'https://limits/' } } },
      }),
    },
    env: { SPILLGATE_RATE_LIMIT_EXTERNAL_AUTH_VALUE_FILE: 'run/limits-token' },
    readFile: () => 'Bearer s3cret\n',
  });
  if (!loaded.ok) throw new Error('not loaded');

  expect(loaded.config.rate_limit.external.auth).toEqual({ header: 'Authorization', value: 'Bearer s3cret' });
  expect(effectiveYaml(loaded.config, loaded.originOf)).not.toContain('s3cret');
  expect(secretsOf(loaded.config)).toContain('Bearer s3cret');
});
