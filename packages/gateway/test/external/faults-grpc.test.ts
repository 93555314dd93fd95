import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { frame, type GrpcReply, grpcReply, type GrpcTestService, startGrpc } from './grpc-services.ts';
import { question, testSource, within } from './sources.ts';

const TIMEOUT_MS = 1000;
const SLACK_MS = 500;

/** average = 100, burst = 50, period = "1s", and what else is given. */
function plan(...more: readonly number[]): Buffer {
  return Buffer.from([0x08, 100, 0x10, 50, 0x1a, 2, 0x31, 0x73, ...more]);
}

const drip: GrpcReply = (stream) => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' });
  stream.write(Buffer.from([0, 0, 0, 1, 0]));
  const timer = setInterval(() => stream.write(Buffer.from([0])), 20);
  stream.on('close', () => clearInterval(timer));
};

const endless: GrpcReply = (stream) => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' });
  const head = Buffer.from([0, 0x40, 0, 0, 0]);
  stream.write(Buffer.concat([head, Buffer.alloc(100_000)]));
};

const FAULTS: readonly (readonly [string, GrpcReply, string])[] = [
  ['never answers', () => undefined, 'timeout'],
  ['drips', drip, 'timeout'],
  ['resets the stream', (stream) => stream.close(2), 'status'],
  ['is not available', grpcReply(Buffer.alloc(0), { 'grpc-status': '14' }), 'unreachable'],
  ['fails inside', grpcReply(Buffer.alloc(0), { 'grpc-status': '13', 'grpc-message': 'oops' }), 'status'],
  ['does not know who asks', grpcReply(Buffer.alloc(0), { 'grpc-status': '16' }), 'status'],
  ['does not have the method', grpcReply(Buffer.alloc(0), { 'grpc-status': '12' }), 'status'],
  ['is asked too often', grpcReply(Buffer.alloc(0), { 'grpc-status': '8' }), 'rateLimited'],
  ['does not know the key', grpcReply(Buffer.alloc(0), { 'grpc-status': '5' }), 'unknownKey'],
  ['does not like the question', grpcReply(Buffer.alloc(0), { 'grpc-status': '3' }), 'invalid'],
  ['ends without a message', grpcReply(Buffer.alloc(0)), 'status'],
  ['sends an empty message', grpcReply(frame(Buffer.alloc(0))), 'invalid'],
  ['sends garbage', grpcReply(frame(Buffer.from('garbage'))), 'invalid'],
  [
    'sends a negative average',
    grpcReply(frame(Buffer.from([0x08, ...Array.from({ length: 9 }, () => 0xff), 1, 0x1a, 2, 0x31, 0x73]))),
    'invalid',
  ],
  ['sends a bad period', grpcReply(frame(Buffer.from([0x08, 100, 0x1a, 2, 0x31, 0x79]))), 'invalid'],
  ['sends an unknown failure policy', grpcReply(frame(plan(0x38, 9))), 'invalid'],
  ['sends the failure code 200', grpcReply(frame(plan(0x40, 0xc8, 1))), 'invalid'],
  ['sends a tenant with a space', grpcReply(frame(plan(0x32, 3, 0x61, 0x20, 0x62))), 'invalid'],
  [
    'sends 100 KB',
    grpcReply(frame(plan(0x4a, 0xa0, 0x8d, 6, ...Array.from({ length: 100_000 }, () => 0x61)))),
    'tooLarge',
  ],
  ['announces a gigabyte', endless, 'tooLarge'],
  [
    'sends a gzip bomb',
    grpcReply(
      frame(gzipSync(Buffer.alloc(10 * 2 ** 20)), 1),
      { 'grpc-status': '0' },
      { 'grpc-encoding': 'gzip' },
    ),
    'tooLarge',
  ],
];

describe.each(FAULTS)('a gRPC service that %s', (_, fault, reason) => {
  let service: GrpcTestService;
  let isWell = true;

  beforeAll(async () => {
    isWell = true;
    // cache_max_age_seconds = 1
    service = await startGrpc((stream, drop) =>
      (isWell ? grpcReply(frame(plan(0x20, 1))) : fault)(stream, drop),
    );
  });
  afterAll(async () => service.close());

  test('leaves the stale copy where there is one, else the static limits, within the deadline', async () => {
    let now = 0;
    const { source, told } = testSource(
      { external: { timeout: `${TIMEOUT_MS}ms`, grpc: { address: service.address } } },
      { now: () => now },
    );
    await source.limitsFor(question('known'));
    isWell = false;
    now = 1000;

    const [known, unknown] = await within(
      TIMEOUT_MS + SLACK_MS,
      Promise.all([source.limitsFor(question('known')), source.limitsFor(question('unknown'))]),
    );

    expect([known.step, known.policies?.[0]?.limit]).toEqual(['stale', 50]);
    expect([unknown.step, unknown.policies]).toEqual(['static', undefined]);
    expect(told.calls).toEqual(['answered', reason, reason]);
    expect(told.steps.toSorted()).toEqual(['service/answered', `stale/${reason}`, `static/${reason}`]);
    await source.close();
  });
});

