import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createLimiter, leakyBucket, tokenBucket, type Decision, type Limit } from '../../../src/index.ts';
import { openRaw } from '../client.ts';
import { startServer, type Framework, type RunningServer } from '../running-server.ts';

const api = tokenBucket({ name: 'api', average: 1000, burst: 1000, period: '1h' });
const queue = leakyBucket({ name: 'queue', average: 1, period: '1h', maxDelay: '100h' });
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

export function abortTests<Request>(framework: Framework<Request>): void {
  test('a client that goes while its limits are checked leaves nothing behind', async () => {
    const surprises = unhandledRejections();
    const gate = slowLimiter();
    const running = await startServer<Request>(framework, { limiter: gate.limiter, policies: api });
    const closed = closedResponses(running);
    const client = await openRaw(running.port, GET);
    await eventually(() => gate.waiting() === 1);

    client.socket.destroy();
    await eventually(() => closed() === 1);
    gate.open();
    const next = await running.get();

    expect(next.status).toBe(200);
    expect(running.served()).toBe(1); // the one that stayed
    expect(surprises).toEqual([]);
  });

  test('a client that goes while it waits for its turn leaves no timer behind', async () => {
    const limiter = createLimiter();
    const running = await startServer<Request>(framework, { limiter, policies: queue });
    expect((await running.get()).status).toBe(200);
    const starts = vi.spyOn(globalThis, 'setTimeout');
    const stops = vi.spyOn(globalThis, 'clearTimeout');
    /** The timer that waits for the turn: it is the only one for about an hour. */
    const waiting = (): unknown => {
      const at = starts.mock.calls.findIndex(([, delayMs = 0]) => delayMs > 3_000_000);
      return starts.mock.results[at]?.value;
    };
    const client = await openRaw(running.port, GET);
    await eventually(() => waiting() !== undefined);

    client.socket.destroy();

    await eventually(() => stops.mock.calls.some(([timer]) => timer === waiting()));
    await connectionsAreGone(running);
    expect(running.served()).toBe(1);
  });

  test('a client that goes in the middle of its body gets no handler stuck', async () => {
    const running = await startServer<Request>(framework, { limiter: createLimiter(), policies: api });
    const client = await openRaw(
      running.port,
      'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf',
    );
    await client.until((received) => received.includes('200 OK'));

    client.socket.destroy();
    await connectionsAreGone(running);

    expect((await running.get()).status).toBe(200);
  });
}

/** A limiter that answers when it is told to. */
function slowLimiter() {
  const inner = createLimiter();
  const gates: (() => void)[] = [];
  let isOpen = false;
  return {
    waiting: () => gates.length,
    open(): void {
      isOpen = true;
      for (const gate of gates) gate();
    },
    limiter: {
      async check(limits: readonly Limit[], options: { cost?: number | undefined }): Promise<Decision> {
        if (!isOpen) await new Promise<void>((resolve) => gates.push(resolve));
        return inner.check(limits, { cost: options.cost });
      },
    },
  };
}

/** Counts the responses whose connection has ended. */
function closedResponses({ server }: RunningServer): () => number {
  let closed = 0;
  server.on('request', (_request, response: ServerResponse) => {
    response.once('close', () => (closed += 1));
  });
  return () => closed;
}

async function connectionsAreGone({ server }: RunningServer): Promise<void> {
  server.closeIdleConnections();
  const count = (): Promise<number> =>
    new Promise((resolve) => server.getConnections((_, open) => resolve(open)));
  await eventually(async () => (await count()) === 0);
}

/** Waits without a timer of its own, for as long as the test may take. */
async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}

function unhandledRejections(): unknown[] {
  const surprises: unknown[] = [];
  const note = (reason: unknown): number => surprises.push(reason);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return surprises;
}
