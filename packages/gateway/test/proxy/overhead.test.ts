// A client that makes work and sends nothing is cut off, in both versions of HTTP, and everybody else is served. How
// fast is measured by test/attacks/attacks.soak.ts.
import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import { request as askSecure } from 'node:https';
import { connect, type Socket } from 'node:net';
import { text as wholeText } from 'node:stream/consumers';
import { connect as connectSecure, type TlsOptions } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createCertificates } from '../../../../test/redis/certificates.ts';
import { END_HEADERS, frame, headersFrame, PSEUDO, replaced, TYPE } from './http2-frames.ts';
import { eventually, exchange, RawClient, startOrigin, startRig, type Rig } from './rig.ts';

const { server: secureContext } = await createCertificates();

const MIB = 2 ** 20;
/** Eight times the budget: who has sent so much is cut off, however long the gateway takes to read it. */
const FLOOD_BYTES = 16 * MIB;
const OTHER_ADDRESS = '127.0.0.2';

interface Setting {
  readonly secureContext?: TlsOptions;
  readonly config?: object;
}

const SETTINGS: readonly (readonly [string, Setting])[] = [
  ['without TLS', {}],
  ['without TLS and HTTP/2', { config: { server: { http2: false } } }],
  ['with TLS', { secureContext }],
];

async function dial(rig: Rig, secure: boolean, protocol: 'h2' | 'http/1.1'): Promise<Socket> {
  const address = { port: rig.port, host: '127.0.0.1' };
  const socket = secure
    ? connectSecure({ ...address, rejectUnauthorized: false, ALPNProtocols: [protocol] })
    : connect(address);
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined).resume();
  await once(socket, secure ? 'secureConnect' : 'connect');
  return socket;
}

/** Sends it over and over until the other side ends the connection, which it has to do before the flood is over. */
async function flood(socket: Socket, piece: Buffer): Promise<void> {
  const step = (): void => {
    if (socket.destroyed || socket.bytesWritten > FLOOD_BYTES) return;
    if (socket.write(piece)) setImmediate(step);
    else socket.once('drain', step);
  };
  step();
  await eventually(
    () => socket.destroyed,
    () => `a connection is open on which ${socket.bytesWritten - socket.writableLength} bytes were sent`,
  );
}

/** Another client, from another address and from the same one. */
async function othersAreServed(rig: Rig, secure: boolean): Promise<readonly string[]> {
  return Promise.all(
    ['127.0.0.1', OTHER_ADDRESS].map(async (localAddress) => {
      const options = { port: rig.port, host: '127.0.0.1', path: '/other', agent: false, localAddress };
      const asking = secure ? askSecure({ ...options, rejectUnauthorized: false }) : ask(options);
      const [response] = (await once(asking.end(), 'response')) as [IncomingMessage];
      return wholeText(response);
    }),
  );
}

const chunk = Buffer.from('1\r\nx\r\n'.repeat(5000));
const POST = 'POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';

describe.each(SETTINGS)('%s', (_name, setting) => {
  const secure = setting.secureContext !== undefined;

  test('chunks of one byte end the connection, and others are served before that', async () => {
    const origin = await startOrigin(({ url }, response) => url === '/other' && response.end('ok'));
    const rig = await startRig({ origin, ...setting });
    const socket = await dial(rig, secure, 'http/1.1');
    socket.write(POST);

    const attack = flood(socket, chunk);
    const during = await othersAreServed(rig, secure);
    await attack;

    expect(during).toEqual(['ok', 'ok']);
    expect(rig.cutOff).toEqual(['smallPiece']);
    expect(await othersAreServed(rig, secure)).toEqual(['ok', 'ok']);
  });
});

const OPENING = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(TYPE.settings, 0, 0)]);
const PADDED = 8;
const times = (count: number, bytes: Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => bytes));
const OPEN_STREAM = headersFrame(1, replaced(':method', 'POST'), END_HEADERS);
const CLOSED_STREAM = Buffer.concat([OPEN_STREAM, frame(TYPE.reset, 0, 1, Buffer.from([0, 0, 0, 8]))]);

