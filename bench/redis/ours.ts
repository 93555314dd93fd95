import { createLimiter, tokenBucket, type Decision, type Limiter, type Policy } from 'spillgate';
import { redisStore, type RedisClient } from 'spillgate/redis';

import type { Awaitable } from '../frame/awaitable.ts';
import { AMPLE_LIMIT, TIGHT_LIMIT, type Candidate, type Subject } from './candidate.ts';
import { openIoredis, openNodeRedis } from './connections.ts';

/** Far beyond the default of 50: on a busy machine a late answer has to be slow, not degraded. */
const PATIENCE_MS = 10_000;

export const spillgateIoredis: Candidate = {
  id: 'spillgate-ioredis',
  name: 'Spillgate, ioredis',
  role: 'ours',
  async open(port) {
    const client = openIoredis(port);
    return openLimiter(client, 'ioredis:', () => client.disconnect());
  },
};

export const spillgateNodeRedis: Candidate = {
  id: 'spillgate-node-redis',
  name: 'Spillgate, node-redis',
  role: 'ours',
  async open(port) {
    const client = await openNodeRedis(port);
    return openLimiter(client, 'node-redis:', () => client.destroy());
  },
};

export function limiterOn(client: RedisClient, prefix = 'spillgate:'): Limiter {
  return createLimiter({
    store: redisStore({ client, prefix, timeoutMs: PATIENCE_MS }),
    deadlineMs: PATIENCE_MS,
  });
}

/** A bucket that refills slowly: a state that is full again within the run would expire, and then weigh nothing. */
export const amplePolicy: Policy = tokenBucket({
  name: 'api',
  average: 1000,
  burst: AMPLE_LIMIT,
  period: '1d',
});

const tightPolicy = tokenBucket({ name: 'login', average: 1, burst: TIGHT_LIMIT, period: '1d' });

function openLimiter(client: RedisClient, prefix: string, disconnect: () => void): Subject {
  const limiter = limiterOn(client, prefix);
  return {
    ample: awaitableOf(limiter, amplePolicy),
    tight: awaitableOf(limiter, tightPolicy),
    close: async () => {
      await limiter.close();
      disconnect();
    },
  };
}

export function awaitableOf(limiter: Limiter, policy: Policy): Awaitable {
  return {
    call: (key) => limiter.check(policy.for(key)),
    allowed(decision: Decision) {
      // An answer of the failure policy is fast and means nothing here.
      if (decision.degraded) throw new Error('The store did not decide.', { cause: decision.cause });
      return decision.allowed;
    },
    denied: () => false,
  };
}
