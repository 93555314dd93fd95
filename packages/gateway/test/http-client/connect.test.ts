// Connections to servers: sessions, deadlines, and who may be dialled.
import { createServer } from 'node:net';
import { createServer as createSecureServer, type TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { createConnector, targetOf, type ConnectorOptions } from '../../src/http-client/connect.ts';
import { listen } from '../proxy/local-server.ts';

const OPTIONS: ConnectorOptions = { tls: {}, timeoutMs: 5000, http2: false };

test('a second connection resumes the TLS session of the first, and is verified by the same name', async () => {
  const { ca, server: material } = await createCertificates();
  const server = createSecureServer(material, (socket) => socket.end('hello'));
  const { port } = await listen(server);
  const connect = createConnector(targetOf(`https://localhost:${port}`), { ...OPTIONS, tls: { ca } });

  const reused: boolean[] = [];
  for (let turn = 0; turn < 3; turn += 1) {
    const socket = (await connect()) as TLSSocket;
    reused.push(socket.isSessionReused());
    expect(socket.authorized).toBe(true);
    // The session of TLS 1.3 comes after the handshake, with the first bytes.
    await socket.toArray();
  }

  expect(reused).toEqual([false, true, true]);
});

test('a server that never finishes the handshake is a timeout, and its connection is closed', async () => {
  const server = await listen(createServer((socket) => socket.resume()));
  const connect = createConnector(targetOf(`https://127.0.0.1:${server.port}`), {
    ...OPTIONS,
    timeoutMs: 50,
  });

  await expect(connect()).rejects.toMatchObject({ code: 'CONNECT_TIMEOUT' });
  await expect.poll(() => server.sockets.size).toBe(0);
});

test('a server that hangs up during the handshake is an error, not a wait', async () => {
  const { port } = await listen(createServer((socket) => socket.end()));
  const connect = createConnector(targetOf(`https://127.0.0.1:${port}`), OPTIONS);

  await expect(connect()).rejects.toBeInstanceOf(Error);
});

test.each([
  ['http://api.example', { secure: false, host: 'api.example', hostname: 'api.example', port: 80 }],
  ['https://api.example', { secure: true, host: 'api.example', hostname: 'api.example', port: 443 }],
  [
    'https://[2001:db8::1]:8443',
    { secure: true, host: '[2001:db8::1]:8443', hostname: '2001:db8::1', port: 8443 },
  ],
])('%s is dialled as it says', (origin, target) => {
  expect(targetOf(origin)).toEqual(target);
});
