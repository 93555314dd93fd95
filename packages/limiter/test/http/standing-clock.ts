import { createLimiter, tokenBucket, type Limiter, type Policy } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** Its clock stands: what was spent does not come back. */
export function stoppedLimiter(): Limiter {
  return createLimiter({ clock: virtualClock() });
}

/** So many requests per client. */
export function times(name: string, count: number): Policy {
  return tokenBucket({ name, average: count, burst: count, period: '1h' });
}
