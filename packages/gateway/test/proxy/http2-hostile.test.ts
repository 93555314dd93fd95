// HTTP/2 by the byte: what is malformed reaches nobody, and who floods harms nobody else.
import { expect, test } from 'vitest';
import type { RuleOutcome } from '../../src/rules/rule-outcome.ts';
import { gateOf } from '../rules/facts.ts';
import { ask, session } from './http2-client.ts';
import {
  ACK,
  END_HEADERS,
  END_STREAM,
  frame,
  FrameClient,
  headersFrame,
  hpack,
  PSEUDO,
  replaced,
  TYPE,
} from './http2-frames.ts';
import { eventually, REFUSED, startOrigin, startRig } from './rig.ts';

const MALFORMED: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  ['a capital in a name', [...PSEUDO, ['X-Big', 'a']]],
  ['connection', [...PSEUDO, ['connection', 'close']]],
  ['transfer-encoding', [...PSEUDO, ['transfer-encoding', 'chunked']]],
  ['upgrade', [...PSEUDO, ['upgrade', 'h2c']]],
  ['keep-alive', [...PSEUDO, ['keep-alive', 'a']]],
  ['proxy-connection', [...PSEUDO, ['proxy-connection', 'close']]],
  ['te other than trailers', [...PSEUDO, ['te', 'gzip']]],
  ['two methods', [[':method', 'POST'], ...PSEUDO]],
  ['two paths', [...PSEUDO, [':path', '/y']]],
  ['two hosts', [...PSEUDO, [':authority', 'b']]],
  ['two schemes', [...PSEUDO, [':scheme', 'http']]],
  ['a pseudo-header of responses', [...PSEUDO, [':status', '200']]],
  ['a pseudo-header with a capital', [[':Method', 'GET'], ...PSEUDO.slice(1)]],
  ['a tab in the path', replaced(':path', '/a\tb')],
  ['NUL in the path', replaced(':path', '/a\0b')],
  ['a byte outside of ASCII in the path', replaced(':path', '/a\u00e9')],
  ['LF in the host', replaced(':authority', 'a\nb')],
  ['an empty host', replaced(':authority', '')],
  ['two host headers', [...PSEUDO.slice(0, 3), ['host', 'a'], ['host', 'a']]],
  ['a pseudo-header behind a header', [['x', 'a'], ...PSEUDO]],
  ['a pseudo-header that nobody knows', [...PSEUDO, [':evil', 'a']]],
  ['no path', PSEUDO.filter(([name]) => name !== ':path')],
  ['no scheme', PSEUDO.filter(([name]) => name !== ':scheme')],
  ['an empty path', replaced(':path', '')],
  ['a space in the path', replaced(':path', '/a b')],
  ['a request line in the path', replaced(':path', '/a HTTP/1.1\r\nX: b')],
  ['a request line in the method', replaced(':method', 'GET / HTTP/1.1')],
  ['a small method', replaced(':method', 'get')],
  ['a path that is no path', replaced(':path', 'x')],
  ['an absolute path', replaced(':path', 'http://evil/')],
  ['a host in the host', replaced(':authority', 'a@b')],
  ['a path behind the host', replaced(':authority', 'a/b')],
  ['a host that differs', [...PSEUDO, ['host', 'b']]],
  ['an underscore in a name', [...PSEUDO, ['x_forwarded_for', '1.1.1.1']]],
  ['a length that the body does not have', [...PSEUDO, ['content-length', '5']]],
  ['two lengths', [...PSEUDO, ['content-length', '0'], ['content-length', '5']]],
  ['a length that is no number', [...PSEUDO, ['content-length', '+5']]],
  [
    'CONNECT',
    [
      [':method', 'CONNECT'],
      [':authority', 'a:443'],
    ],
  ],
  ['extended CONNECT', [[':method', 'CONNECT'], [':protocol', 'websocket'], ...PSEUDO.slice(1)]],
];

test.each(MALFORMED)('HTTP/2 with %s is refused, and nothing reaches the backend', async (_, headers) => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await FrameClient.connect(port);

  client.send(headersFrame(1, headers));
  await eventually(
    () => client.find(TYPE.reset) !== undefined || client.find(TYPE.headers) !== undefined || client.closed,
  );

  const head = client.find(TYPE.headers)?.payload;
  if (head !== undefined) expect([400, 405]).toContain(statusIn(head));
  const after = await ask(session(`http://127.0.0.1:${port}`), { ':path': '/after' });
  expect(after.body).toBe('ok');
  expect(origin.requests.map(({ url }) => url)).toEqual(['/after']);
});

/**
 * HPACK writes the first header, `:status`, in few bytes: 400 is index 12; others are index 8 with a literal (RFC 7541
 * §6).
 */
function statusIn(head: Buffer): number {
  return head[0] === 0x8c ? 400 : Number(head.toString('latin1', 2, 5));
}

