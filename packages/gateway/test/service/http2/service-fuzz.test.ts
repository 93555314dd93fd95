// Whatever is called in whatever way, the service answers or refuses it; nothing of ours is left to fail on its own.
import { connect } from 'node:net';
import * as fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { END_HEADERS, END_STREAM, frame, hpack, TYPE } from '../../proxy/http2-frames.ts';
import { startTestService } from '../running-service.ts';

const CONFIG = `
rate_limit: { policies: { api: { algorithm: fixedWindow, quota: 5, window: 1d } } }
service:
  rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [api] }] }
`;
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(TYPE.settings, 0, 0)]);
const PING = frame(TYPE.ping, 0, 0, Buffer.from('the last'));

const odd = fc.stringMatching(/^[!-~]{0,12}$/);
const path = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom(
      '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
      '/envoy.service.auth.v3.Authorization/Check',
      '/grpc.health.v1.Health/Check',
      '/grpc.health.v1.Health/Watch',
      '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
      '/v1/check',
      '/openapi.json',
      '/healthcheck',
      '*',
    ),
  },
  odd.map((text) => `/${text}`),
);
const pair = (name: string, value: fc.Arbitrary<string>) =>
  fc.option(
    value.map((text) => [name, text] as const),
    { nil: undefined, freq: 6 },
  );
const heads = fc
  .tuple(
    pair(':method', fc.constantFrom('POST', 'POST', 'GET', 'OPTIONS', 'HEAD', 'a')),
    pair(':scheme', fc.constantFrom('http', '')),
    pair(':path', path),
    pair(':authority', fc.oneof(fc.constantFrom('a', '', '[', 'a:99999', '%'), odd)),
    pair('content-type', fc.constantFrom('application/grpc', 'application/grpc+json', 'application/json')),
    pair('te', fc.constant('trailers')),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant(undefined) },
      pair('content-length', fc.constantFrom('0', '5', '17')),
      pair('grpc-encoding', fc.constantFrom('gzip', 'identity', 'br', 'x')),
      pair('grpc-timeout', fc.constantFrom('1n', '0S', '99999999H', '-1S', 'x')),
      pair('expect', fc.constant('100-continue')),
      pair('traceparent', odd),
    ),
  )
  .map((pairs) => hpack(pairs.filter((each) => each !== undefined)));
const bodies = fc.oneof(
  fc.constantFrom(
    Buffer.alloc(5),
    Buffer.from([1, 0, 0, 0, 0]),
    Buffer.from([0, 0xff, 0xff, 0xff, 0xff]),
    Buffer.from([0, 0, 0, 0, 6, 0x0a, 4, ...Buffer.from('shop')]),
    Buffer.from('{"policy":"api","key":"ann"}'),
  ),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
);
const call = fc.record({
  head: heads,
  body: bodies,
  ends: fc.constantFrom('headers', 'data', 'data', 'data', 'reset', 'never'),
});
const conversation = fc.record({
  calls: fc.array(call, { minLength: 1, maxLength: 12 }),
  /** Few are changed: else nothing is understood. */
  change: fc.option(fc.record({ at: fc.nat({ max: 3000 }), to: fc.nat({ max: 255 }) }), { freq: 3 }),
  cut: fc.integer({ min: 1, max: 3000 }),
});

interface Spoken {
  readonly head: Buffer;
  readonly body: Buffer;
  readonly ends: string;
}

function framesOf({ head, body, ends }: Spoken, at: number): Buffer {
  const id = 2 * at + 1;
  if (ends === 'headers') return frame(TYPE.headers, END_HEADERS | END_STREAM, id, head);
  const begun = [
    frame(TYPE.headers, END_HEADERS, id, head),
    frame(TYPE.data, ends === 'data' ? END_STREAM : 0, id, body),
  ];
  if (ends === 'reset') begun.push(frame(TYPE.reset, 0, id, Buffer.from([0, 0, 0, 8])));
  return Buffer.concat(begun);
}

/** Until the last PING is answered or the connection is over. */
async function say(port: number, bytes: Buffer, cut: number): Promise<void> {
  await new Promise<void>((resolve) => {
    let heard = '';
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => {
      for (let at = 0; at < bytes.length; at += cut) socket.write(bytes.subarray(at, at + cut));
      // A changed length makes the server wait for more than there is.
      socket.write(PING);
      socket.write(Buffer.alloc(20_000, 0xff));
    });
    socket.on('data', (chunk) => {
      heard += chunk.toString('latin1');
      if (heard.includes('the last')) socket.destroy();
    });
    socket.on('error', () => undefined).on('close', () => resolve());
  });
}

test('calls of any kind, in pieces, whole or broken off: each is answered or refused, and nothing fails', async () => {
  const failures: unknown[] = [];
  const failed = (failure: unknown): void => void failures.push(failure);
  process.on('unhandledRejection', failed).on('uncaughtException', failed);
  onTestFinished(() => void process.off('unhandledRejection', failed).off('uncaughtException', failed));
  const service = await startTestService(CONFIG);

  await fc.assert(
    fc.asyncProperty(conversation, async ({ calls, change, cut }) => {
      const bytes = Buffer.concat([PREFACE, ...calls.map(framesOf)]);
      if (change !== null) bytes[change.at % bytes.length] = change.to;

      await say(service.port, bytes, cut);

      expect(failures.splice(0)).toEqual([]);
    }),
    { numRuns: 300 },
  );

  expect((await service.ask('/healthcheck')).status).toBe(200);
});
