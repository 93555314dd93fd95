import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { politeFetch } from '../../src/client/index.ts';

interface Seen {
  readonly body: string;
  readonly type: string | undefined;
}

/** A real server that refuses every first request, and what it saw. */
async function refusingServer(): Promise<{ readonly url: string; readonly seen: Seen[] }> {
  const seen: Seen[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    seen.push({ body: await text(request), type: request.headers['content-type'] });
    if (seen.length % 2 === 1) response.writeHead(429, { 'Retry-After': '1' });
    response.end('done');
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`, seen };
}

const sleep = async (): Promise<void> => undefined;
const form = new FormData();
form.set('name', 'ann');

test.each([
  ['a string', () => 'hello', 'hello'],
  ['an empty string', () => '', ''],
  ['URLSearchParams', () => new URLSearchParams({ a: 'b' }), 'a=b'],
  ['a Blob', () => new Blob(['hello']), 'hello'],
  ['an ArrayBuffer', () => new TextEncoder().encode('hello').buffer, 'hello'],
  ['bytes', () => new TextEncoder().encode('hello'), 'hello'],
])('%s is sent again', async (_, body, sent) => {
  const { url, seen } = await refusingServer();

  const response = await politeFetch({ sleep })(url, { method: 'POST', body: body() });

  expect(response.status).toBe(200);
  expect(seen.map((each) => each.body)).toEqual([sent, sent]);
  expect(seen[0]?.type).toBe(seen[1]?.type);
});

test('a form is sent again', async () => {
  const { url, seen } = await refusingServer();

  const response = await politeFetch({ sleep })(url, { method: 'POST', body: form });

  expect(response.status).toBe(200);
  expect(seen).toHaveLength(2);
  for (const { body } of seen) expect(body).toContain('ann');
});

test.each([
  ['a web stream', () => new Blob(['hello']).stream()],
  ['a stream of Node.js', () => Readable.from(['hello'])],
  [
    'a generator',
    async function* hello(): AsyncGenerator<Uint8Array> {
      yield new TextEncoder().encode('hello');
    },
  ],
])('%s is sent once: the caller gets the refusal', async (_, body) => {
  const { url, seen } = await refusingServer();
  const init = { method: 'POST', body: body(), duplex: 'half' } as unknown as RequestInit;

  const response = await politeFetch({ sleep })(url, init);

  expect(response.status).toBe(429);
  expect(await response.text()).toBe('done');
  expect(seen.map((each) => each.body)).toEqual(['hello']);
});

test.each([
  ['a string', 'hello', 'text/plain;charset=UTF-8'],
  ['a form', form, undefined],
])('a Request with %s is sent again, as it was', async (_, body, type) => {
  const { url, seen } = await refusingServer();

  const response = await politeFetch({ sleep })(new Request(url, { method: 'POST', body }));

  expect(response.status).toBe(200);
  expect(seen).toHaveLength(2);
  expect(seen[1]).toEqual(seen[0]);
  if (type !== undefined) expect(seen[1]?.type).toBe(type);
});

test('a Request without a body is sent again', async () => {
  const { url, seen } = await refusingServer();

  expect((await politeFetch({ sleep })(new Request(url))).status).toBe(200);
  expect((await politeFetch({ sleep })(new URL(url))).status).toBe(200);
  expect(seen).toHaveLength(4);
});

test('the body of the init replaces that of the Request', async () => {
  const { url, seen } = await refusingServer();

  await politeFetch({ sleep })(new Request(url, { method: 'POST', body: 'a' }), { body: 'b' });

  expect(seen.map(({ body }) => body)).toEqual(['b', 'b']);
});

test('the body of a Request is kept up to a bound, and beyond it sent once', async () => {
  const { url, seen } = await refusingServer();
  const fetch = politeFetch({ sleep, maxBodyBytes: 10 });
  const post = (length: number): Request => new Request(url, { method: 'POST', body: 'x'.repeat(length) });

  expect((await fetch(post(10))).status).toBe(200);
  expect((await fetch(post(11))).status).toBe(429);
  expect((await politeFetch({ sleep, maxBodyBytes: 0 })(post(1))).status).toBe(200); // the second in a row of two
  expect(seen.map(({ body }) => body.length)).toEqual([10, 10, 11, 1]);
});

test('a body of 0 kept bytes is sent once', async () => {
  const { url, seen } = await refusingServer();

  const response = await politeFetch({ sleep, maxBodyBytes: 0 })(
    new Request(url, { method: 'POST', body: 'x' }),
  );

  expect(response.status).toBe(429);
  expect(seen).toHaveLength(1);
});

test('a Request that breaks while it is read fails as fetch does', async () => {
  const { url } = await refusingServer();
  const body = new ReadableStream({
    pull(controller) {
      controller.error(new Error('the disk is gone'));
    },
  });
  const request = new Request(url, { method: 'POST', body, duplex: 'half' });

  await expect(politeFetch({ sleep })(request)).rejects.toThrow(TypeError);
});

test('a Request that was read before is refused by fetch', async () => {
  const { url, seen } = await refusingServer();
  const request = new Request(url, { method: 'POST', body: 'x' });
  await request.text();

  await expect(politeFetch({ sleep })(request)).rejects.toThrow(TypeError);
  expect(seen).toHaveLength(0);
});

test('what is no request is refused by fetch', async () => {
  await expect(politeFetch({ pace: true })('not a url')).rejects.toThrow(TypeError);
});