/** What nghttp2 takes out of a request by itself; nobody is told. */
const DROPPED: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  ['CR and LF in a value', [...PSEUDO, ['x', 'a\r\nX-Evil: 1']]],
  ['LF in a value', [...PSEUDO, ['x', 'a\nb']]],
  ['NUL in a value', [...PSEUDO, ['x', 'a\0b']]],
  ['another control character in a value', [...PSEUDO, ['x', 'a\u0001b']]],
  ['DEL in a value', [...PSEUDO, ['x', 'a\u007fb']]],
  ['a space before a value', [...PSEUDO, ['x', ' a']]],
  ['a tab behind a value', [...PSEUDO, ['x', 'a\t']]],
  ['a bracket in a name', [...PSEUDO, ['x(', 'a']]],
  ['a byte outside of ASCII in a name', [...PSEUDO, ['x\u00e9', 'a']]],
  ['a space in a name', [...PSEUDO, ['x y', 'a']]],
  ['a colon in a name', [...PSEUDO, ['x:y', 'a']]],
  ['CR and LF in a name', [...PSEUDO, ['x\r\ny', 'a']]],
  ['no name', [...PSEUDO, ['', 'a']]],
];

test.each(DROPPED)(
  'HTTP/2 with %s: neither the gate nor the backend sees that header',
  async (_, headers) => {
    const origin = await startOrigin();
    const { port, asked } = await startRig({ origin });
    const client = await FrameClient.connect(port);

    client.send(headersFrame(1, [...headers, ['x-kept', 'yes']]));
    await eventually(() => client.find(TYPE.headers) !== undefined);

    expect(asked.map((facts) => facts.headers.raw)).toEqual([['x-kept', 'yes']]);
    expect(origin.requests).toHaveLength(1);
    expect(origin.requests[0]?.rawHeaders.filter((_text, at) => at % 2 === 0).toSorted()).toEqual(
      [
        'connection',
        'host',
        'via',
        'x-forwarded-for',
        'x-forwarded-host',
        'x-forwarded-proto',
        'X-Request-Id',
        'x-kept',
      ].toSorted(),
    );
  },
);

test.each([
  ['reject', [], 400],
  ['clientIP', ['@127.0.0.1'], 200],
] as const)('a key in such a header is missing, and on_missing says %s', async (onMissing, keys, status) => {
  const origin = await startOrigin();
  const { gate } = gateOf(
    `  policies: { p: { average: 5 } }\n  rules:\n    - { name: r, match: { path: "/**" }, policies: [p], key: { type: header, header_name: X-Tenant, on_missing: ${onMissing} } }\n`,
  );
  const rulings: RuleOutcome[] = [];
  const { port } = await startRig({
    origin,
    rule: async (facts) => {
      const ruling = await gate.decide(facts);
      rulings.push(ruling);
      return ruling;
    },
  });
  const client = await FrameClient.connect(port);

  client.send(headersFrame(1, [...PSEUDO, ['x-tenant', 'acme\r\nx-tenant: other']]));
  await eventually(() => client.find(TYPE.headers) !== undefined);

  expect(rulings.map(({ detail }) => detail.keys)).toEqual([keys]);
  expect(origin.requests).toHaveLength(status === 200 ? 1 : 0);
});

/** While somebody floods, somebody else is served. */
async function othersAreServed(url: string): Promise<boolean> {
  const { headers } = await ask(session(url), { ':path': '/other' });
  return Number(headers[':status']) === 200;
}

