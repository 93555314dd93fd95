import {
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  status,
  Client,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  type ServiceError,
} from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { REFUSED, startRig, type RigOptions } from './rig.ts';

const same = (value: Buffer): Buffer => value;
const method = {
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
};

/** `Chat` answers each message as it comes, and says goodbye in its trailers; `Ask` answers once; `Fail` does not. */
const service = {
  Chat: { path: '/test.Echo/Chat', requestStream: true, responseStream: true, ...method },
  Ask: { path: '/test.Echo/Ask', requestStream: false, responseStream: false, ...method },
  Fail: { path: '/test.Echo/Fail', requestStream: false, responseStream: false, ...method },
} as const;

async function startEcho(): Promise<string> {
  const server = new Server();
  server.addService(service, {
    Chat: (call: ServerDuplexStream<Buffer, Buffer>) => {
      call.on('data', (message: Buffer) => call.write(Buffer.concat([Buffer.from('echo '), message])));
      call.on('end', () => {
        const trailers = new Metadata();
        trailers.set('goodbye', 'now');
        call.end(trailers);
      });
    },
    Ask: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => answer(null, call.request),
    Fail: (_: unknown, answer: sendUnaryData<Buffer>) =>
      answer({ code: status.NOT_FOUND, details: 'no such thing' }),
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  onTestFinished(() => server.forceShutdown());
  return `http://127.0.0.1:${port}`;
}

async function startClient(options: Omit<RigOptions, 'origin'> = {}) {
  const rig = await startRig({ origin: { url: await startEcho() }, ...options });
  const client = new Client(`127.0.0.1:${rig.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return { rig, client };
}

async function unary(client: Client, path: string, message: Buffer): Promise<Buffer | ServiceError> {
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, same, same, message, (error, answer) =>
      resolve(error ?? answer ?? Buffer.alloc(0)),
    );
  });
}

test('messages go both ways, one by one, and the end comes in trailers', async () => {
  const { rig, client } = await startClient();
  const call = client.makeBidiStreamRequest('/test.Echo/Chat', same, same);
  const answers: string[] = [];

  for (const word of ['one', 'two', 'three']) {
    const answered = new Promise<void>((resolve) =>
      call.once('data', (data: Buffer) => {
        answers.push(data.toString());
        resolve();
      }),
    );
    call.write(Buffer.from(word));
    // The next message is sent only after this one was answered: nothing waits for the end of the body.
    await answered;
  }
  const ended = new Promise<{ code: number; metadata: Metadata }>((resolve) => call.on('status', resolve));
  call.end();
  const { code, metadata } = await ended;

  expect(answers).toEqual(['echo one', 'echo two', 'echo three']);
  expect(code).toBe(status.OK);
  expect(metadata.get('goodbye')).toEqual(['now']);
  expect(rig.asked).toHaveLength(1);
});

test('single calls are answered, many at a time', async () => {
  const { client } = await startClient();

  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, at) => unary(client, '/test.Echo/Ask', Buffer.from(`q${at}`))),
  );

  expect(answers.map(String)).toEqual(answers.map((_, at) => `q${at}`));
});

test('what a server says no with arrives as it was said', async () => {
  const { client } = await startClient();

  expect(await unary(client, '/test.Echo/Fail', Buffer.from('x'))).toMatchObject({
    code: status.NOT_FOUND,
    details: 'no such thing',
  });
});

test('a refusal is RESOURCE_EXHAUSTED, and a server that is not there is UNAVAILABLE', async () => {
  const refused = await startClient({ rule: () => REFUSED });
  const alone = await startClient();
  alone.rig.use({ upstreams: { next: () => undefined, health: () => [], close: async () => undefined } });

  const answer = await unary(refused.client, '/test.Echo/Ask', Buffer.from('x'));
  expect(answer).toMatchObject({
    code: status.RESOURCE_EXHAUSTED,
    details: 'The policy "api" admits this request again in 7 s.',
  });
  expect((answer as ServiceError).metadata.get('retry-after')).toEqual(['7']);
  expect(await unary(alone.client, '/test.Echo/Ask', Buffer.from('x'))).toMatchObject({
    code: status.UNAVAILABLE,
  });
});

test('a call that the client cancels is cancelled behind the gateway too', async () => {
  const { rig, client } = await startClient();
  const call = client.makeBidiStreamRequest('/test.Echo/Chat', same, same);
  call.on('error', () => undefined);
  const answered = new Promise((resolve) => call.once('data', resolve));
  call.write(Buffer.from('hello'));
  await answered;

  call.cancel();

  await expect.poll(() => rig.finished).toMatchObject([{ outcome: 'aborted' }]);
  expect(rig.upstreams.inFlight).toBe(0);
});
