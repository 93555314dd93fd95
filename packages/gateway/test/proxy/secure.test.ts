import { once } from 'node:events';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { leave } from './http2-client.ts';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const { server: secureContext } = await createCertificates();
const lax: RequestOptions = { rejectUnauthorized: false, agent: false };

test('with TLS both versions are spoken, as ALPN says', async () => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin, secureContext });

  const [first] = (await once(httpsRequest({ port, ...lax }).end(), 'response')) as [IncomingMessage];
  const session = connectHttp2(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  onTestFinished(async () => leave(session));
  const [second] = (await once(session.request({ ':path': '/' }), 'response')) as [IncomingHttpHeaders];

  expect(first.statusCode).toBe(200);
  expect(second[':status']).toBe(200);
  await eventually(() => finished.length === 2);
  expect(finished.map(({ protocol, scheme }) => [protocol, scheme])).toEqual([
    ['HTTP/1.1', 'https'],
    ['HTTP/2.0', 'https'],
  ]);
  expect(origin.requests.map((request) => request.header('x-forwarded-proto'))).toEqual(['https', 'https']);
});

test('without http2 TLS offers HTTP/1.1 only', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, secureContext, config: { server: { http2: false } } });

  const socket = connect({
    port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    ALPNProtocols: ['h2', 'http/1.1'],
  });
  await once(socket, 'secureConnect');
  onTestFinished(() => void socket.destroy());

  expect(socket.alpnProtocol).toBe('http/1.1');
});

test('headers that do not arrive in time get a 408 over TLS too', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, secureContext, config: { server: { header_timeout: '200ms' } } });
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
  socket.write('GET / HT');

  await once(socket, 'close');

  expect(text).toMatch(/^HTTP\/1\.1 408 /);
});

test('bytes that are not TLS harm nobody', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, secureContext });
  const client = await RawClient.connect(port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.untilClosed();

  const [response] = (await once(httpsRequest({ port, ...lax }).end(), 'response')) as [IncomingMessage];

  expect(response.statusCode).toBe(200);
});

test('a drain closes secure connections', async () => {
  const origin = await startOrigin();
  const { port, proxy, opened } = await startRig({ origin, secureContext });
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  socket.on('error', () => undefined);
  await eventually(() => opened.connections === 1);

  await proxy.drain(5000);

  await eventually(() => socket.destroyed || socket.readableEnded);
  expect(opened.connections).toBe(0);
});

test('another certificate is served from the next connection on, and those that are open go on', async () => {
  const origin = await startOrigin();
  const { port, proxy } = await startRig({ origin, secureContext });
  const { server: renewed } = await createCertificates();
  const options = { port, host: '127.0.0.1', rejectUnauthorized: false };
  const before = connect(options);
  await once(before, 'secureConnect');
  onTestFinished(() => void before.destroy());

  proxy.useSecureContext(renewed);
  const after = connect(options);
  await once(after, 'secureConnect');
  onTestFinished(() => void after.destroy());
  before.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const [answer] = (await once(before, 'data')) as [Buffer];

  expect(after.getPeerCertificate().serialNumber).not.toBe(before.getPeerCertificate().serialNumber);
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
});

test('a handshake that does not end is ended', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, secureContext, config: { server: { header_timeout: '200ms' } } });

  const client = await RawClient.connect(port);
  await client.untilClosed();

  expect(client.text).toBe('');
});
