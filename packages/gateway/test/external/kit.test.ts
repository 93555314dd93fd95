import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials, makeGenericClientConstructor, type ServiceDefinition } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import {
  createLimitsService,
  definePlans,
  type Limits,
  UNLIMITED,
} from '../../src/external/limits-service/index.ts';
import { createCertificates } from '../../../../test/redis/servers.ts';
import { question, testSource } from './sources.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closers.splice(0).map(async (close) => close()));
});

const plan = definePlans({
  free: { average: 10, period: '1s', cacheFor: '30s' },
  pro: { average: 100, burst: 200, period: '1s', failurePolicy: 'failClosed', failureCode: 503 },
  batch: {
    policies: [
      { name: 'rate', average: 5, period: '1s' },
      { name: 'daily', algorithm: 'fixedWindow', quota: 1000, window: '1d' },
    ],
    cost: 2,
    requestTimeout: '10m',
  },
  unlimited: { ...UNLIMITED, backendUrl: 'http://big:80' },
});

async function startKit(limits: (key: string) => Limits | undefined, tls?: { cert: string; key: string }) {
  const errors: unknown[] = [];
  const service = createLimitsService({
    limits: ({ key }) => limits(key),
    onError: (error) => errors.push(error),
  });
  const listening = await service.listen({ port: 0, grpcPort: 0, grpcTls: tls });
  closers.push(async () => listening.close());
  return { ...listening, errors };
}

function sourceOf(external: object) {
  const made = testSource({ external }, { backendUrlComplaint: () => undefined });
  closers.push(async () => made.source.close());
  return made;
}

test('one handler answers over HTTP, over gRPC in protobuf, and over gRPC in JSON, all the same', async () => {
  const { url, grpcAddress } = await startKit((key) => plan(key as 'free', { tenantKey: `t.${key}` }));
  const sources = [
    sourceOf({ http: { url } }),
    sourceOf({ grpc: { address: grpcAddress } }),
    sourceOf({ grpc: { address: grpcAddress, codec: 'json' } }),
  ];

  for (const key of ['free', 'pro', 'batch', 'unlimited']) {
    const answers = await Promise.all(sources.map(async ({ source }) => source.limitsFor(question(key))));
    const shown = answers.map(({ policies, ...rest }) => ({
      ...rest,
      policies: policies?.map(({ name, algorithm, numbers, failurePolicy }) => ({
        name,
        algorithm,
        numbers,
        failurePolicy,
      })),
    }));
    expect(shown[0]).toMatchObject({ step: 'service', tenantKey: `t.${key}` });
    expect(shown[1]).toEqual(shown[0]);
    expect(shown[2]).toEqual(shown[0]);
  }
});

test('a plan says everything that the contract knows', async () => {
  const { url } = await startKit((key) => plan(key as 'free'));
  const { source } = sourceOf({ http: { url } });

  expect(await source.limitsFor(question('pro'))).toMatchObject({
    failurePolicy: 'failClosed',
    failureCode: 503,
  });
  expect(await source.limitsFor(question('batch'))).toMatchObject({ cost: 2, requestTimeoutMs: 600_000 });
  expect(await source.limitsFor(question('unlimited'))).toMatchObject({
    policies: [],
    backendUrl: 'http://big:80',
  });
});

test('TLS with its own authority is verified', async () => {
  const certificates = await createCertificates();
  const { grpcAddress } = await startKit(() => plan('free'), certificates.server);
  const folder = mkdtempSync(join(tmpdir(), 'limits-tls-'));
  const ca = join(folder, 'ca.pem');
  writeFileSync(ca, certificates.ca);

  const trusted = sourceOf({ grpc: { address: grpcAddress, tls: { enabled: true, ca_file: ca } } });
  const untrusted = sourceOf({ timeout: '3s', grpc: { address: grpcAddress, tls: { enabled: true } } });

  expect(await trusted.source.limitsFor(question('a'))).toMatchObject({ step: 'service' });
  expect(await untrusted.source.limitsFor(question('a'))).toMatchObject({ step: 'static' });
});

test('a key that nobody knows gets the static limits, and says nothing against the service', async () => {
  const { url, grpcAddress } = await startKit(() => undefined);
  for (const external of [{ http: { url } }, { grpc: { address: grpcAddress } }]) {
    const { source, told } = sourceOf(external);
    for (let at = 0; at < 40; at += 1) await source.limitsFor(question(`nobody${at}`));

    expect(new Set(told.steps)).toEqual(new Set(['static/unknownKey']));
    expect(source.snapshot()).toMatchObject({ globalBreaker: 'closed', openBreakers: 0 });
  }
});

