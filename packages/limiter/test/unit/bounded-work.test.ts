import { expect, test, vi } from 'vitest';
import { createLimiter, memoryStore, tokenBucket } from '../../src/index.ts';
import { tokenBucketAlgorithm } from '../../src/algorithms/token-bucket/token-bucket.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** States that one check may look at for something to drop: 4 sweeps of 64 places, and a few on every insert. */
const MOST_LOOKS = 4 * 64 + 8;
const KEYS = 200_000;

test.each(['live', 'expired'])(
  'a check of a full store looks at a few hundred of its %s keys, however many there are',
  (state) => {
    const clock = virtualClock();
    const limiter = createLimiter({ clock, store: memoryStore({ clock, maxKeys: KEYS }) });
    const api = tokenBucket({ name: 'api', average: 1, period: '1h' });
    for (let key = 0; key < KEYS; key += 1) limiter.checkSync(api.for(`key ${key}`));
    if (state === 'expired') clock.advance('3h');
    const looks = vi.spyOn(tokenBucketAlgorithm, 'absentAtUs');
    let most = 0;

    for (let key = 0; key < 2000; key += 1) {
      limiter.checkSync(api.for(`new key ${key}`));
      most = Math.max(most, looks.mock.calls.length);
      looks.mockClear();
    }

    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(MOST_LOOKS);
  },
);
