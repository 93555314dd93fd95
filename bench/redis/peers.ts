import RedisStore, { type RedisCount } from '@fastify/rate-limit/store/RedisStore.js';
import { rateLimit, type ClientRateLimitInfo } from 'express-rate-limit';
import type { Redis } from 'ioredis';
import { RedisStore as RateLimitRedisStore, type RedisReply } from 'rate-limit-redis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';

import type { Awaitable } from '../frame/awaitable.ts';
import { AMPLE_LIMIT, DAY_SECONDS, TIGHT_LIMIT, type Candidate, type Subject } from './candidate.ts';
import { openIoredis } from './connections.ts';

type Count = (client: Redis, prefix: string, limit: number) => Awaitable;

export const rateLimiterFlexible: Candidate = peer('rate-limiter-flexible', (client, keyPrefix, limit) => {
  const limiter = new RateLimiterRedis({
    storeClient: client,
    keyPrefix,
    points: limit,
    duration: DAY_SECONDS,
  });
  return {
    call: (key) => limiter.consume(key),
    allowed: () => true,
    denied: (reason) => reason instanceof RateLimiterRes,
  };
});

export const rateLimitRedis: Candidate = peer('rate-limit-redis', (client, prefix, limit) => {
  const store = new RateLimitRedisStore({
    prefix: `${prefix}:`,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the cast that its readme shows for ioredis
    sendCommand: (command, ...args) => client.call(command, ...args) as Promise<RedisReply>,
  });
  // The middleware is what initialises its store with the window; the comparison with `limit` is its, too.
  rateLimit({ store, limit, windowMs: DAY_SECONDS * 1000 });
  return {
    call: (key) => store.increment(key),
    allowed: (counted: ClientRateLimitInfo) => counted.totalHits <= limit,
    denied: () => false,
  };
});

export const fastifyRateLimit: Candidate = peer('@fastify/rate-limit', (client, prefix, limit) => {
  const store = new RedisStore(false, false, client, `${prefix}-`);
  return {
    // The promise its plugin makes around the callback for every request.
    call: (key) =>
      new Promise<RedisCount>((resolve, reject) => {
        const settle = (error: Error | null, count: RedisCount): void =>
          error === null ? resolve(count) : reject(error);
        store.incr(key, settle, DAY_SECONDS * 1000, limit);
      }),
    allowed: (counted: RedisCount) => counted.current <= limit,
    denied: () => false,
  };
});

function peer(name: string, count: Count): Candidate {
  return {
    id: name,
    name,
    role: 'peer',
    async open(port): Promise<Subject> {
      const client = openIoredis(port);
      return {
        ample: count(client, `${name}-api`, AMPLE_LIMIT),
        tight: count(client, `${name}-login`, TIGHT_LIMIT),
        close: async () => client.disconnect(),
      };
    },
  };
}
