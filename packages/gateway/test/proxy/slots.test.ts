// What a request holds is free when it has ended, however that came about.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { concurrency, createLimiter } from 'spillgate';
import { seededRandom, type Random } from 'spillgate/testing';
import { expect, test } from 'vitest';
import { runs } from '../../../../test/runs.ts';
import { gateOf } from '../rules/facts.ts';
import { leave, session } from './http2-client.ts';
import { eventually, RawClient, startOrigin, startRig, type Rig } from './rig.ts';
import { createTunnels } from '../../src/proxy/websocket/websocket-tunnels.ts';
import { keptLog } from './gateway-settings.ts';

const LIMIT = 40;
const RULES = `
  policies:
    inFlight: { algorithm: concurrency, limit: ${LIMIT}, hold: 1m }
  rules:
    - name: all
      policies: [inFlight]
`;
const inFlight = concurrency({ name: 'inFlight', limit: LIMIT, hold: '1m' });
const ENDINGS = runs(1000);
const AT_ONCE = 20;

/** Says by its path how a response ends. */
function respond(request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  const { pathname } = new URL(request.url ?? '/', 'http://origin');
  if (pathname === '/hang') return;
  if (pathname === '/refuse') {
    request.socket.destroy();
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/plain' });
  response.write('some');
  if (pathname === '/stream') return;
  if (pathname === '/reset') setImmediate(() => request.socket.resetAndDestroy());
  else response.end('thing');
}

type EndRequest = (rig: Rig, random: Random) => Promise<void>;

const ENDS: readonly EndRequest[] = [
  async (rig) => ended(rig, 'GET /ok HTTP/1.1\r\nHost: a\r\n\r\n'),
  async (rig) => ended(rig, 'GET /refuse HTTP/1.1\r\nHost: a\r\n\r\n'),
  async (rig) => {
    const client = await RawClient.connect(rig.port);
    client.send('GET /reset HTTP/1.1\r\nHost: a\r\n\r\n');
    await client.until(({ closed, statuses }) => closed || tookTooLong(statuses));
    client.socket.destroy();
  },
  async (rig) => {
    const client = await RawClient.connect(rig.port);
    client.send('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n');
    await client.until(({ text, statuses }) => text.includes('some') || tookTooLong(statuses));
    client.socket.resetAndDestroy();
  },
  async (rig) => {
    const client = await RawClient.connect(rig.port);
    client.send('GET /hang HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => rig.asked.some(({ path }) => path === '/hang'));
    client.socket.destroy();
  },
  async (rig) => {
    const client = await RawClient.connect(rig.port);
    client.send('POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf of');
    client.socket.end();
    await client.untilClosed();
  },
  async (rig) => {
    // Times out: see `request_timeout`.
    const client = await RawClient.connect(rig.port);
    client.send('GET /hang?timeout HTTP/1.1\r\nHost: a\r\n\r\n');
    await client.until(({ closed, statuses }) => closed || statuses.length > 0);
    client.socket.destroy();
  },
  async (rig, random) => {
    // A stream of HTTP/2, as gRPC calls are.
    const client = session(rig.url);
    const path = random.pick(['/ok', '/stream', '/hang']);
    const stream = client.request({
      ':path': path,
      ':method': 'POST',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => undefined);
    stream.end();
    if (path === '/hang') stream.close(8);
    else await once(stream, 'response');
    if (path === '/stream') stream.close(8);
    stream.resume();
    await leave(client);
  },
  async (rig, random) => {
    const client = await RawClient.connect(rig.port);
    client.send(
      'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n',
    );
    await client.until(({ closed, statuses }) => closed || statuses.length > 0);
    // The backend closes on an x.
    if (random.below(2) === 0) client.send('x');
    else client.socket.resetAndDestroy();
    await client.untilClosed();
  },
];

/** On a busy machine any request may run out of its `request_timeout`. */
function tookTooLong(statuses: readonly number[]): boolean {
  return statuses.includes(504);
}

async function ended(rig: Rig, bytes: string): Promise<void> {
  const client = await RawClient.connect(rig.port);
  client.send(bytes);
  await client.until(({ closed, statuses }) => closed || statuses.length > 0);
  client.socket.end();
}

test(`after ${ENDINGS} random endings of requests, streams and sockets, every slot is free`, async () => {
  const origin = await startOrigin(respond);
  origin.server.on('upgrade', (_: IncomingMessage, socket: Socket) => {
    socket.on('error', () => undefined);
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n`,
    );
    socket.once('data', () => socket.destroy());
  });
  const limiter = createLimiter();
  const { gate } = gateOf(RULES, { limiter });
  const free = async (): Promise<number> => (await limiter.peek(inFlight.for('127.0.0.1'))).remaining;
  let holding = 0;
  let mostHeld = 0;
  const rig = await startRig({
    origin,
    config: { server: { request_timeout: '300ms' } },
    rule: async (facts, waiter) => {
      const outcome = await gate.decide(facts, waiter);
      if (outcome.release !== undefined) holding += 1;
      mostHeld = Math.max(mostHeld, LIMIT - (await free()));
      return outcome;
    },
    tunnels: createTunnels({
      log: keptLog(),
      traffic: { tunnelOpened: () => undefined, tunnelClosed: () => undefined },
    }),
  });
  const random = seededRandom(1);

  for (let done = 0; done < ENDINGS; done += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, async () => random.pick(ENDS)(rig, random)));
    let left = await free();
    await eventually(
      () => {
        void free().then((now) => (left = now));
        return left === LIMIT;
      },
      () => `${LIMIT - left} slots are still held after ${done + AT_ONCE} endings`,
    );
  }

  // A stream that is reset at once may never have met a rule.
  expect(holding).toBeGreaterThan(ENDINGS * 0.8);
  expect(mostHeld).toBeGreaterThan(1);
  expect(rig.finished.every(({ outcome }) => outcome !== 'refused')).toBe(true);
  await limiter.close();
});
