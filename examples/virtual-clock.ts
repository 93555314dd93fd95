// Tests of your own limits: no sleeps, exact to the microsecond. Any test runner will do; this is Node's own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLimiter, slidingWindowLog } from 'spillgate';
import { virtualClock } from 'spillgate/testing';

const login = slidingWindowLog({ name: 'login', quota: 3, window: '15m' });

await test('a fourth login within 15 minutes has to wait', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock });
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    assert.equal((await limiter.check(login.for('ann'))).allowed, true);
    clock.advance('1m');
  }

  const fourth = await limiter.check(login.for('ann'));

  assert.equal(fourth.allowed, false);
  assert.equal(fourth.retryAfterMs, 12 * 60_000);
});

await test('whoever waits retryAfterMs gets in, and not a millisecond earlier', async () => {
  const clock = virtualClock();
  const limiter = createLimiter({ clock });
  await limiter.check(login.for('ann'), { cost: 3 });
  const { retryAfterMs } = await limiter.check(login.for('ann'));

  clock.advance(retryAfterMs - 1);
  assert.equal((await limiter.check(login.for('ann'))).allowed, false);
  clock.advance(1);
  assert.equal((await limiter.check(login.for('ann'))).allowed, true);
});
