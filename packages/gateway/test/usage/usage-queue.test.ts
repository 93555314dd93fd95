import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RejectedBatch, UsageQueue, type UsageSink } from '../../src/usage/usage-events.ts';
import { keptLog } from '../proxy/gateway-settings.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

interface Taken {
  readonly batches: number[][];
  readonly counts: Record<string, number>;
  readonly queue: UsageQueue<number>;
}

/** `takes` says what becomes of each batch: nothing if it is taken. */
function queueOf(
  takes: (batch: readonly number[], attempt: number) => Error | undefined = () => undefined,
): Taken {
  const batches: number[][] = [];
  const counts: Record<string, number> = {};
  const sink: UsageSink<number> = {
    write: async (events) => {
      batches.push([...events]);
      const failure = takes(events, batches.length);
      return failure === undefined ? Promise.resolve() : Promise.reject(failure);
    },
    close: () => undefined,
  };
  const queue = new UsageQueue<number>({
    sink,
    batchSize: 3,
    flushIntervalMs: 100,
    maxQueued: 5,
    log: keptLog(),
    count: (result, events) => (counts[result] = (counts[result] ?? 0) + events),
  });
  return { batches, counts, queue };
}

test('events wait for others for a while, and a full batch does not', async () => {
  const { queue, batches } = queueOf();

  queue.add(1);
  await vi.advanceTimersByTimeAsync(99);
  const early = batches.length;
  await vi.advanceTimersByTimeAsync(1);
  for (const event of [2, 3, 4]) queue.add(event);
  await vi.advanceTimersByTimeAsync(0);

  expect(early).toBe(0);
  expect(batches).toEqual([[1], [2, 3, 4]]);
});

test('a batch that is not taken is sent again, before any other and with growing pauses', async () => {
  const { queue, batches, counts } = queueOf((_, attempt) => (attempt <= 2 ? new Error('down') : undefined));

  for (const event of [1, 2, 3]) queue.add(event);
  await vi.advanceTimersByTimeAsync(0);
  queue.add(4);
  await vi.advanceTimersByTimeAsync(499);
  const first = batches.length;
  await vi.advanceTimersByTimeAsync(1);
  const second = batches.length;
  await vi.advanceTimersByTimeAsync(1000 + 100);

  expect([first, second]).toEqual([1, 2]);
  expect(batches).toEqual([[1, 2, 3], [1, 2, 3], [1, 2, 3], [4]]);
  expect(counts).toEqual({ repeated: 6, sent: 4 });
});

test('events beyond the bound are dropped and counted, and those that wait are kept', async () => {
  const { queue, batches, counts } = queueOf((_, attempt) => (attempt === 1 ? new Error('down') : undefined));

  for (let event = 1; event <= 10; event += 1) queue.add(event);
  await vi.advanceTimersByTimeAsync(2000);

  expect(counts).toEqual({ dropped: 5, repeated: 3, sent: 5 });
  expect(batches.flat()).toEqual([1, 2, 3, 1, 2, 3, 4, 5]);
});

test('a batch that is refused for good does not hold up the others', async () => {
  const { queue, counts } = queueOf((batch) => (batch.includes(1) ? new RejectedBatch('400') : undefined));

  for (const event of [1, 2, 3, 4]) queue.add(event);
  await vi.advanceTimersByTimeAsync(200);

  expect(counts).toEqual({ rejected: 3, sent: 1 });
});

test('what waits is sent at the end, and what nobody takes in time is counted', async () => {
  const taking = queueOf();
  const failing = queueOf(() => new Error('down'));
  for (const event of [1, 2, 3, 4]) {
    taking.queue.add(event);
    failing.queue.add(event);
  }

  const closed = Promise.all([taking.queue.close(1000), failing.queue.close(1000)]);
  await vi.advanceTimersByTimeAsync(2000);
  await closed;

  expect(taking.counts).toEqual({ sent: 4 });
  expect(failing.counts).toMatchObject({ dropped: 4 });
});
