// Names of hosts that are none: a call with one is answered, and nothing else happens.
import { expect, onTestFinished, test } from 'vitest';
import { END_HEADERS, END_STREAM, frame, FrameClient, hpack, TYPE } from '../proxy/http2-frames.ts';
import { startTestService } from './running-service.ts';

function headers(authority: string | undefined): Buffer {
  return hpack([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', '/grpc.health.v1.Health/Check'],
    ...(authority === undefined ? [] : [[':authority', authority] as const]),
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
  ]);
}

test.each([
  ['none', undefined],
  ['an empty one', ''],
  ['half an address', '['],
  ['a port that is none', 'a:99999'],
  ['a broken escape', '%'],
  ['a path', '/'],
  ['a character that no host has', 'a<b'],
])('a call of gRPC to a host that is none (%s) is answered, and harms nobody', async (_, authority) => {
  const failures: unknown[] = [];
  const failed = (failure: unknown): void => void failures.push(failure);
  process.on('unhandledRejection', failed).on('uncaughtException', failed);
  onTestFinished(() => void process.off('unhandledRejection', failed).off('uncaughtException', failed));
  const service = await startTestService('service: { rls: {} }');
  const client = await FrameClient.connect(service.port);

  client.send(
    frame(TYPE.headers, END_HEADERS, 1, headers(authority)),
    frame(TYPE.data, END_STREAM, 1, Buffer.alloc(5)),
  );
  await expect
    .poll(
      () => failures.length > 0 || (client.find(TYPE.headers, 1) ?? client.find(TYPE.reset, 1)) !== undefined,
    )
    .toBe(true);
  const { status } = await service.ask('/healthcheck');
  const overHttp1 = await service.ask('/grpc.health.v1.Health/Check', {
    method: 'POST',
    headers: { 'content-type': 'application/grpc', host: '[' },
  });

  expect(failures).toEqual([]);
  expect(status).toBe(200);
  expect(overHttp1.headers).toMatchObject({ 'grpc-status': '13' });
  expect(client.find(TYPE.headers, 1)?.payload.toString('latin1')).toContain('The host is');
});
