// Everything goes wrong at once, at random: the books still balance.
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2';
import { expect, test } from 'vitest';
import { leave } from './http2-client.ts';
import { ADMITTED, eventually, RawClient, REFUSED, startOrigin, startRig } from './rig.ts';

const REQUESTS = 1000;
const AT_ONCE = 40;

const chance = (share: number): boolean => Math.random() < share;
const pause = async (maxMs: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.random() * maxMs));

/** Answers, answers half, falls silent, breaks off, or does not listen. */
async function misbehave(request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.on('error', () => undefined);
  if (chance(0.1)) {
    request.socket.destroy();
    return;
  }
  if (chance(0.8)) request.resume();
  if (chance(0.5)) await pause(20);
  if (chance(0.1)) response.writeEarlyHints({ link: '</a>; rel=preload' });
  if (chance(0.3)) response.setHeader('Content-Length', '20000');
  response.write('x'.repeat(10_000));
  if (chance(0.5)) await pause(10);
  if (chance(0.1)) response.destroy();
  else response.end('y'.repeat(10_000));
}

async function overHttp1(port: number): Promise<void> {
  const outgoing = httpRequest({ port, method: chance(0.5) ? 'POST' : 'GET', path: '/x', agent: false });
  const closed = new Promise((resolve) => outgoing.on('close', resolve));
  outgoing.on('error', () => undefined);
  outgoing.on('response', (response) => {
    response.on('error', () => undefined);
    if (chance(0.8)) response.resume();
    else response.destroy();
  });
  if (chance(0.3)) outgoing.write('z'.repeat(50_000));
  if (chance(0.2)) void pause(15).then(() => outgoing.destroy());
  outgoing.end();
  await closed;
}

async function overHttp2(session: ClientHttp2Session): Promise<void> {
  if (session.destroyed || session.closed) return;
  const post = chance(0.5);
  const stream = session.request({ ':path': '/x', ':method': post ? 'POST' : 'GET' }, { endStream: !post });
  // Node.js does not close a stream whose answer came before it had sent everything; its answer ends all the same.
  const closed = new Promise((resolve) => stream.on('end', resolve).on('close', resolve));
  stream.on('error', () => undefined);
  stream.resume();
  if (post) stream.end('z'.repeat(50_000));
  if (chance(0.2)) void pause(15).then(() => stream.close(constants.NGHTTP2_CANCEL));
  await closed;
}

async function overRawSocket(port: number): Promise<void> {
  const client = await RawClient.connect(port);
  client.send('POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc');
  await pause(20);
  if (chance(0.5)) client.socket.resetAndDestroy();
  else client.socket.end();
  await client.untilClosed();
}

test('whatever goes wrong, every request ends once, and nothing stays', async () => {
  const origin = await startOrigin((request, response) => void misbehave(request, response));
  const rig = await startRig({
    origin,
    config: {
      server: { body_idle_timeout: '200ms', max_concurrent_requests: 30 },
      backend: { timeout: '200ms' },
    },
    rule: async () => {
      if (chance(0.5)) await pause(5);
      return chance(0.1) ? REFUSED : ADMITTED;
    },
  });
  const session = connectHttp2(rig.url);
  session.on('error', () => undefined);
  let left = REQUESTS;

  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left > 0) {
        left -= 1;
        const kind = Math.random();
        if (kind < 0.5) await overHttp1(rig.port);
        else await (kind < 0.9 ? overHttp2(session) : overRawSocket(rig.port));
      }
    }),
  );
  await leave(session);
  await eventually(() => rig.upstreams.inFlight === 0 && rig.opened.connections === 0);

  const ids = rig.finished.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const asked = new Set(rig.asked.map(({ id }) => id));
  expect(ids.filter((id) => asked.has(id))).toHaveLength(asked.size);
  expect(new Set(rig.finished.map(({ outcome }) => outcome)).size).toBeGreaterThan(3);
  const last = await RawClient.connect(rig.port);
  last.send('GET /last HTTP/1.1\r\nHost: a\r\n\r\n');
  await last.until(({ statuses, closed }) => closed || statuses.length > 0);
});
