import { expect, test } from 'vitest';
import type { Admission } from '../../src/rules/rule-outcome.ts';
import { facts, gateOf } from '../rules/facts.ts';
import { ask, session } from './http2-client.ts';
import {
  ADMITTED,
  eventually,
  exchange,
  RawClient,
  startOrigin,
  startRig,
  stopwatch,
  type RigOptions,
} from './rig.ts';
import { letArrive } from './local-server.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

/** Admits after a while, as a leaky bucket does. */
function admitAfter(ms: number): () => Promise<Admission> {
  return async () => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return ADMITTED;
  };
}

test('what a request waits at the gate counts: if nothing is left, it is not forwarded', async () => {
  const origin = await startOrigin();
  const config = { server: { request_timeout: '100ms' } };
  const rule = admitAfter(150);
  const { port } = await startRig({ origin, config, rule });

  const client = await exchange(port, GET);

  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
  expect(origin.requests).toEqual([]);
});

test('what is left after the gate is what the upstream has', async () => {
  const origin = await startOrigin(() => undefined);
  const config = { server: { request_timeout: '1500ms' } };
  const rule = admitAfter(750);
  const { port, finished } = await startRig({ origin, config, rule });
  const passedMs = stopwatch();

  const client = await exchange(port, GET);
  const tookMs = passedMs();

  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
  expect(origin.requests).toHaveLength(1);
  await eventually(() => finished.length === 1);
  // Had the upstream the whole time again, it would be 2,250.
  expect(tookMs).toBeLessThan(2250);
});

test('without a limit a wait at the gate is no reason to give up', async () => {
  const origin = await startOrigin();
  const rule = admitAfter(20);
  const { port } = await startRig({ origin, rule });

  expect((await exchange(port, GET)).statuses).toEqual([200]);
});

const UPGRADE = GET.replace('Host: a', 'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket');
const NO_TUNNELS = {
  open: async () => Promise.reject(new Error('not opened')),
  drain: async () => undefined,
};

/** A gate whose next request waits for 20 minutes, and how many wait there. */
function slowGate(): { readonly rule: NonNullable<RigOptions['rule']>; readonly waiting: () => number } {
  const { gate } = gateOf(
    '  policies: { p: { algorithm: leakyBucket, average: 1, period: 20m, max_delay: 1h } }\n  rules: [{ name: r, policies: [p] }]\n',
  );
  void gate.decide(facts({ address: '127.0.0.1' }));
  let waiting = 0;
  return {
    waiting: () => waiting,
    rule: async (request, waiter) => {
      waiting += 1;
      const ruling = await gate.decide(request, waiter);
      waiting -= 1;
      return ruling;
    },
  };
}

test('a wait for its turn is broken off when the time of the request is over', async () => {
  const origin = await startOrigin();
  const { rule, waiting } = slowGate();
  const { port, finished } = await startRig({
    origin,
    rule,
    config: { server: { request_timeout: '100ms' } },
  });

  const client = await exchange(port, GET);

  expect(client.statuses).toEqual([504]);
  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
  await eventually(() => finished.length === 1 && waiting() === 0);
  expect(finished).toMatchObject([{ outcome: 'failed', reason: 'REQUEST_TIMEOUT', status: 504 }]);
  expect(origin.requests).toEqual([]);
});

test('so is that of a WebSocket', async () => {
  const origin = await startOrigin();
  const { rule, waiting } = slowGate();
  const config = { server: { request_timeout: '100ms' } };
  const { port, finished } = await startRig({ origin, rule, config, tunnels: NO_TUNNELS });

  const client = await exchange(port, UPGRADE);

  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
  await eventually(() => finished.length === 1 && waiting() === 0);
  expect(finished).toMatchObject([{ reason: 'REQUEST_TIMEOUT', status: 504 }]);
});

test('so is a wait for a decision, and what is decided later changes nothing', async () => {
  const origin = await startOrigin();
  let decided = false;
  const { port, finished } = await startRig({
    origin,
    config: { server: { request_timeout: '50ms' } },
    rule: async () => {
      const ruling = await admitAfter(200)();
      decided = true;
      return ruling;
    },
  });

  const client = await exchange(port, GET + GET, 2);

  expect(client.statuses).toEqual([504, 504]);
  await eventually(() => decided && finished.length === 2);
  await letArrive();
  expect(origin.requests).toEqual([]);
});

test('the time that the ruling gives holds during the wait', async () => {
  const origin = await startOrigin();
  const { rule } = slowGate();
  const { port } = await startRig({
    origin,
    config: { server: { request_timeout: '1h' } },
    rule: async (request, waiter) => rule(request, { waits: (turn) => waiter?.waits(turn, 80) }),
  });

  expect((await exchange(port, GET)).text).toContain('"code":"REQUEST_TIMEOUT"');
});

test.each([
  ['HTTP/1', async (port: number) => (await RawClient.connect(port)).send(GET).socket],
  ['a WebSocket', async (port: number) => (await RawClient.connect(port)).send(UPGRADE).socket],
] as const)('a client of %s that goes away takes its place in the queue with it', async (_, connect) => {
  const origin = await startOrigin();
  const { rule, waiting } = slowGate();
  const { port, finished } = await startRig({ origin, rule, tunnels: NO_TUNNELS });
  const socket = await connect(port);
  await eventually(() => waiting() === 1);

  socket.resetAndDestroy();
  await eventually(() => waiting() === 0);

  await eventually(() => finished.length === 1);
  expect(finished).toMatchObject([{ outcome: 'aborted', reason: 'CLIENT_GONE' }]);
  expect(origin.requests).toEqual([]);
});

test('a client of HTTP/2 that breaks off a request takes its place in the queue with it', async () => {
  const origin = await startOrigin();
  const { rule, waiting } = slowGate();
  const { url, finished } = await startRig({
    origin,
    rule: (request, waiter) => (request.path === '/free' ? ADMITTED : rule(request, waiter)),
  });
  const client = session(url);
  const stream = client.request({ ':path': '/' });
  stream.on('error', () => undefined);
  await eventually(() => waiting() === 1);

  stream.close(8);
  await eventually(() => waiting() === 0);

  expect((await ask(client, { ':path': '/free' })).body).toBe('ok');
  expect(finished.map(({ outcome }) => outcome)).toEqual(['aborted', 'forwarded']);
  expect(origin.requests).toHaveLength(1);
});
