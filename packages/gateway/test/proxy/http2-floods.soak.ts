// How long a client waits beside a flood of HTTP/2, and after it. Measures the machine, too: run it where nothing else
// runs.
import type { ClientHttp2Session } from 'node:http2';
import { describe, expect, test } from 'vitest';
import { flood } from './flood-process.ts';
import { FLOODS, latencies, NOTHING_TAKEN, startBeside } from './http2-flood-cases.ts';

const FLOOD_MS = 5000;
const NOISE_MS = 250;
/** One stall at most: while the flood is recognized. */
const MAX_STALL_MS = 3000;

describe('a client beside a flood', { timeout: 60_000 }, () => {
  test.each(FLOODS)('$name: it is served as fast as ever', async ({ opening, pieces, endless }) => {
    const { proxy, client } = await startBeside();
    const usual = await usualP99(client);
    const attack = flood({ port: proxy.port, opening, pieces, endless, reads: true, lastsMs: FLOOD_MS });

    const during = await latencies(client, attack);
    const after = await latencies(client, time(500));

    expect((await attack).ms).toBeLessThan(FLOOD_MS);
    expect(Math.max(...during)).toBeLessThan(MAX_STALL_MS);
    expect(p99(after)).toBeLessThan(2 * usual + NOISE_MS);
  });

  test('responses that nobody takes: it is served as fast as ever', async () => {
    const { proxy, client } = await startBeside();
    const usual = await usualP99(client);
    const attack = flood({
      port: proxy.port,
      opening: NOTHING_TAKEN,
      pieces: [],
      endless: false,
      reads: true,
      lastsMs: FLOOD_MS,
    });

    expect(p99(await latencies(client, attack))).toBeLessThan(2 * usual + NOISE_MS);
  });
});

async function usualP99(client: ClientHttp2Session): Promise<number> {
  // Code that has not run yet is slow.
  await latencies(client, time(1000));
  return p99(await latencies(client, time(1000)));
}

async function time(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

function p99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(0.99 * sorted.length)] ?? 0;
}
