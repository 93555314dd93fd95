// Where limits of one reservation live on several servers, each of them settles its own.
import { createLimiter, fixedWindow, slidingWindowLog } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { describe, expect, test } from 'vitest';
import { TOPOLOGIES } from './topologies.ts';

const NAMES = ['three shards', 'sentinels', 'a cluster of three, opened by ioredis'];
const requests = fixedWindow({ name: 'requests', quota: 100, window: '1d' });
const tokens = slidingWindowLog({ name: 'tokens', quota: 5000, window: '1d' });

describe.each(TOPOLOGIES.filter(({ name }) => NAMES.includes(name)))('$name', ({ start }) => {
  test('reservations of several keys are settled exactly', { timeout: 60_000 }, async () => {
    const { place, stop } = await start();
    const limiter = createLimiter({ store: redisStore(place), deadlineMs: 10_000 });
    let used = 0;

    for (let turn = 1; turn <= 20; turn += 1) {
      const limits = [
        tokens.for('all'),
        tokens.for(`user ${turn}`),
        requests.for(`user ${turn}`).withCost(1),
      ];
      const reservation = await limiter.reserve(limits, { cost: 100 });
      expect(reservation.allowed).toBe(true);
      await reservation.extend(50);
      // Some less, some more than reserved.
      await reservation.settle(turn * 10);
      used += turn * 10;
    }

    expect((await limiter.peek(tokens.for('all'))).remaining).toBe(5000 - used);
    expect((await limiter.peek(tokens.for('user 20'))).remaining).toBe(4800);
    expect((await limiter.peek(requests.for('user 20'))).remaining).toBe(99);
    await limiter.close();
    await stop();
  });
});
