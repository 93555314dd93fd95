// What is written to servers.
import * as fc from 'fast-check';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { requestHead } from '../../src/http-client/http1/write-request.ts';
import { startRawOrigin } from '../proxy/raw-origin.ts';
import { ask, GET, poolTo } from './asking.ts';
import { runs } from '../../../../test/runs.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const bytes = (text: string) => Readable.from(text === '' ? [] : [Buffer.from(text)]);

test.each([
  ['GET', [], undefined, 'GET /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\n\r\n'],
  [
    'GET',
    ['Content-Length', '0'],
    undefined,
    'GET /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\n\r\n',
  ],
  ['HEAD', [], undefined, 'HEAD /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n'],
  [
    'POST',
    [],
    undefined,
    'POST /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n',
  ],
  ['DELETE', [], undefined, 'DELETE /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\n\r\n'],
  [
    'POST',
    ['X-A', 'b', 'Host', 'shop.example', 'x-a', '\xe4\t c'],
    'body',
    'POST /a?b HTTP/1.1\r\nhost: shop.example\r\nconnection: keep-alive\r\nX-A: b\r\nx-a: \xe4\t c\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
  ],
  [
    'PUT',
    ['content-LENGTH', '4'],
    'body',
    'PUT /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\ncontent-length: 4\r\n\r\nbody',
  ],
  [
    'DELETE',
    ['Content-Length', '4'],
    'body',
    'DELETE /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody',
  ],
  ['POST', [], '', 'POST /a?b HTTP/1.1\r\nhost: HOST\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n'],
])('%s with %j and the body %j is written so, and in one piece', async (method, headers, body, expected) => {
  const pieces: number[] = [];
  const origin = await startRawOrigin((socket, text) => {
    pieces.push(text.length);
    if (text.length >= expected.length) socket.write(OK);
  });
  const host = origin.url.slice('http://'.length);
  const stream = body === undefined ? undefined : bytes(body);

  await ask(poolTo(origin.url), { method, path: '/a?b', headers, body: stream });

  expect(origin.received.join('')).toBe(expected.replace('HOST', host));
  expect(pieces.length).toBeLessThanOrEqual(2);
});

test.each([
  ['method', { method: 'GET /evil HTTP/1.1\r\nx: ' }],
  ['method', { method: '' }],
  ['method', { method: 'CONNECT' }],
  ['path', { path: '/a b' }],
  ['path', { path: '/a\r\nx: y' }],
  ['path', { path: '/a\nb' }],
  ['path', { path: '/\u010a' }],
  ['path', { path: 'a' }],
  ['path', { path: '' }],
  ['path', { path: '*' }],
  ['header name', { headers: ['a b', 'c'] }],
  ['header name', { headers: ['', 'c'] }],
  ['header name', { headers: ['a:', 'c'] }],
  ['header name', { headers: ['a\r\nb', 'c'] }],
  ['header name', { headers: ['\xe4', 'c'] }],
  ['value of a', { headers: ['a', 'b\r\nevil: 1'] }],
  ['value of a', { headers: ['a', 'b\nevil: 1'] }],
  ['value of a', { headers: ['a', 'b\rc'] }],
  ['value of a', { headers: ['a', 'b\0c'] }],
  ['value of a', { headers: ['a', 'b\x7fc'] }],
  // Written as bytes they would be CR and LF.
  ['value of a', { headers: ['a', 'b\u010d\u010aevil: 1'] }],
  ['value of host', { headers: ['host', 'a\r\nb'] }],
  ['header', { headers: ['host', 'a', 'Host', 'b'] }],
  ['header', { headers: ['content-length', '1', 'Content-Length', '1'] }],
  ['Content-Length', { headers: ['content-length', '1, 1'] }],
  ['Content-Length', { headers: ['content-length', '+1'] }],
  ['header', { headers: ['Transfer-Encoding', 'chunked'] }],
  ['header', { headers: ['connection', 'x'] }],
  ['header', { headers: ['Keep-Alive', 'x'] }],
  ['header', { headers: ['Upgrade', 'h2c'] }],
  ['header', { headers: ['Proxy-Connection', 'x'] }],
  ['header', { headers: ['EXPECT', '100-continue'] }],
])('a request whose %s cannot be sent is not sent, and takes no connection', async (what, request) => {
  const origin = await startRawOrigin((socket) => socket.write(OK));
  const pool = poolTo(origin.url);

  const refused = await ask(pool, request);

  expect(refused.error).toMatchObject({ code: 'BAD_REQUEST' });
  expect(refused.error?.message).toContain(`The ${what} `);
  expect(pool.dials.times).toBe(0);
});

test('OPTIONS may be for the server as a whole', () => {
  const { text } = requestHead({ ...GET, method: 'OPTIONS', path: '*' }, 'h');

  expect(text).toMatch(/^OPTIONS \* HTTP\/1\.1\r\n/);
});

test('whatever is asked for, there is one head with the lines that were asked for, or none', () => {
  const part = fc.oneof(
    fc.string({ maxLength: 12 }),
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.constantFrom('a', 'X-B', 'host'),
  );
  fc.assert(
    fc.property(part, part, fc.array(fc.tuple(part, part), { maxLength: 4 }), (method, path, fields) => {
      let text: string;
      try {
        ({ text } = requestHead({ ...GET, method, path: `/${path}`, headers: fields.flat() }, 'h'));
      } catch {
        return;
      }
      const lines = Buffer.from(text, 'latin1').toString('latin1').split('\r\n');
      const named = fields.filter(
        ([name]) => name.toLowerCase() !== 'host' && name.toLowerCase() !== 'content-length',
      );
      // The request line, host, connection, and what follows the last line end.
      expect(lines).toHaveLength(4 + named.length);
      expect(lines.join('')).not.toMatch(/[\r\n\0]/);
    }),
    { numRuns: runs(2000) },
  );
});
