// Usage events into a pipe: who does not read must not hold the gateway.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { UsageQueue, fileSink } from '../../src/usage/usage-events.ts';
import { keptLog } from '../proxy/gateway-settings.ts';

function pipe(): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-usage-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'events');
  execFileSync('mkfifo', [path]);
  return path;
}

test('without a reader, closing takes as long as it may', async () => {
  const counts: Record<string, number> = {};
  const queue = new UsageQueue<object>({
    sink: fileSink(pipe()),
    batchSize: 10,
    flushIntervalMs: 1,
    maxQueued: 10,
    log: keptLog(),
    count: (result, events) => (counts[result] = (counts[result] ?? 0) + events),
  });
  queue.add({ id: 1 });

  await queue.close(50);

  expect(counts['dropped']).toBe(1);
});

test('a reader slower than the events gets each of them once and whole', async () => {
  const path = pipe();
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  onTestFinished(() => closeSync(reader));
  // More than a pipe holds.
  const events = Array.from({ length: 500 }, (_, id) => ({ id, text: 'x'.repeat(1000) }));
  const writing = fileSink(path).write(events, new AbortController().signal);
  let text = '';
  const read = (): number => {
    const bytes = Buffer.alloc(65_536);
    try {
      const count = readSync(reader, bytes);
      text += bytes.toString('utf8', 0, count);
    } catch (failure) {
      // Nothing there yet.
      if (!(failure instanceof Error && 'code' in failure && failure.code === 'EAGAIN')) throw failure;
    }
    return text.split('\n').length - 1;
  };

  await expect.poll(read).toBe(events.length);
  await writing;

  expect(
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
  ).toEqual(events);
});

test('a sink that never answers does not hold the end, and it is said what is lost and why', async () => {
  const log = keptLog();
  const queue = new UsageQueue<number>({
    sink: { write: async () => new Promise<void>(() => undefined), close: () => undefined },
    batchSize: 1,
    flushIntervalMs: 1,
    maxQueued: 10,
    log,
    count: () => undefined,
  });
  queue.add(1);

  await queue.close(20);
  // Requests that are still being answered.
  for (let late = 0; late < 100; late += 1) queue.add(late);

  const complaint = 'usage events are lost: the gateway stops before they are taken';
  expect(log.lines.filter((line) => line.includes(complaint))).toHaveLength(1);
});
