import client from 'prom-client';
import { createLimiter, memoryStore, tokenBucket, type Limiter, type Store } from 'spillgate';
import { collectMetrics } from 'spillgate/prometheus';
import { expect, test } from 'vitest';
import { talliedClient } from '../../src/telemetry/metrics.ts';

/** A limiter that decides, denies and fails. */
async function eventful(limiter: Limiter, state: { down: boolean }): Promise<void> {
  const policies = ['a', 'b'].map((name) => tokenBucket({ name, average: 2, period: '1h' }));
  for (const policy of policies) {
    for (let at = 0; at < 4; at += 1) await limiter.check(policy.for('k'));
  }
  state.down = true;
  for (const policy of policies) await limiter.check(policy.for('k'));
}

test('says the same as prom-client itself, except how long things took', async () => {
  const memory = memoryStore();
  const state = { down: false };
  const store: Store = {
    check: async (limits, cost) =>
      state.down ? Promise.reject(new Error('down')) : memory.check(limits, cost),
    peek: async (limits, cost) => memory.peek(limits, cost),
    forget: async (limits) => memory.forget(limits),
    health: async () => ({ status: 'up', nodes: [{ name: 'n', status: 'up', detail: '' }] }),
    close: async () => memory.close(),
  };
  const limiter = createLimiter({ store, failurePolicy: 'failClosed' });
  const [plain, tallied] = [new client.Registry(), new client.Registry()];
  collectMetrics(limiter, { client, registry: plain });
  collectMetrics(limiter, { client: talliedClient, registry: tallied });

  await eventful(limiter, state);

  expect(linesOf(await tallied.metrics())).toEqual(linesOf(await plain.metrics()));
  expect(await tallied.metrics()).toMatch(/decisions_total\{.*policy="a".*outcome="denied".*\} 2$/m);
  const aggregated = client.AggregatorRegistry.aggregate([
    // Two workers.
    (await tallied.getMetricsAsJSON()) as unknown as object[],
    (await tallied.getMetricsAsJSON()) as unknown as object[],
  ] as never);
  expect(await aggregated.metrics()).toMatch(/decisions_total\{.*policy="a".*outcome="denied".*\} 4$/m);
});

/** Buckets and sums depend on the clock; counts do not. */
function linesOf(text: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => !/_bucket\{|_sum\{/.test(line))
    .toSorted();
}