test('a gRPC service that ends its connections leaves the static limits within the deadline', async () => {
  const service = await startGrpc((_, drop) => setImmediate(drop));
  const { source } = testSource({
    external: { timeout: `${TIMEOUT_MS}ms`, grpc: { address: service.address } },
  });

  const limits = await within(
    TIMEOUT_MS + SLACK_MS,
    Promise.all(['a', 'b', 'c'].map(async (key) => source.limitsFor(question(key)))),
  );

  expect(limits.map(({ step }) => step)).toEqual(['static', 'static', 'static']);
  await Promise.all([source.close(), service.close()]);
});

test('a gRPC service that is down leaves the static limits', async () => {
  const gone = await startGrpc(grpcReply(frame(plan())));
  await gone.close();
  const { source, told } = testSource({ external: { timeout: '2s', grpc: { address: gone.address } } });

  const limits = await source.limitsFor(question('a'));

  expect(limits.step).toBe('static');
  expect(told.steps).toEqual(['static/unreachable']);
  await source.close();
});

test('Retry-After in the metadata of a refused call keeps the key quiet', async () => {
  let now = 0;
  const service = await startGrpc(grpcReply(Buffer.alloc(0), { 'grpc-status': '8', 'retry-after': '20' }));
  const { source, told } = testSource(
    { external: { grpc: { address: service.address } } },
    { now: () => now },
  );

  await source.limitsFor(question('a'));
  now = 19_000;
  await source.limitsFor(question('a'));

  expect(told.steps).toEqual(['static/rateLimited', 'static/breakerOpen']);
  expect(service.calls()).toBe(1);
  await Promise.all([source.close(), service.close()]);
});

test('a service without protobuf answers JSON over gRPC, in words of its own', async () => {
  const answer = JSON.stringify({
    average: 100,
    burst: 50,
    period: '1s',
    tenant_key: 'acme',
    failure_policy: 'failclosed',
    cache_max_age_seconds: 9,
  });
  const service = await startGrpc(
    grpcReply(
      frame(Buffer.from(answer)),
      { 'grpc-status': '0' },
      { 'content-type': 'application/grpc+json' },
    ),
  );
  const { source } = testSource({ external: { grpc: { address: service.address, codec: 'json' } } });

  expect(await source.limitsFor(question('a'))).toMatchObject({
    step: 'service',
    tenantKey: 'acme',
    failurePolicy: 'failClosed',
  });
  await Promise.all([source.close(), service.close()]);
});

test.each([
  [
    'answers with the content type of JSON',
    grpcReply(
      frame(Buffer.from('{"average":1}')),
      { 'grpc-status': '0' },
      { 'content-type': 'application/grpc+json' },
    ),
  ],
  ['answers JSON without saying so', grpcReply(frame(Buffer.from('{"average":100,"period":"1s"}')))],
  [
    'cannot read what is not JSON',
    grpcReply(Buffer.alloc(0), {
      'grpc-status': '13',
      'grpc-message':
        "grpc: error unmarshalling request: invalid character '%0A' looking for beginning of value",
    }),
  ],
])('where protobuf is spoken to a service that %s, the log names the setting', async (_, reply) => {
  const service = await startGrpc(reply);
  const { source, told } = testSource({ external: { grpc: { address: service.address } } });

  const { step } = await source.limitsFor(question('a'));

  expect(step).toBe('static');
  expect(told.log.join('\n')).toContain('codec: json');
  await Promise.all([source.close(), service.close()]);
});

test('a service that fails for another reason is not said to speak JSON', async () => {
  const service = await startGrpc(
    grpcReply(Buffer.alloc(0), { 'grpc-status': '13', 'grpc-message': 'oops' }),
  );
  const { source, told } = testSource({ external: { grpc: { address: service.address } } });

  await source.limitsFor(question('a'));

  expect(told.log.join('\n')).toContain('oops');
  expect(told.log.join('\n')).not.toContain('codec');
  await Promise.all([source.close(), service.close()]);
});
