import { expect, test } from 'vitest';
import { exchange, RawClient, REFUSED, startOrigin, startRig } from './rig.ts';

test('an admitted request reaches the backend, and its answer the client', async () => {
  const origin = await startOrigin((incoming, response) => {
    incoming.resume();
    incoming.on('end', () => {
      response.writeHead(201, ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Kind', 'test']);
      response.end('created');
    });
  });
  const { url, finished } = await startRig({ origin });

  const response = await fetch(`${url}/things/1?q=a`, { method: 'POST', body: 'hello' });

  expect(response.status).toBe(201);
  expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  expect(await response.text()).toBe('created');
  expect(origin.requests).toMatchObject([{ method: 'POST', url: '/things/1?q=a', body: 'hello' }]);
  expect(finished).toMatchObject([
    { outcome: 'forwarded', status: 201, path: '/things/1', bytesReceived: 5, bytesSent: 7 },
  ]);
});

test('a refused request ends at the gateway, and the connection goes on', async () => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin, rule: () => REFUSED });

  const client = await exchange(
    port,
    'GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n',
    3,
  );

  expect(client.statuses).toEqual([429, 429, 429]);
  expect(client.text).toContain('Retry-After: 7');
  expect(client.text).toContain('application/problem+json');
  expect(origin.requests).toEqual([]);
  expect(finished.map(({ outcome }) => outcome)).toEqual(['refused', 'refused', 'refused']);
});

test('requests of one connection are answered in order, one after the other', async () => {
  let underWay = 0;
  let most = 0;
  const origin = await startOrigin((incoming, response) => {
    underWay += 1;
    most = Math.max(most, underWay);
    setTimeout(
      () => {
        underWay -= 1;
        response.end(`[${incoming.url}]`);
      },
      incoming.url === '/0' ? 30 : 1,
    );
  });
  const { port, asked } = await startRig({ origin });
  const all = Array.from({ length: 100 }, (_, at) => `GET /${at} HTTP/1.1\r\nHost: a\r\n\r\n`).join('');

  const client = await exchange(port, all, 100);
  await client.until(({ text }) => text.includes('[/99]'));

  expect([...client.text.matchAll(/\[\/(\d+)\]/g)].map((match) => Number(match[1]))).toEqual(
    Array.from({ length: 100 }, (_, at) => at),
  );
  expect(asked).toHaveLength(100);
  expect(most).toBe(1);
});

test('a client that closed its sending side is answered', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await RawClient.connect(port, true);

  client.socket.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n');

  await client.until(({ text }) => text.endsWith('ok'));
  expect(client.statuses).toEqual([200]);
});

test.each([
  ['refuse', 400, []],
  ['keep', 200, ['/group%2Fname']],
] as const)('encoded slashes: %s', async (encoded_slashes, status, forwarded) => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin, config: { server: { encoded_slashes } } });

  const client = await exchange(port, 'GET /a/../group%2fname HTTP/1.1\r\nHost: a\r\n\r\n');

  expect(client.statuses).toEqual([status]);
  expect(origin.requests.map(({ url }) => url)).toEqual(forwarded);
  expect(asked.map(({ path, otherPath }) => [path, otherPath])).toEqual(
    forwarded.map((path) => [path, '/group/name']),
  );
});
