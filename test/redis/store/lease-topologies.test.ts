// Leases on every kind of place for states: taken where the key lives, and never too much.
import { createLimiter, tokenBucket, type Limiter } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { describe, expect, test } from 'vitest';
import { Outcome } from '../../../packages/limiter/src/algorithms/algorithm.ts';
import {
  decideBucket,
  type BucketState,
  type CompiledBucket,
} from '../../../packages/limiter/src/algorithms/bucket/bucket.ts';
import { seededRandom } from '../../../packages/limiter/src/testing/random.ts';
import { TOPOLOGIES } from './topologies.ts';

const PATIENT_MS = 20_000;
const START_US = 1_000_000_000_000;
const KEYS = ['ann', 'bob', 'eve'] as const;
const REQUESTS = 4500;
/** One of each kind. */
const KINDS = [
  'a url, opened by redis',
  'three shards',
  'sentinels',
  'a cluster of three, opened by ioredis',
];

describe.each(TOPOLOGIES.filter(({ name }) => KINDS.includes(name)))('$name', ({ start }) => {
  test.each([true, 'auto'] as const)(
    'leases: %s, and one exact bucket per key would have admitted everything',
    { timeout: 120_000 },
    async (leases) => {
      const setup = await start();
      const random = seededRandom(7);
      const api = tokenBucket({ name: `api-${leases}`, average: 1000, burst: 1000, period: '1s', leases });
      let nowUs = START_US;
      const limiters: Limiter[] = [];
      try {
        for (let process = 0; process < 2; process += 1) {
          const store = redisStore({
            ...setup.place,
            clock: () => nowUs,
            timeoutMs: PATIENT_MS,
            connectTimeoutMs: PATIENT_MS,
          });
          limiters.push(createLimiter({ store, deadlineMs: PATIENT_MS }));
        }
        const replays = new Map(
          KEYS.map((key) => [key, new ExactBucket(api.plan.numbers as CompiledBucket)]),
        );
        let leased = 0;
        for (let request = 0; request < REQUESTS; request += 1) {
          // Room to spare, and then a flood.
          nowUs += request % 1500 < 1300 ? 1 + random.below(1000) : random.below(20);
          const key = random.pick([...KEYS]);
          const { allowed, source } = await random.pick(limiters).check(api.for(key));
          if (allowed) replays.get(key)?.admit(1, nowUs);
          if (source === 'lease') leased += 1;
        }

        expect(leased).toBeGreaterThan(REQUESTS / 4);
        expect([...replays.values()].map(({ refused }) => refused)).toEqual([0, 0, 0]);
      } finally {
        await Promise.all(limiters.map(async (limiter) => limiter.close()));
        await setup.stop();
      }
    },
  );
});

class ExactBucket {
  refused = 0;
  private readonly numbers: CompiledBucket;
  private state: BucketState | undefined;

  constructor(numbers: CompiledBucket) {
    this.numbers = numbers;
  }

  admit(cost: number, atUs: number): void {
    const { allowed, spent } = decideBucket(this.state, this.numbers, cost, atUs, new Outcome());
    if (allowed) this.state = spent;
    else this.refused += cost;
  }
}
