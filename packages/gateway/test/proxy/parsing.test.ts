// Hostile bytes: the backend sees exactly one well-formed request per admission, or the client gets a 4xx.
import { expect, test } from 'vitest';
import { exchange, startOrigin, startRig, type RigOptions } from './rig.ts';

interface Case {
  readonly name: string;
  readonly bytes: string;
  /** Statuses that are right; a connection that closes without a word is not. */
  readonly status: readonly number[];
  readonly config?: RigOptions['config'];
}

const HEAD = 'POST /x HTTP/1.1\r\nHost: a\r\n';
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';

const get = (headers: string): string => `GET /x HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;
const post = (headers: string, body: string): string => `${HEAD}${headers}\r\n${body}`;
const chunked = (body: string): string => post('Transfer-Encoding: chunked\r\n', body);

const REFUSED: readonly Case[] = [
  // Two ends of one body.
  {
    name: 'Content-Length with Transfer-Encoding',
    bytes: post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${SMUGGLED}`),
    status: [400],
  },
  {
    name: 'Transfer-Encoding with Content-Length',
    bytes: post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${SMUGGLED}`),
    status: [400],
  },
  {
    name: 'two different lengths',
    bytes: post('Content-Length: 5\r\nContent-Length: 6\r\n', 'hello!'),
    status: [400],
  },
  ...['5, 5', '+5', '0x5', '5_0', '-1', '', '9'.repeat(30), '5 5', '5;', '٥'].map((length) => ({
    name: `Content-Length: "${length}"`,
    bytes: post(`Content-Length: ${length}\r\n`, 'hello'),
    status: [400],
  })),
  ...[
    'chunked, identity',
    'xchunked',
    ',chunked',
    'chunked\x0b',
    'identity',
    'gzip, chunked',
    'chunked;q=1',
    'chunked, chunked',
    '',
  ].map((encoding) => ({
    name: `Transfer-Encoding: ${JSON.stringify(encoding)}`,
    bytes: post(`Transfer-Encoding: ${encoding}\r\n`, `0\r\n\r\n${SMUGGLED}`),
    status: [400, 501],
  })),
  {
    name: 'two lines of Transfer-Encoding',
    bytes: post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', `0\r\n\r\n${SMUGGLED}`),
    status: [400, 501],
  },
  {
    name: 'Transfer-Encoding in HTTP/1.0',
    bytes: `POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    status: [400],
  },
  // Line ends and header lines.
  { name: 'bare LF after the request line', bytes: 'GET /x HTTP/1.1\nHost: a\r\n\r\n', status: [400] },
  { name: 'bare LF after a header', bytes: 'GET /x HTTP/1.1\r\nHost: a\nX: b\r\n\r\n', status: [400] },
  { name: 'bare LF at the end', bytes: 'GET /x HTTP/1.1\r\nHost: a\r\n\n', status: [400] },
  { name: 'bare CR in a value', bytes: get('X: a\rb\r\n'), status: [400] },
  { name: 'CR as a line end', bytes: 'GET /x HTTP/1.1\r\nHost: a\rX: b\r\n\r\n', status: [400] },
  { name: 'NUL in a value', bytes: get('X: a\0b\r\n'), status: [400] },
  { name: 'a control character in a value', bytes: get('X: a\x01b\r\n'), status: [400] },
  { name: 'a folded line', bytes: get('X: a\r\n b\r\n'), status: [400] },
  { name: 'a folded line with a tab', bytes: get('X: a\r\n\tb\r\n'), status: [400] },
  {
    name: 'a fold before the first header',
    bytes: 'GET /x HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n',
    status: [400],
  },
  { name: 'a space before the colon', bytes: get('X : a\r\n'), status: [400] },
  { name: 'a tab before the colon', bytes: get('X\t: a\r\n'), status: [400] },
  { name: 'no name', bytes: get(': a\r\n'), status: [400] },
  { name: 'no colon', bytes: get('X\r\n'), status: [400] },
  { name: 'a name with an underscore', bytes: get('X_Forwarded_For: 1.1.1.1\r\n'), status: [400] },
  { name: 'a name with a space', bytes: get('X Y: a\r\n'), status: [400] },
  { name: 'a name outside of ASCII', bytes: get('X\xe9: a\r\n'), status: [400] },
  // Chunks.
  ...['0x2', '2_', '+2', ' 2', '12345678901234567', '', 'g', '-2', '2 '].map((size) => ({
    name: `chunk size "${size}"`,
    bytes: chunked(`${size}\r\nab\r\n0\r\n\r\n`),
    status: [400],
  })),
  { name: 'a chunk without its CRLF', bytes: chunked('2\r\nabcd\r\n0\r\n\r\n'), status: [400] },
  { name: 'a chunk ended by LF', bytes: chunked('2\nab\r\n0\r\n\r\n'), status: [400] },
  { name: 'a body that ends in CR CR', bytes: chunked('2\r\nab\r\n0\r\n\r\r\n'), status: [400] },
  { name: 'a chunk size ended by CR alone', bytes: chunked('2\rXab\r\n0\r\n\r\n'), status: [400] },
  { name: 'a chunk extension with a CR in it', bytes: chunked('2;\rx\r\nab\r\n0\r\n\r\n'), status: [400] },
  {
    name: 'a chunk extension of 20 KiB',
    bytes: chunked(`2;${'x'.repeat(20_480)}\r\nab\r\n0\r\n\r\n`),
    status: [400, 413],
  },
  // Sizes.
  {
    name: '1,100 small headers',
    bytes: get(Array.from({ length: 1100 }, (_, at) => `A${at}: 1\r\n`).join('')),
    status: [431],
  },
  {
    name: 'one header more than allowed',
    bytes: get(Array.from({ length: 100 }, (_, at) => `A${at}: 1\r\n`).join('')),
    status: [431],
  },
  { name: 'headers of more than 16 KiB', bytes: get(`X: ${'a'.repeat(16_384)}\r\n`), status: [431] },
  { name: 'headers of 200 KiB', bytes: get(`X: ${'a'.repeat(204_800)}\r\n`), status: [431] },
  {
    name: 'a target of 64 KiB',
    bytes: `GET /${'a'.repeat(65_536)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    status: [414],
  },
  {
    name: 'a target one byte too long',
    bytes: `GET /${'a'.repeat(8192)} HTTP/1.1\r\nHost: a\r\n\r\n`,
    status: [414],
  },
  {
    name: 'a declared body that is too large',
    bytes: post('Content-Length: 1001\r\n', ''),
    status: [413],
    config: { backend: { max_request_body_size: 1000 } },
  },
  // Hosts and targets.
  { name: 'no Host', bytes: 'GET /x HTTP/1.1\r\n\r\n', status: [400] },
  { name: 'two Hosts', bytes: 'GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', status: [400] },
  ...['a@b', 'a/b', 'a b', 'a,b', '', 'a:b', 'a:65536', 'a:99999', 'a:123456', '[::1', 'a?b', 'a#b', 'é'].map(
    (host) => ({
      name: `Host: "${host}"`,
      bytes: `GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      status: [400],
    }),
  ),
  {
    name: 'an absolute target with userinfo',
    bytes: 'GET http://u@b/ HTTP/1.1\r\nHost: b\r\n\r\n',
    status: [400],
  },
  {
    name: 'an absolute target of another scheme',
    bytes: 'GET ftp://b/ HTTP/1.1\r\nHost: b\r\n\r\n',
    status: [400],
  },
  {
    name: 'an absolute target with a bad Host',
    bytes: 'GET http://b/ HTTP/1.1\r\nHost: a@b\r\n\r\n',
    status: [400],
  },
  { name: 'GET *', bytes: 'GET * HTTP/1.1\r\nHost: a\r\n\r\n', status: [400] },
  { name: 'OPTIONS *', bytes: 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', status: [400] },
  { name: 'CONNECT', bytes: 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', status: [405] },
  { name: 'TRACE', bytes: 'TRACE /x HTTP/1.1\r\nHost: a\r\n\r\n', status: [405] },
  {
    name: 'PRI without the rest of the preface',
    bytes: 'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n',
    status: [400, 505],
  },
  {
    name: 'a method of 64 letters',
    bytes: `${'A'.repeat(64)} /x HTTP/1.1\r\nHost: a\r\n\r\n`,
    status: [400],
  },
  { name: 'a method in small letters', bytes: 'get /x HTTP/1.1\r\nHost: a\r\n\r\n', status: [400] },
  { name: 'HTTP/0.9', bytes: 'GET /x\r\n\r\n', status: [400] },
  { name: 'HTTP/1.2', bytes: 'GET /x HTTP/1.2\r\nHost: a\r\n\r\n', status: [400, 505] },
  { name: 'HTTP/3.0', bytes: 'GET /x HTTP/3.0\r\nHost: a\r\n\r\n', status: [400, 505] },
  { name: 'a space in the target', bytes: 'GET /x y HTTP/1.1\r\nHost: a\r\n\r\n', status: [400] },
  {
    name: 'a length in the trailers',
    bytes: chunked('1\r\na\r\n0\r\nContent-Length: 9\r\n\r\n'),
    status: [400],
  },
  { name: 'bytes of TLS', bytes: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', status: [400] },
  { name: 'an expectation that nobody knows', bytes: get('Expect: the-impossible\r\n'), status: [417] },
  ...[
    '/a/../../b',
    '/%2e%2e/b',
    '/a%2Fb',
    '/a%5cb',
    '/a\\b',
    '/a%00b',
    '/a%0db',
    '/a%7fb',
    '/a%zz',
    '/a%',
    '/a%4',
    '/a#b',
    '/a\xe9',
    '/a?b\xe9',
    '/a?b#c',
  ].map((path) => ({
    name: `target ${JSON.stringify(path)}`,
    bytes: `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`,
    status: [400],
  })),
];

test.each(REFUSED)('$name gets a 4xx, and nothing reaches the backend', async ({ bytes, status, config }) => {
  const origin = await startOrigin();
  const rig = await startRig({ origin, config });

  const client = await exchange(rig.port, bytes);
  await client.untilClosed();

  expect(status).toContain(client.statuses[0]);
  expect(client.statuses).toHaveLength(1);
  expect(client.text).toMatch(/^Connection: close\r$/im);
  expect(client.text).toMatch(/"code":"[A-Z_]+","requestId":"[^"]+"/);
  // A body may be found out to be wrong after its request was admitted; the backend never gets it whole.
  expect(origin.requests.filter(({ complete }) => complete)).toEqual([]);
  expect(origin.requests.length).toBeLessThanOrEqual(rig.asked.length);
  expect(rig.finished).toHaveLength(1);
});

interface Passing {
  readonly name: string;
  readonly bytes: string;
  readonly url?: string;
  readonly method?: string;
  readonly body?: string;
}

const PASSING: readonly Passing[] = [
  {
    name: 'chunks become chunks, without their extensions',
    bytes: chunked('2;a=b\r\nab\r\n1\r\nc\r\n0\r\n\r\n'),
    method: 'POST',
    body: 'abc',
  },
  {
    name: 'Transfer-Encoding in capitals',
    bytes: post('Transfer-Encoding: CHUNKED\r\n', '1\r\na\r\n0\r\n\r\n'),
    method: 'POST',
    body: 'a',
  },
  { name: 'a GET with a body', bytes: get('Content-Length: 5\r\n').concat('hello'), body: 'hello' },
  {
    name: 'a body with a request in it',
    bytes: post(`Content-Length: ${SMUGGLED.length}\r\n`, SMUGGLED),
    method: 'POST',
    body: SMUGGLED,
  },
  {
    name: 'Connection naming Content-Length',
    bytes: post('Connection: Content-Length, Host\r\nContent-Length: 2\r\n', 'ab'),
    method: 'POST',
    body: 'ab',
  },
  {
    name: 'an absolute target to the cloud',
    bytes: 'GET http://169.254.169.254/latest HTTP/1.1\r\nHost: a\r\n\r\n',
    url: '/latest',
  },
  {
    name: '1,000 ranges',
    bytes: get(`Range: bytes=${Array.from({ length: 1000 }, (_, at) => `${at}-${at}`).join(',')}\r\n`),
  },
  { name: 'a method of WebDAV', bytes: 'PROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n', method: 'PROPFIND' },
  { name: 'two spaces before the version', bytes: 'GET /x  HTTP/1.1\r\nHost: a\r\n\r\n' },
  { name: 'HTTP/1.0', bytes: 'GET /x HTTP/1.0\r\nHost: a\r\n\r\n' },
  { name: 'HTTP/1.0 without a Host', bytes: 'GET /x HTTP/1.0\r\n\r\n' },
  ...['a:65535', 'a:60000', 'a:00080', 'a:7', '[::1]:443'].map((host) => ({
    name: `Host: ${host}`,
    bytes: `GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  })),
  {
    name: 'a chunk size with zeros before it',
    bytes: chunked(`${'0'.repeat(16)}2\r\nab\r\n0\r\n\r\n`),
    method: 'POST',
    body: 'ab',
  },
  {
    name: 'a query that looks like a path',
    bytes: 'GET /x?../..//%2f\\ HTTP/1.1\r\nHost: a\r\n\r\n',
    url: '/x?../..//%2f\\',
  },
];

test.each(PASSING)(
  '$name: the backend sees one request',
  async ({ bytes, url = '/x', method = 'GET', body = '' }) => {
    const origin = await startOrigin();
    const rig = await startRig({ origin });

    const client = await exchange(rig.port, bytes);

    expect(client.statuses).toEqual([200]);
    expect(origin.requests).toMatchObject([{ method, url, body, complete: true }]);
    expect(rig.asked).toHaveLength(1);
  },
);

test('an absolute target names the host, whatever Host says', async () => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin });

  await exchange(port, 'GET http://Inside.Example:81/x HTTP/1.1\r\nHost: outside\r\n\r\n');

  expect(origin.requests[0]?.header('host')).toBe('Inside.Example:81');
  expect(origin.requests[0]?.header('x-forwarded-host')).toBe('Inside.Example:81');
  expect(asked[0]?.host).toBe('inside.example');
});

test('a request of HTTP/1.0 without a Host has none: no rule by host matches, and the backend gets its own', async () => {
  const origin = await startOrigin();
  const config = { backend: { forwarded_headers: ['x-forwarded', 'forwarded'] } };
  const { port, asked } = await startRig({ origin, config });

  await exchange(port, 'GET /x HTTP/1.0\r\n\r\n');
  await exchange(port, 'GET http://b/x HTTP/1.0\r\n\r\n');

  expect(asked.map(({ host }) => host)).toEqual(['', 'b']);
  expect(origin.requests.map((request) => request.header('host'))).toEqual([`127.0.0.1:${origin.port}`, 'b']);
  expect(origin.requests.map((request) => request.header('x-forwarded-host'))).toEqual([undefined, 'b']);
  expect(origin.requests.map((request) => request.header('forwarded'))).toEqual([
    'for=127.0.0.1;proto=http',
    'for=127.0.0.1;host="b";proto=http',
  ]);
});

test.each(['HTTP/1.0', 'HTTP/1.1'])('a Host that is empty is none in %s', async (version) => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });

  const client = await exchange(port, `GET /x ${version}\r\nHost:\r\n\r\n`);

  expect(client.statuses).toEqual([400]);
  expect(origin.requests).toEqual([]);
});

test('trailers of a request are dropped, and never become headers', async () => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin });
  const trailers = 'Host: evil\r\nX-Tenant-Id: evil\r\n';

  const client = await exchange(port, chunked(`1\r\na\r\n0\r\n${trailers}\r\n`));

  expect(client.statuses).toEqual([200]);
  expect(origin.requests).toHaveLength(1);
  expect(JSON.stringify(origin.requests[0]?.rawHeaders)).not.toContain('evil');
  expect(asked[0]?.headers.lines('x-tenant-id')).toEqual([]);
});

test.each([
  ['without a body', 'GET', get, ''],
  ['with a body', 'POST', (headers: string) => post(`${headers}Content-Length: 2\r\n`, 'ab'), 'ab'],
] as const)('an offer of h2c %s is ignored', async (_, method, make, body) => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });

  const client = await exchange(
    port,
    make('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n') + SMUGGLED,
  );

  expect(client.statuses[0]).toBe(200);
  expect(origin.requests[0]).toMatchObject({ method, body, url: '/x' });
  const names = origin.requests[0]?.rawHeaders.map((text) => text.toLowerCase());
  expect(names).not.toContain('upgrade');
  expect(names).not.toContain('http2-settings');
});

test('bytes that are no request are answered when they follow one that is', async () => {
  const origin = await startOrigin();
  const { port, asked } = await startRig({ origin });

  const client = await exchange(port, get(''), 1);
  client.send('BLAH\r\n\r\n');
  await client.untilClosed();

  expect(client.statuses).toEqual([200, 400]);
  expect(asked).toHaveLength(1);
});
