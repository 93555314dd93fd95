// What every server of gRPC offers besides its own services: health and reflection.
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { Client, credentials } from '@grpc/grpc-js';
import { create, fromBinary, toBinary, toJson, type Message } from '@bufbuild/protobuf';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis } from '../../../../test/redis/servers.ts';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { callGrpc } from './rls-client.ts';
import { startTestService } from './running-service.ts';

describe('the health service', () => {
  const check = async (port: number, name: string): Promise<unknown> =>
    callGrpc({
      port,
      method: 'grpc.health.v1.Health/Check',
      input: messageNamed('grpc.health.v1.HealthCheckRequest'),
      output: messageNamed('grpc.health.v1.HealthCheckResponse'),
      fields: { service: name },
    });

  test('serves while a decision can be made', async () => {
    const well = await startTestService('service: {}');
    const ill = await startTestService(`
rate_limit: { failure_policy: failClosed }
redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }
`);

    expect([await check(well.port, ''), await check(well.port, 'ratelimit')]).toEqual([
      { status: 'SERVING' },
      { status: 'SERVING' },
    ]);
    expect(await check(ill.port, '')).toEqual({ status: 'NOT_SERVING' });
    expect(await check(well.port, 'nobody')).toMatch(/^5:/);
  });

  test('has time for callers who wait for ever', async () => {
    const warnings: string[] = [];
    const warn = (warning: Error): unknown => warnings.push(warning.name);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    const { port } = await startTestService('service: {}');
    const session = connect(`http://127.0.0.1:${port}`);
    onTestFinished(() => session.destroy());
    const call = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      'grpc-timeout': '99999999H',
      te: 'trailers',
    });
    const status = new Promise((resolve) => {
      call.once('trailers', (trailers: IncomingHttpHeaders) => resolve(trailers['grpc-status']));
      call.once(
        'response',
        (headers) => headers['grpc-status'] !== undefined && resolve(headers['grpc-status']),
      );
    });
    call.resume().end(Buffer.alloc(5));

    expect(await status).toBe('0');
    // A timer that cannot wait for so long ends at once, and says so.
    expect(warnings).toEqual([]);
  });

  /** What a watcher hears, as it comes. */
  const watch = (port: number, name: string): readonly unknown[] => {
    const input = messageNamed('grpc.health.v1.HealthCheckRequest');
    const output = messageNamed('grpc.health.v1.HealthCheckResponse');
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
    const heard: unknown[] = [];
    const stream = client.makeServerStreamRequest(
      '/grpc.health.v1.Health/Watch',
      (message: Message) => Buffer.from(toBinary(input, message)),
      (bytes: Buffer) => fromBinary(output, bytes),
      create(input, { service: name }),
    );
    stream.on('data', (message: Message) => heard.push(toJson(output, message)));
    stream.on('error', () => undefined);
    onTestFinished(() => {
      stream.cancel();
      client.close();
    });
    return heard;
  };

  test('tells those who watch when that changes, and nothing twice', async () => {
    const redis = await startRedis();
    onTestFinished(async () => redis.stop());
    const { port } = await startTestService(`
rate_limit: { failure_policy: failClosed, deadline: 5s }
redis: { endpoints: ["127.0.0.1:${redis.port}"], dial_timeout: 1s, read_timeout: 5s }
`);
    const heard = watch(port, 'ratelimit');
    const hears = async (...statuses: readonly string[]): Promise<void> => {
      const expected = statuses.map((status) => ({ status }));
      await expect.poll(() => heard, { timeout: PATIENCE_MS }).toEqual(expected);
    };

    await hears('SERVING');
    await redis.kill();
    await hears('SERVING', 'NOT_SERVING');
    await redis.restart();
    await hears('SERVING', 'NOT_SERVING', 'SERVING');
  });

  test('a name that nobody serves is unknown to those who watch it', async () => {
    const { port } = await startTestService('service: {}');
    const heard = watch(port, 'nobody');

    await expect.poll(() => heard, { timeout: PATIENCE_MS }).toEqual([{ status: 'SERVICE_UNKNOWN' }]);
  });
});

test.each(['v1', 'v1alpha'])('reflection %s lists the services and shows their files', async (version) => {
  const service = await startTestService('service: {}');
  const input = messageNamed(`grpc.reflection.${version}.ServerReflectionRequest`);
  const output = messageNamed(`grpc.reflection.${version}.ServerReflectionResponse`);
  const client = new Client(`127.0.0.1:${service.port}`, credentials.createInsecure());
  const stream = client.makeBidiStreamRequest(
    `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    (message: Message) => Buffer.from(toBinary(input, message)),
    (bytes: Buffer) => fromBinary(output, bytes),
  );
  const answers: string[] = [];
  stream.on('data', (message: Message) => answers.push(JSON.stringify(toJson(output, message))));
  const ended = new Promise((resolve) => stream.once('end', resolve));
  for (const messageRequest of [
    { case: 'listServices', value: '' },
    { case: 'fileContainingSymbol', value: 'envoy.service.ratelimit.v3.RateLimitService' },
    { case: 'fileContainingSymbol', value: 'nobody.Knows' },
  ]) {
    stream.write(create(input, { messageRequest }));
  }
  stream.end();
  await ended;
  client.close();

  expect(answers).toHaveLength(3);
  expect(answers[0]).toContain('{"name":"envoy.service.ratelimit.v3.RateLimitService"}');
  expect(answers[1]).toMatch(/"fileDescriptorResponse":\{"fileDescriptorProto":\["\w/);
  expect(answers[2]).toContain('"errorCode":5');
});
