import LocalStore, { type LocalCount } from '@fastify/rate-limit/store/LocalStore.js';
import { MemoryStore, rateLimit, type ClientRateLimitInfo } from 'express-rate-limit';
import { TokenBucket } from 'limiter';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';

import { MAX_KEYS, WINDOW_MS, type Candidate } from './candidate.ts';

export const rateLimiterFlexible: Candidate = {
  id: 'rate-limiter-flexible',
  name: 'rate-limiter-flexible',
  ours: false,
  awaitedCall: 'await consume',
  open(limit) {
    const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 });
    return {
      awaited: {
        call: (key) => limiter.consume(key),
        allowed: () => true,
        denied: (reason) => reason instanceof RateLimiterRes,
      },
      async close(keys) {
        // Its timer per key would hold the state until the window ends; only deleting a key clears it.
        for (const key of keys) {
          await limiter.delete(key);
        }
      },
    };
  },
};

export const expressRateLimit: Candidate = {
  id: 'express-rate-limit',
  name: 'express-rate-limit',
  ours: false,
  awaitedCall: 'await increment',
  open(limit) {
    const store = new MemoryStore();
    // The middleware is what initialises its store with the window; the comparison with `limit` is its, too.
    rateLimit({ store, limit, windowMs: WINDOW_MS });
    return {
      awaited: {
        call: (key) => store.increment(key),
        allowed: (client: ClientRateLimitInfo) => client.totalHits <= limit,
        denied: () => false,
      },
      close: () => store.shutdown(),
    };
  },
};

export const fastifyRateLimit: Candidate = {
  id: 'fastify-rate-limit',
  name: '@fastify/rate-limit',
  ours: false,
  syncCall: 'incr(callback)',
  awaitedCall: 'await incr',
  open(limit) {
    const store = new LocalStore(false, false, MAX_KEYS);
    return {
      decideSync(key) {
        let allowed = false;
        store.incr(key, (_error, count) => (allowed = count.current <= limit), WINDOW_MS, limit);
        return allowed;
      },
      awaited: {
        // The promise its plugin makes around the callback for every request.
        call: (key) =>
          new Promise<LocalCount>((resolve, reject) => {
            const settle = (error: Error | null, count: LocalCount): void =>
              error === null ? resolve(count) : reject(error);
            store.incr(key, settle, WINDOW_MS, limit);
          }),
        allowed: (count: LocalCount) => count.current <= limit,
        denied: () => false,
      },
      close: () => store.lru.clear(),
    };
  },
};

export const limiterTokenBucket: Candidate = {
  id: 'limiter',
  name: 'limiter',
  ours: false,
  syncCall: 'tryRemoveTokens',
  awaitedCall: 'await removeTokens',
  awaitedCallWaits: true,
  open(limit) {
    // The package knows no keys: its users keep one bucket per key in a Map. Nothing here ever expires.
    const buckets = new Map<string, TokenBucket>();
    const bucketOf = (key: string): TokenBucket => {
      const known = buckets.get(key);
      if (known !== undefined) return known;
      const bucket = new TokenBucket({ bucketSize: limit, tokensPerInterval: limit, interval: WINDOW_MS });
      // It starts empty; its own RateLimiter fills its bucket the same way.
      bucket.content = limit;
      buckets.set(key, bucket);
      return bucket;
    };
    return {
      decideSync: (key) => bucketOf(key).tryRemoveTokens(1),
      awaited: {
        call: (key) => bucketOf(key).removeTokens(1),
        allowed: () => true,
        denied: () => false,
      },
      close: () => buckets.clear(),
    };
  },
};