test('a handler that fails is reported, and what went wrong stays inside', async () => {
  const { url, errors } = await startKit(() => {
    throw new Error('the password of the database is hunter2');
  });

  const response = await fetch(url ?? '', { method: 'POST', body: JSON.stringify({ key: 'a' }) });

  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain('hunter2');
  expect(errors).toHaveLength(1);
});

test.each<readonly [string, Limits]>([
  ['no period', { average: 10 }],
  ['a fraction', { average: 1.5, period: '1s' }],
  ['a failure code of 200', { average: 1, period: '1s', failureCode: 200 }],
  ['a tenant with a slash', { average: 1, period: '1s', tenantKey: 'a/b' }],
])('a plan with %s is refused where it is defined', (_, limits) => {
  expect(() => definePlans({ odd: limits })).toThrow(/The plan "odd" is wrong/);
});

test('a plan that does not exist is a mistake, whatever it is called', () => {
  expect(() => plan('toString' as 'free')).toThrow(/no plan/);
});

test.each([
  ['GET', undefined, 405],
  ['POST', 'x'.repeat(70_000), 413],
  ['POST', 'not json', 400],
  ['POST', '{}', 400],
  ['POST', '{"key":7}', 400],
  ['POST', '{"key":"a","headers":{"x":1}}', 400],
  ['POST', '{"key":"free"}', 200],
])('%s with the body %.20s is answered', async (method, body, status) => {
  const { url } = await startKit((key) => plan(key as 'free'));

  const response = await fetch(url ?? '', { method, ...(body === undefined ? {} : { body }) });

  expect(response.status).toBe(status);
});

test('the handler fits a server of node:http', async () => {
  const service = createLimitsService({ limits: () => plan('free') });
  const server = createServer(service.handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(async () => new Promise((resolve) => server.close(() => resolve())));
  const { port } = server.address() as AddressInfo;

  const response = await fetch(`http://127.0.0.1:${port}/any/path`, { method: 'POST', body: '{"key":"a"}' });

  expect(await response.json()).toEqual({ average: 10, period: '1s', cache_max_age_seconds: 30 });
});

test('another implementation of gRPC gets the same bytes', async () => {
  const { grpcAddress } = await startKit(() => ({
    average: 0,
    tenantKey: 'acme',
    failurePolicy: 'failClosed',
    noStore: true,
  }));
  const definition: ServiceDefinition = {
    GetLimits: {
      path: '/edgequota.ratelimit.v1.RateLimitService/GetLimits',
      requestStream: false,
      responseStream: false,
      requestSerialize: (value: Buffer) => value,
      requestDeserialize: (value: Buffer) => value,
      responseSerialize: (value: Buffer) => value,
      responseDeserialize: (value: Buffer) => value,
    },
  };
  const Client = makeGenericClientConstructor(definition, 'RateLimitService');
  const client = new Client(grpcAddress ?? '', credentials.createInsecure());
  closers.push(async () => Promise.resolve(client.close()));

  const reply = await new Promise((resolve, reject) => {
    // key = "a"
    client['GetLimits']?.(Buffer.from([0x0a, 1, 0x61]), (error: Error | null, value: Buffer) =>
      error === null ? resolve([...value]) : reject(error),
    );
  });

  // average = 0 (said, not left out), cache_no_store = true, tenant_key = "acme", failure_policy = FAIL_CLOSED
  expect(reply).toEqual([0x08, 0, 0x28, 1, 0x32, 4, 0x61, 0x63, 0x6d, 0x65, 0x38, 2]);
});

test('if one of two ports cannot be had, the other is given back', async () => {
  const [busy, free] = [createServer(), createServer()];
  for (const server of [busy, free]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  }
  closers.push(async () => new Promise((resolve) => busy.close(() => resolve())));
  const { port } = free.address() as AddressInfo;
  await new Promise((resolve) => free.close(resolve));
  const service = createLimitsService({ limits: () => undefined });

  const listening = service.listen({ port, grpcPort: (busy.address() as AddressInfo).port });

  await expect(listening).rejects.toThrow('EADDRINUSE');
  await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow('fetch failed');
});
