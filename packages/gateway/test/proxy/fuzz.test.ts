// Whatever arrives: the backend sees only well-formed requests, one per admission, and the proxy goes on.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const word = fc.constantFrom(
  'GET ',
  'POST ',
  'PUT ',
  '/',
  '/a',
  '/%2e%2e',
  ' HTTP/1.1',
  ' HTTP/1.0',
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  ':',
  'Host: a',
  'Content-Length: 5',
  'Content-Length: 0',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: identity',
  'hello',
  '5\r\nhello\r\n',
  '0\r\n\r\n',
  'Connection: close',
  'Connection: Content-Length',
  'Upgrade: h2c',
  'Connection: Upgrade',
  'Expect: 100-continue',
  'X-A: b',
  'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n',
  'POST /x HTTP/1.1\r\nHost: a\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
);
const line = fc.tuple(word, fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '')).map((parts) => parts.join(''));
/** Mostly like a request, here and there not. */
const bytes = fc.oneof(
  fc.array(line, { maxLength: 12 }).map((lines) => `POST /x HTTP/1.1\r\nHost: a\r\n${lines.join('')}`),
  fc.array(word, { maxLength: 15 }).map((words) => words.join('')),
  fc.string({ unit: 'binary', maxLength: 100 }),
);

test('random bytes never become more requests than were admitted, nor one that is not well-formed', async () => {
  const origin = await startOrigin();
  const rig = await startRig({
    origin,
    config: { server: { header_timeout: '150ms', body_idle_timeout: '150ms' } },
  });

  await fc.assert(
    fc.asyncProperty(fc.array(bytes, { minLength: 10, maxLength: 10 }), async (inputs) => {
      const clients = await Promise.all(inputs.map(async () => RawClient.connect(rig.port)));
      for (const [at, client] of clients.entries())
        client.socket.end(Buffer.from(inputs[at] ?? '', 'latin1'));
      await Promise.all(clients.map(async (client) => client.untilClosed()));

      expect(origin.requests.filter(({ method }) => method === 'NOT-HTTP' || method === '')).toEqual([]);
      expect(origin.requests.length).toBeLessThanOrEqual(rig.asked.length);
      for (const { text } of clients)
        expect(text === '' || text.startsWith('HTTP/1.1 ') || text.charCodeAt(3) === 4).toBe(true);
    }),
    { numRuns: 30 },
  );
  await eventually(
    () =>
      rig.finished.length >= rig.asked.length && rig.upstreams.inFlight === 0 && rig.opened.connections === 0,
  );

  const ids = rig.finished.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});