describe.each([
  ['WINDOW_UPDATE', OPENING, frame(TYPE.windowUpdate, 0, 0, Buffer.from([0, 0, 0, 1]))],
  ['frames of an unknown type', OPENING, frame(0xbe, 0, 0, Buffer.alloc(8))],
  ['DATA of padding only', Buffer.concat([OPENING, OPEN_STREAM]), frame(TYPE.data, PADDED, 1, padding(200))],
  [
    'DATA on a closed stream',
    Buffer.concat([OPENING, CLOSED_STREAM]),
    frame(TYPE.data, 0, 1, Buffer.from('x')),
  ],
  ['HEADERS on a closed stream', Buffer.concat([OPENING, CLOSED_STREAM]), headersFrame(1, PSEUDO)],
])('a flood of %s', (_name, opening, one) => {
  test.each([
    ['without TLS', undefined],
    ['with TLS', secureContext],
  ])('%s: ends the connection, and others are served before that', async (_setting, tls) => {
    const origin = await startOrigin(({ url }, response) => url === '/other' && response.end('ok'));
    const rig = await startRig({ origin, secureContext: tls });
    const secure = tls !== undefined;
    const socket = await dial(rig, secure, 'h2');
    socket.write(opening);

    const attack = flood(socket, times(2000, one));
    const during = await othersAreServed(rig, secure);
    await attack;

    expect(during).toEqual(['ok', 'ok']);
    expect(await othersAreServed(rig, secure)).toEqual(['ok', 'ok']);
  });
});

function padding(bytes: number): Buffer {
  return Buffer.concat([Buffer.from([bytes]), Buffer.alloc(bytes)]);
}

test('who connects again after a flood is cut off at once, and one that asks for something is served', async () => {
  const origin = await startOrigin(({ url }, response) => url === '/other' && response.end('ok'));
  const rig = await startRig({ origin, config: { server: { max_overhead_per_address: '64KiB' } } });
  const first = await dial(rig, false, 'http/1.1');
  first.write(POST);
  await flood(first, chunk);

  const again = await dial(rig, false, 'http/1.1');
  again.write(`${POST}1\r\nx\r\n`);
  again.write('1\r\nx\r\n'.repeat(2000));

  await eventually(() => again.destroyed);
  expect(rig.cutOff).toEqual(['smallPiece', 'smallPiece']);
  expect(await othersAreServed(rig, false)).toEqual(['ok', 'ok']);
});

test('a client that sends, reads and cancels as clients do is never cut off', async () => {
  const origin = await startOrigin((request, response) => {
    request.resume().on('end', () => response.end('x'.repeat(100_000)));
  });
  const rig = await startRig({ origin, config: { server: { max_overhead_per_address: '64KiB' } } });

  for (let at = 0; at < 20; at += 1) {
    const client = await exchange(
      rig.port,
      `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    );
    await client.untilClosed();
  }
  const upload = await RawClient.connect(rig.port);
  upload.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
  for (let at = 0; at < 5000; at += 1) upload.send(`64\r\n${'x'.repeat(100)}\r\n`);
  upload.send('0\r\n\r\n');
  await upload.until(({ statuses }) => statuses.length === 1);

  expect(rig.cutOff).toEqual([]);
});

describe('malformed requests', () => {
  const BUDGET = { server: { max_overhead_per_address: '64KiB' } };
  const ANSWERED = 16;

  test.each([
    ['not HTTP', 'GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n'],
    ['without a host', 'GET / HTTP/1.1\r\n\r\n'],
    ['a path that is none', 'GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['CONNECT', 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n'],
    [
      'a WebSocket with a body',
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx',
    ],
  ])('%s: so many get an answer, and no more', async (_name, text) => {
    const origin = await startOrigin();
    const rig = await startRig({ origin, config: BUDGET });
    let answered = 0;

    for (let at = 0; at < ANSWERED + 20; at += 1) {
      const client = await exchange(rig.port, text);
      await client.untilClosed();
      answered += client.statuses.length;
    }

    // What comes back while it goes on.
    expect(answered).toBeGreaterThanOrEqual(ANSWERED);
    expect(answered).toBeLessThan(ANSWERED + 15);
    expect(new Set(rig.cutOff)).toEqual(new Set(['malformedRequest']));
    expect(origin.requests).toEqual([]);
    expect(await othersAreServed(rig, false)).toEqual(['ok', 'ok']);
  });

  test('over HTTP/2: the connection is closed', async () => {
    const origin = await startOrigin();
    const rig = await startRig({ origin, config: BUDGET });
    const socket = await dial(rig, false, 'h2');
    socket.write(OPENING);

    for (let at = 0; at < 40; at += 1) {
      socket.write(headersFrame(2 * at + 1, replaced(':path', '/%2')));
    }

    await eventually(() => socket.destroyed);
    expect(rig.cutOff).toEqual(['malformedRequest']);
    expect(rig.finished.every(({ outcome }) => outcome === 'invalid' || outcome === 'aborted')).toBe(true);
    expect(await othersAreServed(rig, false)).toEqual(['ok', 'ok']);
  });
});
