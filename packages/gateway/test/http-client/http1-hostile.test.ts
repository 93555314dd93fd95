// Servers that break the rules of HTTP/1.1: their answers are refused, their connections end, and nobody else gets a
// byte of them.
import { expect, test } from 'vitest';
import { startRawOrigin } from '../proxy/raw-origin.ts';
import { eventually } from '../proxy/rig.ts';
import { ask, poolTo, send } from './asking.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;
const GOOD = `${OK}Content-Length: 4\r\n\r\ngood`;

/** The first request of each connection gets the bytes, if it is the first of all; all others get a good answer. */
async function startHostile(bytes: string, close = false) {
  let asked = 0;
  return startRawOrigin((socket, text) => {
    if (!text.endsWith('\r\n\r\n')) return;
    asked += 1;
    socket.write(asked === 1 ? bytes : GOOD, 'latin1');
    if (asked === 1 && close) socket.end();
  });
}

test.each([
  ['not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['HTTP/0.9', '<html>hello</html>'],
  ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
  ['HTTP/1.2', 'HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a lower case version', 'http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['an empty line first', `\r\n${GOOD}`],
  ['no status', 'HTTP/1.1 \r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status below 100', 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n'],
  ['two spaces before the status', 'HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a tab before the status', 'HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['NUL in the reason', 'HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n'],
  ['bare line feeds', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
  ['one bare line feed', `${OK}A: b\nContent-Length: 0\r\n\r\n`],
  ['a bare line feed as the last line', `${OK}Content-Length: 0\r\n\n`],
  ['a bare CR in a value', `${OK}A: b\rc\r\nContent-Length: 0\r\n\r\n`],
  ['CR CR LF', `${OK}A: b\r\r\nContent-Length: 0\r\n\r\n`],
  ['NUL in a value', `${OK}A: b\0c\r\nContent-Length: 0\r\n\r\n`],
  ['DEL in a value', `${OK}A: b\x7fc\r\nContent-Length: 0\r\n\r\n`],
  ['an escape in a value', `${OK}A: \x1b[31m\r\nContent-Length: 0\r\n\r\n`],
  ['NUL in a name', `${OK}A\0: b\r\nContent-Length: 0\r\n\r\n`],
  ['a name that is not ASCII', `${OK}\xc4: b\r\nContent-Length: 0\r\n\r\n`],
  ['a folded line', `${OK}A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
  ['a fold by tab', `${OK}A: b\r\n\tc\r\nContent-Length: 0\r\n\r\n`],
  ['a fold as the first line', `${OK} A: b\r\nContent-Length: 0\r\n\r\n`],
  ['a space before the colon', `${OK}Content-Length : 0\r\n\r\n`],
  ['no name', `${OK}: b\r\nContent-Length: 0\r\n\r\n`],
  ['no colon', `${OK}A\r\nContent-Length: 0\r\n\r\n`],
  ['two lengths', `${OK}Content-Length: 4\r\nContent-Length: 5\r\n\r\ngood!`],
  ['the same length twice', `${OK}Content-Length: 4\r\ncontent-length: 4\r\n\r\ngood`],
  ['a list of lengths', `${OK}Content-Length: 4, 4\r\n\r\ngood`],
  ['an empty length', `${OK}Content-Length:\r\n\r\n`],
  ['a length with a sign', `${OK}Content-Length: +4\r\n\r\ngood`],
  ['a negative length', `${OK}Content-Length: -4\r\n\r\ngood`],
  ['a hexadecimal length', `${OK}Content-Length: 0x4\r\n\r\ngood`],
  ['a length with a fraction', `${OK}Content-Length: 4.0\r\n\r\ngood`],
  ['a length in e-notation', `${OK}Content-Length: 4e0\r\n\r\ngood`],
  ['a length beyond exact numbers', `${OK}Content-Length: 9999999999999999\r\n\r\n`],
  ['a tab behind the length', `${OK}Content-Length: 4\t\r\n\r\ngood`],
  ['a tab behind the coding', `${OK}Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n`],
  ['a length and chunks', `${OK}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks and a length', `${OK}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`],
  ['another coding', `${OK}Transfer-Encoding: gzip\r\n\r\nx`],
  ['two codings', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['chunks twice', `${OK}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  ['two lines of codings', `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['identity', `${OK}Transfer-Encoding: identity\r\n\r\nx`],
  ['an empty coding', `${OK}Transfer-Encoding:\r\n\r\nx`],
  ['a coding that looks like chunked', `${OK}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n`],
  ['a coding in quotes', `${OK}Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n`],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['1xx in HTTP/1.0', `HTTP/1.0 103 Early Hints\r\n\r\n${GOOD}`],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'],
  ['1xx with a length', `HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n${GOOD}`],
  ['1xx with chunks', `HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n${GOOD}`],
  ['a 204 with a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\ngood'],
  ['33 responses before the answer', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(33)],
  ['501 header lines', `${OK}${'A:\r\n'.repeat(500)}Content-Length: 0\r\n\r\n`],
  ['headers of more than 16 KiB', `${OK}A: ${'x'.repeat(16_384)}\r\n\r\n`],
  ['headers without end', `${OK}A: ${'x'.repeat(20_000)}`],
])('a response with %s is refused before anybody hears of it', async (_, bytes) => {
  const origin = await startHostile(bytes);
  const pool = poolTo(origin.url, { maxConnections: 1 });

  const refused = await ask(pool);
  const next = await ask(pool);

  expect(refused.error).toMatchObject({ code: 'BAD_RESPONSE' });
  expect(refused).toMatchObject({ status: 0, body: '', complete: false, ends: 1 });
  expect(next).toMatchObject({ status: 200, body: 'good', complete: true });
  expect(origin.received).toHaveLength(2);
});

test.each([
  ['no size', '\r\nhello\r\n'],
  ['a size with 0x', '0x5\r\nhello\r\n'],
  ['a size with a sign', '+5\r\nhello\r\n'],
  ['a negative size', '-5\r\nhello\r\n'],
  ['a space before the size', ' 5\r\nhello\r\n'],
  ['a space behind the size', '5 \r\nhello\r\n'],
  ['a size that is no number', 'g\r\nhello\r\n'],
  ['a size with a dot', '5.0\r\nhello\r\n'],
  ['a size with an underscore', '5_0\r\nhello\r\n'],
  ['a size of 14 digits', '00000000000005\r\nhello\r\n'],
  ['a size that wraps around', '10000000000000005\r\nhello\r\n'],
  ['a bare line feed behind the size', '5\nhello\r\n'],
  ['CR without LF behind the size', '5\rhello\r\n'],
  ['CR CR LF behind the size', '5\r\r\nhello\r\n'],
  ['more bytes than its size', '5\r\nhello!\r\n'],
  ['fewer bytes than its size', '5\r\nhell\r\n0\r\n\r\n'],
  ['a bare line feed behind its bytes', '5\r\nhello\n'],
  ['a line feed in an extension', '5;a\nb\r\nhello\r\n'],
  ['NUL in an extension', '5;a\0\r\nhello\r\n'],
  ['an empty extension', '5;\r\nhello\r\n'],
  ['an extension without a value', '5;a=\r\nhello\r\n'],
  ['a quote that does not end', '5;a="b\r\nhello\r\n'],
  ['an extension of 257 bytes', `5;${'a'.repeat(256)}\r\nhello\r\n`],
  ['a bare line feed behind the last', '5\r\nhello\r\n0\n\r\n'],
  ['malformed trailers', '5\r\nhello\r\n0\r\nA b\r\n\r\n'],
  ['folded trailers', '5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n'],
  ['a space in the name of a trailer', '5\r\nhello\r\n0\r\nA : b\r\n\r\n'],
  ['a length among the trailers', '5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 5\r\n\r\n'],
  ['a coding among the trailers', '5\r\nhello\r\n0\r\ntransfer-encoding: chunked\r\n\r\n'],
  ['trailers with bare line feeds', '5\r\nhello\r\n0\r\nA: b\n\n'],
  ['a bare line feed instead of trailers', '5\r\nhello\r\n0\r\n\n'],
  ['trailers of more than 16 KiB', `5\r\nhello\r\n0\r\nA: ${'x'.repeat(16_384)}\r\n\r\n`],
  ['501 trailers', `5\r\nhello\r\n0\r\n${'A:\r\n'.repeat(501)}\r\n`],
])('a chunk with %s does not look like a whole response', async (_, bytes) => {
  const origin = await startHostile(CHUNKED + bytes);
  const pool = poolTo(origin.url, { maxConnections: 1 });

  const refused = await ask(pool);
  const next = await ask(pool);

  expect(refused).toMatchObject({ status: 200, complete: false, ends: 1 });
  expect(refused.error).toMatchObject({ code: 'BAD_RESPONSE' });
  expect(refused.bytes).toBeLessThanOrEqual(5);
  expect(next).toMatchObject({ status: 200, body: 'good', complete: true });
  expect(origin.received).toHaveLength(2);
});

test.each([
  ['nothing', ''],
  ['half a head', 'HTTP/1.1 200 OK\r\nContent-Le'],
  ['a head without the empty line', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n'],
  ['1xx only', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['half a body', `${OK}Content-Length: 10\r\n\r\nhello`],
  ['no body where one is announced', `${OK}Content-Length: 10\r\n\r\n`],
  ['half a chunk', `${CHUNKED}a\r\nhello`],
  ['no last chunk', `${CHUNKED}5\r\nhello\r\n`],
  ['no end of the trailers', `${CHUNKED}5\r\nhello\r\n0\r\n`],
  ['half the end of the trailers', `${CHUNKED}5\r\nhello\r\n0\r\n\r`],
])('a server that sends %s and closes is a broken connection', async (_, bytes) => {
  const origin = await startHostile(bytes, true);
  const pool = poolTo(origin.url, { maxConnections: 1 });

  const broken = await ask(pool);
  const next = await ask(pool);

  // The code that lets an idempotent request be tried again, as long as nothing was answered.
  expect(broken.error).toMatchObject({ code: 'CONNECTION_LOST' });
  expect(broken).toMatchObject({ complete: false, ends: 1 });
  expect(next).toMatchObject({ status: 200, body: 'good' });
});

test('a server that resets the connection is a broken connection, also where its end would end the body', async () => {
  const origin = await startRawOrigin((socket) => {
    socket.write(`${OK}\r\nhello`, () => setTimeout(() => socket.resetAndDestroy(), 30));
  });

  const broken = await ask(poolTo(origin.url));

  expect(broken).toMatchObject({ status: 200, body: 'hello', complete: false });
  expect(broken.error).toMatchObject({ code: 'ECONNRESET' });
});

test.each([
  ['a second response', GOOD + GOOD],
  ['an empty line', `${GOOD}\r\n`],
  ['one byte', `${GOOD}x`],
  ['a body where none can be', `HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\ngood`],
  ['bytes behind the last chunk', `${CHUNKED}4\r\ngood\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n`],
])('%s behind a response reaches nobody, and the connection is not used again', async (_, bytes) => {
  const origin = await startHostile(bytes);
  const pool = poolTo(origin.url, { maxConnections: 1 });

  const first = await ask(pool);
  const second = await ask(pool);

  expect(first.complete).toBe(true);
  expect(['', 'good']).toContain(first.body);
  expect(second).toMatchObject({ status: 200, body: 'good' });
  expect(origin.received).toHaveLength(2);
});

test('what a server sends while nobody asks reaches nobody', async () => {
  const origin = await startHostile(GOOD);
  const pool = poolTo(origin.url, { maxConnections: 1 });
  await ask(pool);

  origin.sockets[0]?.write(`${OK}Content-Length: 4\r\n\r\nevil`);
  await eventually(() => origin.sockets[0]?.destroyed === true || origin.sockets[0]?.readableEnded === true);
  const next = await ask(pool);

  expect(next.body).toBe('good');
  expect(origin.received).toHaveLength(2);
});

test('what a server sends together with the arrival of the next request reaches nobody', async () => {
  const origin = await startHostile(GOOD);
  const pool = poolTo(origin.url, { maxConnections: 1 });
  await ask(pool);

  // The bytes are there before the request is handed over, and the event loop has not looked yet.
  await new Promise<void>((resolve) => {
    origin.sockets[0]?.write(`${OK}Content-Length: 4\r\n\r\nevil`, () => resolve());
  });
  const next = await ask(pool);

  expect(next.body).toBe('good');
});

test('a server that speaks before it is asked is not asked', async () => {
  const origin = await startRawOrigin((socket) => socket.write(GOOD));
  const pool = poolTo(origin.url, { maxConnections: 1 });
  const first = send(pool);
  await eventually(() => origin.sockets.length === 1);
  await first.done;
  origin.sockets[0]?.destroy();
  await eventually(() => origin.sockets[0]?.destroyed === true);

  const next = await ask(pool);

  expect(next.body).toBe('good');
});

test('unexpected 1xx responses are passed on, 32 at most', async () => {
  const origin = await startHostile(
    `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(31)}HTTP/1.1 103 E\r\nA: b\r\n\r\n${GOOD}`,
  );

  const answer = await ask(poolTo(origin.url));

  expect(answer.informational).toHaveLength(32);
  expect(answer).toMatchObject({ status: 200, body: 'good', complete: true });
});
