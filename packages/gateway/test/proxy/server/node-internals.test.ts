// What the gateway replaces inside Node.js is there, and is used as it expects. The list is in node-internals.ts.
import { once } from 'node:events';
import { createServer, IncomingMessage, type Server } from 'node:http';
import { createServer as createHttp2Server, connect as connectHttp2 } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import {
  connect,
  createServer as createNetServer,
  type Server as NetServer,
  Socket,
  type AddressInfo,
} from 'node:net';
import { connect as connectSecure, createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { sentBytes, stopReading } from '../../../src/proxy/server/node-internals.ts';
import { createCertificates } from '../../../../../test/redis/certificates.ts';
import { eventually } from '../rig.ts';

const WRITTEN = 40_000_000;

test('an HTTP server serves its connections with one listener', () => {
  expect(createServer().listeners('connection')).toHaveLength(1);
  expect(createHttpsServer().listeners('secureConnection')).toHaveLength(1);
});

test('an HTTP server itself hears that it listens, and closes on both sides unless it is told otherwise', () => {
  const server = createServer();

  expect(server.listeners('listening')).toHaveLength(1);
  expect(server).toHaveProperty('httpAllowHalfOpen', false);
});

test('a socket that is read no more stays so, whatever the server does with it', async () => {
  const received: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((request, response) => {
    received.push(request.url ?? '');
    response.end('ok');
  });
  server.on('connection', (socket: Socket) => sockets.push(socket));
  const client = await connected(server);
  client.write('GET /1 HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(client, 'data');

  const readOn = stopReading(sockets[0] ?? new Socket());
  sockets[0]?.resume();
  sockets[0]?.emit('resume');
  client.write('GET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const whileStopped = [...received];
  readOn();
  await eventually(() => received.length === 2);

  expect(whileStopped).toEqual(['/1']);
});

test('a response that closes its connection does so by destroySoon', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { socket } = request;
    socket.destroySoon = () => {
      asked.push('destroySoon');
      socket.destroy();
    };
    response.setHeader('Connection', 'close').end('ok');
  });
  const client = await connected(server);

  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(client.resume(), 'close');

  expect(asked).toEqual(['destroySoon']);
});

test('what arrives of a body is pushed, in HTTP/1 and in HTTP/2', async () => {
  const pushed: string[] = [];
  class Message extends IncomingMessage {
    override push(chunk: unknown): boolean {
      pushed.push(String(chunk));
      return super.push(chunk);
    }
  }
  const client = await connected(createServer({ IncomingMessage: Message }, (_, response) => response.end()));
  const http2 = createHttp2Server();
  http2.on('stream', (stream) => {
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown) => {
      pushed.push(String(chunk));
      return push(chunk);
    };
    stream.resume();
  });
  const session = connectHttp2(`http://127.0.0.1:${await portOf(http2)}`);
  onTestFinished(() => session.destroy());

  client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none');
  await eventually(() => pushed.includes('one') && pushed.includes('null'));
  session.request({ ':method': 'POST' }).end('two');
  await eventually(() => pushed.includes('two'));

  expect(Object.getOwnPropertyDescriptor(IncomingMessage.prototype, 'headers')).toHaveProperty('get');
});

test.each(['plain', 'TLS'])('how much of one large write has left is known: %s', async (kind) => {
  const { server: certificates } = await createCertificates();
  const sockets: Socket[] = [];
  const accept = (socket: Socket): void => {
    sockets.push(socket.on('error', () => undefined));
    socket.write(Buffer.alloc(WRITTEN));
  };
  const server = kind === 'TLS' ? createTlsServer(certificates, accept) : createNetServer(accept);
  const port = await portOf(server);
  const address = { port, host: '127.0.0.1' };
  const client = kind === 'TLS' ? connectSecure({ ...address, rejectUnauthorized: false }) : connect(address);
  onTestFinished(() => void client.destroy());
  client.pause();
  await eventually(() => sockets.length === 1);
  const sent = (): number => sentBytes(sockets[0] ?? new Socket());
  await eventually(() => sent() > 0);
  const before = sent();

  client.resume();
  await eventually(() => client.bytesRead > WRITTEN / 2);
  client.pause();

  expect(before).toBeLessThan(WRITTEN);
  await eventually(() => sent() >= client.bytesRead);
  expect(sent()).toBeGreaterThan(before);
});

async function connected(server: Server): Promise<Socket> {
  const client = connect({ port: await portOf(server), host: '127.0.0.1' });
  onTestFinished(() => void client.destroy());
  await once(client, 'connect');
  return client;
}

async function portOf(server: NetServer | ReturnType<typeof createHttp2Server>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