test('rapid resets end the connection', async () => {
  const origin = await startOrigin(() => undefined);
  const { port, url, finished, upstreams } = await startRig({
    origin,
    rule: ({ path }) => (path === '/other' ? REFUSED : undefined) as never,
  });
  const client = await FrameClient.connect(port);
  const cancel = Buffer.from([0, 0, 0, 8]);

  for (let at = 0; at < 10_000 && !client.closed; at += 1) {
    const id = 2 * at + 1;
    client.send(headersFrame(id, PSEUDO), frame(TYPE.reset, 0, id, cancel));
    if (at % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually(() => client.closed || client.goaway !== undefined);

  expect(client.goaway).not.toBe(0);
  await eventually(() => upstreams.inFlight === 0);
  expect(finished.length).toBeLessThan(3000);
  const { headers } = await ask(session(url), { ':path': '/other' });
  expect(headers[':status']).toBe(429);
});

const CANCEL = Buffer.from([0, 0, 0, 8]);
const ENHANCE_YOUR_CALM = 11;
const turn = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('512 requests may be broken off, and 64 more per second', async () => {
  const origin = await startOrigin(() => undefined);
  const { port, finished } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  const breakOff = async (from: number, to: number): Promise<void> => {
    for (let at = from; at < to; at += 1) {
      client.send(headersFrame(2 * at + 1, PSEUDO), frame(TYPE.reset, 0, 2 * at + 1, CANCEL));
    }
    client.send(frame(TYPE.ping, 0, 0, Buffer.from(`to ${to}`.padEnd(8))));
    await eventually(
      () => client.closed || client.frames.some(({ payload }) => payload.toString().trimEnd() === `to ${to}`),
    );
  };

  await breakOff(0, 500);
  const open = !client.closed && client.goaway === undefined;
  await breakOff(500, 700);
  await eventually(() => client.closed);

  expect(open).toBe(true);
  expect(client.goaway).toBe(ENHANCE_YOUR_CALM);
  // What is broken off in the same packet is not even begun.
  expect(finished).toEqual([]);
});

test('who breaks off many requests is still served the others', async () => {
  const origin = await startOrigin();
  const { url, finished } = await startRig({ origin });
  const client = session(url);
  for (let at = 0; at < 100; at += 1) {
    const stream = client.request({ ':path': '/broken' });
    stream.on('error', () => undefined);
    stream.close(8);
  }

  const answers = await Promise.all(
    Array.from({ length: 20 }, async () => ask(client, { ':path': '/kept', ':method': 'POST' }, 'a body')),
  );

  expect(answers.map(({ body }) => body)).toEqual(Array.from({ length: 20 }, () => 'ok'));
  expect(finished.filter(({ path }) => path === '/kept')).toHaveLength(20);
});

test('requests that the gateway itself could not complete are not the fault of the client', async () => {
  const origin = await startOrigin((_, response) => {
    response.write('begun');
    setTimeout(() => response.destroy(), 1);
  });
  const { url } = await startRig({ origin });
  const client = session(url);
  let cutOff = 0;

  for (let at = 0; at < 12; at += 1) {
    await Promise.all(
      Array.from({ length: 50 }, async () => ask(client, { ':path': '/' }).catch(() => (cutOff += 1))),
    );
  }

  expect(cutOff).toBe(600);
  expect(client.closed || client.destroyed).toBe(false);
});

test('short bodies are no flood, however many', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  const post = replaced(':method', 'POST');
  const answered = (): number => client.frames.filter(({ type }) => type === TYPE.headers).length;

  for (let at = 0; at < 4500; at += 1) {
    const id = 2 * at + 1;
    client.send(headersFrame(id, post, END_HEADERS), frame(TYPE.data, END_STREAM, id, Buffer.from('x')));
    if (at - answered() >= 90) await eventually(() => client.closed || at - answered() < 50);
  }
  await eventually(() => client.closed || answered() === 4500);

  expect(client.closed).toBe(false);
});

test.each([
  ['PING', frame(TYPE.ping, 0, 0, Buffer.alloc(8))],
  ['SETTINGS', frame(TYPE.settings, 0, 0)],
  ['PRIORITY', frame(TYPE.priority, 0, 1, Buffer.from([0, 0, 0, 3, 1]))],
] as const)('%s from a client that reads everything: not without end', async (_, control) => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  let sent = 0;

  for (; sent < 100_000 && !client.closed; sent += 20) {
    client.send(...Array.from({ length: 20 }, () => control));
    await turn();
  }
  await eventually(() => client.closed);

  expect(sent).toBeGreaterThan(1900);
  expect(client.goaway).toBe(ENHANCE_YOUR_CALM);
});

test('headers without an end close the connection', async () => {
  const origin = await startOrigin();
  const { port, url } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  client.send(frame(TYPE.headers, END_STREAM, 1, hpack(PSEUDO)));

  for (let at = 0; at < 5000 && !client.closed; at += 1) {
    client.send(frame(TYPE.continuation, 0, 1, hpack([[`x-${at}`, 'a'.repeat(1000)]])));
    if (at % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually(() => client.closed || client.goaway !== undefined);

  expect(origin.requests).toEqual([]);
  expect(await othersAreServed(url)).toBe(true);
});

test.each([
  ['PING', frame(TYPE.ping, 0, 0, Buffer.alloc(8))],
  ['SETTINGS', frame(TYPE.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100]))],
] as const)('a flood of %s from a client that does not read closes the connection', async (_, flood) => {
  const origin = await startOrigin();
  const { port, url, opened } = await startRig({ origin });
  const client = await FrameClient.connect(port);
  client.socket.pause();
  const many = Buffer.concat(Array.from({ length: 10_000 }, () => flood));

  for (let at = 0; at < 100 && !client.closed; at += 1) {
    client.socket.write(many);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await othersAreServed(url)).toBe(true);
  await eventually(() => opened.connections <= 1);

  expect(opened.connections).toBeLessThanOrEqual(1);
});

test('a window of zero ends with the time that a client has for reading', async () => {
  const origin = await startOrigin((_, response) => response.end('x'.repeat(100_000)));
  const { port, finished } = await startRig({ origin, config: { server: { write_timeout: '200ms' } } });
  // SETTINGS_INITIAL_WINDOW_SIZE: 0.
  const client = await FrameClient.connect(port, Buffer.from([0, 4, 0, 0, 0, 0]));

  client.send(headersFrame(1, PSEUDO));
  await eventually(() => finished.length === 1);

  expect(finished).toMatchObject([{ outcome: 'aborted', reason: 'WRITE_TIMEOUT' }]);
});

test('a flood of settings acknowledgements does no harm', async () => {
  const origin = await startOrigin();
  const { port, url } = await startRig({ origin });
  const client = await FrameClient.connect(port);

  client.send(...Array.from({ length: 1000 }, () => frame(TYPE.settings, ACK, 0)));

  expect(await othersAreServed(url)).toBe(true);
});
