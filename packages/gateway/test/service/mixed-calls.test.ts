// Calls of every kind over one connection of HTTP/2, as channels of gRPC send them.
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { text } from 'node:stream/consumers';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { expect, onTestFinished, test } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { descriptor } from './rls-client.ts';
import { startTestService } from './running-service.ts';

const CONFIG = `
rate_limit: { policies: { api: { algorithm: fixedWindow, quota: 5000, window: 1d } } }
service:
  rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [api] }] }
`;

async function http(session: ClientHttp2Session, path: string, body?: string) {
  const method = body === undefined ? 'GET' : 'POST';
  const stream = session.request({ ':method': method, ':path': path, 'content-type': 'application/json' });
  const answered = new Promise<IncomingHttpHeaders>((resolve, reject) => {
    stream.once('response', resolve).once('error', reject);
  });
  stream.end(body);
  const [headers, answer] = await Promise.all([answered, text(stream)]);
  return { status: headers[':status'], answer };
}

async function grpc(session: ClientHttp2Session, method: string, input: string, fields: object) {
  const message = messageNamed(input);
  const bytes = toBinary(message, create(message, { ...fields }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  const stream = session.request({
    ':method': 'POST',
    ':path': `/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const trailed = new Promise<IncomingHttpHeaders>((resolve, reject) => {
    stream.once('trailers', resolve).once('error', reject);
  });
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  stream.end(Buffer.concat([head, bytes]));
  const trailers = await trailed;
  return { status: trailers['grpc-status'], message: Buffer.concat(chunks).subarray(5) };
}

test('decisions, health, authorization and HTTP are served side by side', async () => {
  const service = await startTestService(CONFIG);
  const session = connect(`http://127.0.0.1:${service.port}`);
  onTestFinished(() => session.destroy());
  const rls = 'envoy.service.ratelimit.v3';
  const response = messageNamed(`${rls}.RateLimitResponse`);

  const rounds = await Promise.all(
    Array.from({ length: 50 }, async () =>
      Promise.all([
        grpc(session, `${rls}.RateLimitService/ShouldRateLimit`, `${rls}.RateLimitRequest`, {
          domain: 'shop',
          descriptors: [descriptor('user=ann')],
        }),
        grpc(session, 'grpc.health.v1.Health/Check', 'grpc.health.v1.HealthCheckRequest', { service: '' }),
        http(session, '/v1/check', JSON.stringify({ policy: 'api', key: 'ann' })),
        http(session, '/openapi.json'),
        http(session, '/nothing'),
      ]),
    ),
  );

  for (const [decided, health, check, page, nothing] of rounds) {
    expect([decided.status, health.status]).toEqual(['0', '0']);
    expect(fromBinary(response, decided.message)).toMatchObject({ overallCode: 1 });
    expect([check.status, page.status, nothing.status]).toEqual([200, 200, 404]);
    expect(JSON.parse(page.answer)).toHaveProperty('openapi');
  }
  const last = await http(session, '/v1/peek', JSON.stringify({ policy: 'api', key: 'ann' }));
  expect(JSON.parse(last.answer)).toMatchObject({ remaining: 4900 });
});

test('a body of exactly the most is taken in many small pieces, one byte more is not', async () => {
  const service = await startTestService(CONFIG);
  const session = connect(`http://127.0.0.1:${service.port}`);
  onTestFinished(() => session.destroy());
  const send = async (length: number): Promise<unknown> => {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    const head = Buffer.alloc(5);
    head.writeUInt32BE(length, 1);
    const status = new Promise<IncomingHttpHeaders>((resolve) => {
      stream.once('response', resolve);
    });
    stream.resume();
    stream.write(head);
    // An unknown field of nearly all of it: `15: "aaa..."`.
    const filling = Buffer.alloc(length - 4, 'a');
    stream.write(Buffer.from([0x7a]));
    const size = Buffer.from([
      (filling.length & 0x7f) | 0x80,
      ((filling.length >> 7) & 0x7f) | 0x80,
      filling.length >> 14,
    ]);
    stream.write(Buffer.concat([size, filling.subarray(0, 1)]));
    for (let at = 1; at < filling.length; at += 5000) stream.write(filling.subarray(at, at + 5000));
    stream.end();
    const { 'grpc-status': code, 'grpc-message': said } = await status;
    return `${String(code)}: ${String(said)}`;
  };

  // It was read: it has no domain.
  expect(await send(2 ** 20)).toBe('3: rate limit domain must not be empty');
  expect(await send(2 ** 20 + 1)).toMatch(/^8: the message has more than 1048576 bytes/);
});
