// Clients that go away: nothing of theirs stays.
import { expect, test } from 'vitest';
import { ADMITTED, eventually, RawClient, startOrigin, startRig, stopwatch } from './rig.ts';
import { letArrive } from './local-server.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const NEVER = () => undefined;
/** A busy machine may make any single time long, but not most of them. */
const TIMES = 5;

test.each([
  ['while the upstream thinks', GET, NEVER],
  [
    'in the middle of the answer',
    GET,
    (_: unknown, response: { write(text: string): void }) => response.write('begun'),
  ],
  [
    'in the middle of the body',
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(20_000)}`,
    NEVER,
  ],
] as const)('a client that goes away %s takes its upstream request with it', async (_, bytes, respond) => {
  const closedAt: number[] = [];
  const passedMs = stopwatch();
  let begun = 0;
  const origin = await startOrigin((incoming, response) => {
    begun += 1;
    respond(incoming, response);
    incoming.socket.on('close', () => closedAt.push(passedMs()));
  });
  const { port, finished, upstreams } = await startRig({ origin });
  const tookMs: number[] = [];
  for (let time = 1; time <= TIMES; time += 1) {
    const client = await RawClient.connect(port);
    client.send(bytes);
    await eventually(() => begun === time);
    await letArrive();

    const leftAt = passedMs();
    client.socket.resetAndDestroy();
    await eventually(() => closedAt.length === time);
    tookMs.push((closedAt.at(-1) ?? Infinity) - leftAt);
  }

  const median = tookMs.toSorted((a, b) => a - b)[Math.floor(TIMES / 2)];
  expect(median).toBeLessThan(100);
  await eventually(() => finished.length === TIMES);
  for (const request of finished) {
    expect(request).toMatchObject({ outcome: 'aborted', reason: 'CLIENT_GONE' });
  }
  expect(upstreams.inFlight).toBe(0);
});

test('a client that closes without waiting for its answer is noticed too', async () => {
  let closed = false;
  const origin = await startOrigin((incoming) => incoming.socket.on('close', () => (closed = true)));
  const { port, finished } = await startRig({ origin });
  const client = await RawClient.connect(port);
  client.send(GET);
  await eventually(() => origin.requests.length === 1);

  client.socket.destroy();
  await eventually(() => closed);

  await eventually(() => finished.length === 1);
  expect(finished).toMatchObject([{ outcome: 'aborted' }]);
});

test('a client that goes away while the gate thinks costs no upstream request', async () => {
  const origin = await startOrigin();
  let admit: (() => void) | undefined;
  const { port, finished } = await startRig({
    origin,
    rule: async () => {
      await new Promise<void>((resolve) => (admit = resolve));
      return ADMITTED;
    },
  });
  const client = await RawClient.connect(port);
  client.send(GET);
  await eventually(() => admit !== undefined);
  client.socket.resetAndDestroy();
  await eventually(() => finished.length === 1);

  admit?.();
  await letArrive();

  expect(origin.requests).toEqual([]);
  expect(finished).toMatchObject([{ outcome: 'aborted', status: undefined }]);
});
