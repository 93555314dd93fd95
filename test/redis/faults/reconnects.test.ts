import { createServer, type AddressInfo } from 'node:net';
import { redisStore } from 'spillgate/redis';
import { afterEach, expect, test } from 'vitest';
import { eventually } from '../servers.ts';

/** The first ones follow each other quickly. */
const QUICK_ATTEMPTS = 5;
const STEADY_ATTEMPTS = 3;

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** Takes connections and closes them at once; answers when each of them came. */
async function startRefusing(): Promise<{ readonly url: string; readonly attempts: readonly number[] }> {
  const attempts: number[] = [];
  const server = createServer((socket) => {
    attempts.push(performance.now());
    socket.on('error', () => undefined).destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  // What a server that listens by TCP has.
  return { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`, attempts };
}

test('in a steady outage every package tries to connect about once a second, not more often', async () => {
  const runs = (['ioredis', 'iovalkey', 'redis'] as const).map(async (clientPackage) => {
    const { url, attempts } = await startRefusing();
    const store = redisStore({ url, clientPackage });
    cleanups.push(() => store.close());
    await eventually('there were enough attempts', () => attempts.length > QUICK_ATTEMPTS + STEADY_ATTEMPTS);

    const [first = 0, last = 0] = [attempts[QUICK_ATTEMPTS], attempts[QUICK_ATTEMPTS + STEADY_ATTEMPTS]];
    // On a busy machine the first of them may be late, and the last on time.
    expect(last - first).toBeGreaterThan((STEADY_ATTEMPTS - 0.5) * 1000);
  });

  await Promise.all(runs);
});
