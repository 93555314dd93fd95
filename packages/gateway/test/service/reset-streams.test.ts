// Callers that reset a call of gRPC while it is answered.
import { expect, onTestFinished, test } from 'vitest';
import { END_HEADERS, END_STREAM, frame, hpack, TYPE } from '../proxy/http2-frames.ts';
import { RawClient } from '../proxy/rig.ts';
import { startTestService } from './running-service.ts';

const HEADERS = hpack([
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'],
  [':authority', 'a'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
]);
const NO_MESSAGE = Buffer.from('bad');
const EMPTY_MESSAGE = Buffer.alloc(5);

function call(stream: number, body: Buffer, code: number): Buffer {
  const reason = Buffer.alloc(4);
  reason.writeUInt32BE(code);
  return Buffer.concat([
    frame(TYPE.headers, END_HEADERS, stream, HEADERS),
    frame(TYPE.data, END_STREAM, stream, body),
    frame(TYPE.reset, 0, stream, reason),
  ]);
}

test.each([
  ['without a token', 'service: { rls: {} }'],
  ['where a token is wanted', 'service: { token: correct-horse-battery, rls: {} }'],
])('a call that is reset with any code, %s, ends itself and nothing else', async (_, yaml) => {
  const failures: unknown[] = [];
  const failed = (failure: unknown): void => void failures.push(failure);
  process.on('unhandledRejection', failed).on('uncaughtException', failed);
  onTestFinished(() => void process.off('unhandledRejection', failed).off('uncaughtException', failed));
  const service = await startTestService(yaml);
  const client = await RawClient.connect(service.port);
  const calls = [NO_MESSAGE, EMPTY_MESSAGE].flatMap((body) => [0, 2, 8].map((code) => ({ body, code })));

  client.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  client.socket.write(frame(TYPE.settings, 0, 0));
  for (const [at, { body, code }] of calls.entries()) client.socket.write(call(2 * at + 1, body, code));
  client.socket.write(frame(TYPE.ping, 0, 0, Buffer.from('12345678')));
  await client.until(({ text, closed }) => closed || text.includes('12345678'));
  const { status } = await service.ask('/healthcheck');

  expect(failures).toEqual([]);
  expect(status).toBe(200);
});
