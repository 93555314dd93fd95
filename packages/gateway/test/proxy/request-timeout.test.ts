import { expect, test } from 'vitest';
import type { Admission } from '../../src/rules/gate.ts';
import { ADMITTED, eventually, exchange, startOrigin, startRig } from './rig.ts';

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
  const config = { server: { request_timeout: '800ms' } };
  const rule = admitAfter(700);
  const { port, finished } = await startRig({ origin, config, rule });

  const client = await exchange(port, GET);

  expect(client.text).toContain('"code":"REQUEST_TIMEOUT"');
  expect(origin.requests).toHaveLength(1);
  await eventually(() => finished.length === 1);
  expect(finished[0]?.durationMs).toBeLessThan(1400);
});

test('without a limit a wait at the gate is no reason to give up', async () => {
  const origin = await startOrigin();
  const rule = admitAfter(20);
  const { port } = await startRig({ origin, rule });

  expect((await exchange(port, GET)).statuses).toEqual([200]);
});
