import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type ServerWritableStream,
  type ServiceDefinition,
} from '@grpc/grpc-js';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { Asker, http2PoolTo, send } from './asking.ts';

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

/** Takes a pause after each piece. */
class SlowCaller extends Asker {
  override onData(chunk: Buffer): boolean {
    super.onData(chunk);
    setTimeout(() => this.control?.resume(), 1);
    return false;
  }
}

function frame(message: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(Buffer.byteLength(message), 1);
  return Buffer.concat([head, Buffer.from(message)]);
}

async function callOf(name: string, asker = new Asker()): Promise<Asker> {
  const pool = http2PoolTo(await grpcServer());
  const request = {
    path: `/test.Echo/${name}`,
    method: 'POST',
    headers: ['content-type', 'application/grpc', 'te', 'trailers'],
    body: Readable.from([frame('hello')]),
  };
  return send(pool, request, asker).done;
}

function fieldsOf(lines: readonly string[]): Record<string, string> {
  const pairs = lines.flatMap((name, at) => (at % 2 === 0 ? [[name, lines[at + 1] ?? ''] as const] : []));
  return Object.fromEntries(pairs);
}

test('a call to a gRPC server without TLS gets its message and its status', async () => {
  const { bytes, trailers } = await callOf('Say');

  expect(bytes).toBe(frame('hello').length);
  expect(fieldsOf(trailers)).toMatchObject({ 'grpc-status': '0' });
});

test('a status without a message arrives in trailers, even if the server sent it in headers', async () => {
  const { headers, trailers } = await callOf('Fail');

  expect(fieldsOf(trailers)).toMatchObject({ 'grpc-status': '5', 'grpc-message': 'no%20such%20thing' });
  expect(fieldsOf(headers)).toMatchObject({ 'content-type': 'application/grpc+proto' });
  expect(fieldsOf(headers)).not.toHaveProperty('grpc-status');
});

test('a stream of messages arrives whole before its status, even when it is read slowly', async () => {
  const { bytes, trailers } = await callOf('Count', new SlowCaller());

  expect(bytes).toBe(MESSAGES * (MESSAGE_BYTES + 5));
  expect(fieldsOf(trailers)).toMatchObject({ 'grpc-status': '0' });
});
