// One client inside its rate limit must not take every connection to the backend.
import { expect, test } from 'vitest';
import { RawClient, startOrigin, startRig } from './rig.ts';

// Bodies are not held back: each of them takes a connection that it may have.
const config = {
  server: { client_address: { trusted_proxies: ['127.0.0.1'] } },
  backend: { request_buffer_size: 0 },
};

/** Bodies that never end, from one address. */
async function startSlowBodies(port: number, count: number, address: string): Promise<readonly RawClient[]> {
  const clients = await Promise.all(Array.from({ length: count }, async () => RawClient.connect(port)));
  for (const client of clients) {
    client.send(
      `POST /slow HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${address}\r\nContent-Length: 100\r\n\r\nx`,
    );
  }
  return clients;
}

async function get(port: number, address: string): Promise<RawClient> {
  const client = await RawClient.connect(port);
  client.send(`GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${address}\r\n\r\n`);
  return client.until(({ statuses }) => statuses.length === 1);
}

test('slow bodies of one address leave half of the backend connections to others', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, config, maxConnections: 4 });

  await startSlowBodies(port, 20, '203.0.113.1');
  await expect.poll(() => origin.requests.length).toBe(2);
  const others = await Promise.all(
    ['203.0.113.2', '203.0.113.3', '203.0.113.4'].map((address) => get(port, address)),
  );

  expect(others.map(({ statuses }) => statuses)).toEqual([[200], [200], [200]]);
  expect(origin.requests.filter(({ url }) => url === '/slow')).toHaveLength(2);
});

test('a client that leaves gives its connections back', async () => {
  const origin = await startOrigin();
  const { port, upstreams } = await startRig({ origin, config, maxConnections: 2 });
  const slow = await startSlowBodies(port, 3, '203.0.113.1');
  await expect.poll(() => origin.requests.length).toBe(1);

  for (const { socket } of slow) socket.destroy();

  expect((await get(port, '203.0.113.1')).statuses).toEqual([200]);
  await expect.poll(() => upstreams.inFlight).toBe(0);
});
