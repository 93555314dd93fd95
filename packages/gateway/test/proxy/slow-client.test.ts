// A client that is slow on purpose holds little, and nobody else waits for it.
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ReaderWatch, TransferRate } from '../../src/proxy/request-timeouts.ts';
import { eventually, RawClient, startOrigin, startRig } from './rig.ts';

const GET = 'GET /other HTTP/1.1\r\nHost: a\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx';
const OTHER_ADDRESS = '127.0.0.2';
/** What was buffered before anybody waited: it says nothing. */
const IN_THE_SYSTEM = 2_500_000;
const NOT_HELD_BACK = { backend: { request_buffer_size: 0 } };

test('the time that a client keeps us waiting is measured against what it sent', () => {
  const rate = new TransferRate(100);
  const sends = (fromMs: number, toMs: number, totalBytes: number): boolean => {
    rate.wait(fromMs);
    return rate.arrived(totalBytes, toMs);
  };

  // The first ten seconds are free, and 100 bytes pay for one second each time.
  expect(sends(0, 9000, 1)).toBe(true);
  // We did not wait for it here.
  expect(sends(50_000, 51_000, 1)).toBe(true);
  expect(sends(51_000, 52_000, 100)).toBe(true);
  expect(sends(52_000, 52_020, 101)).toBe(false);
});

describe('a client that takes its response slowly', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  /** After how many seconds it is cut off; undefined: not within an hour. */
  function cutOffAfterS(bytesPerS: number, takenBy: (second: number) => number): number | undefined {
    let cutOff: number | undefined;
    const startedAt = performance.now();
    const elapsedS = (): number => (performance.now() - startedAt) / 1000;
    const watch = new ReaderWatch({
      timeoutMs: 30_000,
      bytesPerS,
      taken: () => IN_THE_SYSTEM + takenBy(elapsedS()),
      tooSlow: () => {
        cutOff ??= elapsedS();
      },
    });
    watch.stalled();
    vi.advanceTimersByTime(3_600_000);
    watch.end();
    return cutOff;
  }

  test.each<[string, (second: number) => number, number | undefined]>([
    ['nothing', () => 0, 30],
    ['a byte per second', (second) => second, 15],
    ['somewhat less than it has to', (second) => 200 * second, 65],
    ['somewhat more', (second) => 250 * second, undefined],
    ['much in large steps', (second) => 100_000 * Math.floor(second / 25), undefined],
    ['little in large steps', (second) => 2000 * Math.floor(second / 25), 25],
    ['everything, and then nothing', (second) => 100_000 * Math.min(second, 10), 40],
  ])('takes %s', (_name, takenBy, expected) => {
    expect(cutOffAfterS(240, takenBy)).toBe(expected);
  });

  test('has all the time it wants without a least rate, as long as it takes something', () => {
    expect(cutOffAfterS(0, (second) => second)).toBeUndefined();
    expect(cutOffAfterS(0, () => 0)).toBe(30);
  });

  test('is measured over all its waits, and not in between', () => {
    let taken = 0;
    let cutOff = 0;
    const watch = new ReaderWatch({
      timeoutMs: 30_000,
      bytesPerS: 100,
      taken: () => taken,
      tooSlow: () => (cutOff += 1),
    });
    const wait = (bytes: number): void => {
      watch.stalled();
      vi.advanceTimersByTime(4000);
      taken += bytes;
      watch.goesOn();
      vi.advanceTimersByTime(100_000);
    };

    wait(100);
    wait(100);
    wait(100);
    expect(cutOff).toBe(0);
    wait(100);
    expect(cutOff).toBe(1);
  });
});

test('without a least rate every body is fast enough', () => {
  const rate = new TransferRate(0);
  rate.wait(0);

  expect(rate.arrived(1, 10_000_000)).toBe(true);
});

test('a body that drips gets a 408, before the next byte would', async () => {
  const origin = await startOrigin();
  const { port, finished } = await startRig({ origin, config: NOT_HELD_BACK });
  const client = await RawClient.connect(port);
  client.send(POST);
  await eventually(() => origin.requests[0]?.body === 'x');
  jumpAhead(20_000);

  client.send('x');
  await client.untilClosed();

  expect(client.statuses).toEqual([408]);
  await eventually(() => finished.length === 1);
  expect(finished[0]).toMatchObject({ reason: 'BODY_TIMEOUT', bytesReceived: 2 });
});

test('one address has so many requests in flight and no more, and others are served', async () => {
  const held: ServerResponse[] = [];
  const origin = await startOrigin(({ url }, response) =>
    url === '/other' ? response.end('ok') : held.push(response),
  );
  const { port, finished } = await startRig({
    origin,
    config: { server: { max_concurrent_requests_per_address: 2 } },
  });
  const clients = [await RawClient.connect(port), await RawClient.connect(port)];
  for (const client of clients) client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await eventually(() => held.length === 2);

  const third = await RawClient.connect(port);
  third.send(GET);
  await third.untilClosed();
  const beside = await RawClient.connect(port, false, OTHER_ADDRESS);
  beside.send(GET);
  await beside.until(({ statuses }) => statuses.length === 1);
  for (const response of held) response.end('ok');
  await eventually(() => finished.length === 4);
  const afterwards = await RawClient.connect(port);
  afterwards.send(GET);
  await afterwards.until(({ statuses }) => statuses.length === 1);

  expect(third.statuses).toEqual([429]);
  expect(third.text).toContain('"code":"TOO_MANY_REQUESTS_OF_CLIENT"');
  expect(beside.statuses).toEqual([200]);
  expect(afterwards.statuses).toEqual([200]);
});

test('bodies of one address that drip leave backend connections for others', async () => {
  const origin = await startOrigin();
  const { port } = await startRig({ origin, maxConnections: 4, config: NOT_HELD_BACK });
  for (let at = 0; at < 6; at += 1) (await RawClient.connect(port)).send(POST);
  await eventually(() => origin.requests.length >= 2);

  const beside = await RawClient.connect(port, false, OTHER_ADDRESS);
  beside.send(GET);
  await beside.until(({ statuses }) => statuses.length === 1);

  expect(beside.statuses).toEqual([200]);
  expect(origin.requests.filter(({ method }) => method === 'POST')).toHaveLength(2);
});

function jumpAhead(ms: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
  onTestFinished(() => void vi.restoreAllMocks());
}
