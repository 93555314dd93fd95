// Who floods is cut off after a bounded amount of work, and a client beside it is answered all the time. How fast is
// measured by http2-floods.soak.ts.
import { describe, expect, test } from 'vitest';
import { flood } from './flood-process.ts';
import { FLOODS, latencies, NOTHING_TAKEN, startBeside } from './http2-flood-cases.ts';

const MIB = 2 ** 20;
const MAX_GROWTH = 96 * MIB;
/** Taken before the flood is recognized, and what the kernel keeps on both sides. */
const MAX_SENT = 64 * MIB;
/** Only so that a flood which is never cut off ends. */
const PATIENCE_MS = 60_000;

describe('a client beside a flood', { timeout: 2 * PATIENCE_MS }, () => {
  test.each(FLOODS)('$name: it is served, and the flood ends', async ({ codes, ...sent }) => {
    const { proxy, client } = await startBeside();
    await latencies(client, Promise.resolve());
    const { rss } = await proxy.usage('reset');
    const attack = flood({ port: proxy.port, ...sent, reads: true, lastsMs: PATIENCE_MS });

    const during = await latencies(client, attack);
    const end = await attack;
    const after = await latencies(client, Promise.resolve());
    const { peak } = await proxy.usage('look');

    expect(end.closed).toBe(true);
    // What was not read yet when the connection ended may cost the client the last frame.
    expect([...codes, undefined]).toContain(end.goaway);
    expect(end.bytes).toBeLessThan(MAX_SENT);
    expect(Math.min(during.length, after.length)).toBeGreaterThan(0);
    expect(peak - rss).toBeLessThan(MAX_GROWTH);
  });

  test('responses that nobody takes: it is served', async () => {
    const { proxy, client } = await startBeside();
    const attack = flood({
      port: proxy.port,
      opening: NOTHING_TAKEN,
      pieces: [],
      endless: false,
      reads: true,
      lastsMs: 1000,
    });

    const during = await latencies(client, attack);

    expect(during.length).toBeGreaterThan(0);
    expect((await proxy.usage('look')).peak).toBeLessThan(256 * MIB);
  });
});
