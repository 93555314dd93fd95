import { describe, expect, test } from 'vitest';
import { createLimiter, memoryStore, tokenBucket, type Limiter } from '../../src/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';

const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });

function bounded(maxKeys: number): { limiter: Limiter; clock: VirtualClock } {
  const clock = virtualClock();
  return { clock, limiter: createLimiter({ clock, store: memoryStore({ clock, maxKeys }) }) };
}

async function countKeys(limiter: Limiter): Promise<number> {
  const { nodes } = await limiter.health();
  return Number(/^(\d+) of /.exec(nodes[0]?.detail ?? '')?.[1] ?? Number.NaN);
}

describe('many keys', () => {
  test('a million expired keys are swept a few at a time, by the keys that come after them', async () => {
    const { limiter, clock } = bounded(4_000_000);
    for (let key = 0; key < 1_000_000; key += 1) limiter.checkSync(api.for(`old ${key}`));
    const before = await countKeys(limiter);
    clock.advance('1d');

    const longestMs = longestCheckMs(limiter, 300_000);

    // oxlint-disable-next-line no-console -- a measurement to read; a test must not depend on the machine's speed
    console.log(
      `longest of 300,000 checks while a million expired keys are swept: ${longestMs.toFixed(3)} ms`,
    );
    expect(before).toBe(1_000_000);
    expect(await countKeys(limiter)).toBeLessThan(1_000_000);
  });

  test('two million distinct keys with room for 10,000 stay within the room', async () => {
    const { limiter, clock } = bounded(10_000);
    const counts = new Set<number>();
    let passed = 0;

    for (let key = 0; key < 2_000_000; key += 1) {
      if (limiter.checkSync(api.for(`key ${key}`), { cost: 10 }).allowed) passed += 1;
      if (key % 100_000 === 99_999) counts.add(await countKeys(limiter));
    }
    clock.advance('1d');
    const later = await limiter.check(api.for('key 0'));

    expect([...counts]).toEqual([10_000]);
    // One each for the keys that fit, and one for the bucket that all the others share.
    expect(passed).toBe(10_001);
    expect(later.allowed).toBe(true);
  });

  test('keys that come and go never overflow a store with room for three times those that are live at once', async () => {
    const { limiter, clock } = bounded(2000);
    let overflows = 0;
    let denied = 0;

    for (let key = 0; key < 200_000; key += 1) {
      const decision = limiter.checkSync(api.for(`key ${key}`));
      if (decision.source === 'overflow') overflows += 1;
      if (!decision.allowed) denied += 1;
      // A state lives for 6 s: 600 keys at a time.
      clock.advance('10ms');
    }

    expect({ overflows, denied }).toEqual({ overflows: 0, denied: 0 });
    expect(await countKeys(limiter)).toBeLessThanOrEqual(2000);
  });
});

function longestCheckMs(limiter: Limiter, keys: number): number {
  let longestMs = 0;
  for (let key = 0; key < keys; key += 1) {
    const limit = api.for(`new ${key}`);
    const startMs = performance.now();
    limiter.checkSync(limit);
    longestMs = Math.max(longestMs, performance.now() - startMs);
  }
  return longestMs;
}
