import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type ServerWritableStream,
  type ServiceDefinition,
} from '@grpc/grpc-js';
import type { Dispatcher } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { until } from '../local-server.ts';

const identity = (bytes: Buffer): Buffer => bytes;

function method(name: string, responseStream: boolean) {
  return {
    path: `/test.Echo/${name}`,
    requestStream: false,
    responseStream,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
}

const ECHO: ServiceDefinition = {
  say: method('Say', false),
  count: method('Count', true),
  fail: method('Fail', false),
};
const MESSAGES = 200;
const MESSAGE_BYTES = 4000;

async function grpcServer(): Promise<string> {
  const server = new Server();
  server.addService(ECHO, {
    say: (call: { request: Buffer }, done: (error: null, value: Buffer) => void) => done(null, call.request),
    count: (call: ServerWritableStream<Buffer, Buffer>) => {
      for (let index = 0; index < MESSAGES; index += 1) call.write(Buffer.alloc(MESSAGE_BYTES, index));
      call.end(new Metadata());
    },
    fail: (_call: unknown, done: (error: object) => void) =>
      done({ code: status.NOT_FOUND, details: 'no such thing' }),
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (failure, bound) => {
      if (failure === null) resolve(bound);
      else reject(failure);
    });
  });
  onTestFinished(() => server.forceShutdown());
  return `http://127.0.0.1:${port}`;
}

class Call implements Dispatcher.DispatchHandler {
  headers: unknown;
  trailers: unknown;
  bytes = 0;
  readonly #slow: boolean;

  constructor(slow = false) {
    this.#slow = slow;
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, _status: number, headers: unknown): void {
    this.headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.bytes += chunk.length;
    if (!this.#slow) return;
    controller.pause();
    setTimeout(() => controller.resume(), 1);
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: unknown): void {
    this.trailers = trailers;
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.trailers = error;
  }
}

function frame(message: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(Buffer.byteLength(message), 1);
  return Buffer.concat([head, Buffer.from(message)]);
}

async function callOf(name: string, slow = false): Promise<Call> {
  const origin = await grpcServer();
  const upstreams = createUpstreams(backendOf({ url: origin }), { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  const handler = new Call(slow);
  upstreams.next()?.http2.dispatch(
    {
      path: `/test.Echo/${name}`,
      method: 'POST',
      headers: ['content-type', 'application/grpc', 'te', 'trailers'],
      body: frame('hello'),
    },
    handler,
  );
  await until(() => handler.trailers !== undefined);
  return handler;
}

test('a call to a gRPC server without TLS gets its message and its status', async () => {
  const { bytes, trailers } = await callOf('Say');

  expect(bytes).toBe(frame('hello').length);
  expect(trailers).toMatchObject({ 'grpc-status': '0' });
});

test('a status without a message arrives in trailers, even if the server sent it in headers', async () => {
  const { headers, trailers } = await callOf('Fail');

  expect(trailers).toMatchObject({ 'grpc-status': '5', 'grpc-message': 'no%20such%20thing' });
  expect(headers).toMatchObject({ 'content-type': 'application/grpc+proto' });
  expect(headers).not.toHaveProperty('grpc-status');
});

test('a stream of messages arrives whole before its status, even when it is read slowly', async () => {
  const { bytes, trailers } = await callOf('Count', true);

  expect(bytes).toBe(MESSAGES * (MESSAGE_BYTES + 5));
  expect(trailers).toMatchObject({ 'grpc-status': '0' });
});
