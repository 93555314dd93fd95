import RedisStore, { type RedisCount } from '@fastify/rate-limit/store/RedisStore.js';
import { rateLimit, type ClientRateLimitInfo } from 'express-rate-limit';
import type { Redis } from 'ioredis';
import { RedisStore as RateLimitRedisStore, type RedisReply } from 'rate-limit-redis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';

import type { Awaitable } from '../frame/awaitable.ts';
import { AMPLE_LIMIT, DAY_SECONDS, TIGHT_LIMIT, type Candidate, type Subject } from './candidate.ts';
import { openIoredis } from './connections.ts';

/** So many requests of a key in a window. */
export interface WindowOf {
  readonly limit: number;
  readonly seconds: number;
}

type Count = (client: Redis, prefix: string, window: WindowOf) => Awaitable;

export interface Peer extends Candidate {
  /** With this one window, on a connection of its own. */
  readonly openWindow: (port: number, window: WindowOf) => Awaitable;
}

export const rateLimiterFlexible: Peer = peer('rate-limiter-flexible', flexible({}));

/** With the setting of its that spares Redis what is denied for certain. */
export const rateLimiterFlexibleBlocking: Peer = peer('rate-limiter-flexible, inMemoryBlock', (...given) =>
  flexible({ inMemoryBlockOnConsumed: given[2].limit + 1 })(...given),
);

function flexible(settings: { readonly inMemoryBlockOnConsumed?: number }): Count {
  return (client, keyPrefix, { limit, seconds }) => {
    const limiter = new RateLimiterRedis({
      storeClient: client,
      keyPrefix,
      points: limit,
      duration: seconds,
      ...settings,
    });
    return {
      call: (key) => limiter.consume(key),
      allowed: () => true,
      denied: (reason) => reason instanceof RateLimiterRes,
    };
  };
}

export const rateLimitRedis: Peer = peer('rate-limit-redis', (client, prefix, { limit, seconds }) => {
  const store = new RateLimitRedisStore({
    prefix: `${prefix}:`,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the cast that its readme shows for ioredis
    sendCommand: (command, ...args) => client.call(command, ...args) as Promise<RedisReply>,
  });
  // The middleware is what initialises its store with the window; the comparison with `limit` is its, too.
  rateLimit({ store, limit, windowMs: seconds * 1000 });
  return {
    call: (key) => store.increment(key),
    allowed: (counted: ClientRateLimitInfo) => counted.totalHits <= limit,
    denied: () => false,
  };
});

export const fastifyRateLimit: Peer = peer('@fastify/rate-limit', (client, prefix, { limit, seconds }) => {
  const store = new RedisStore(false, false, client, `${prefix}-`);
  return {
    // The promise its plugin makes around the callback for every request.
    call: (key) =>
      new Promise<RedisCount>((resolve, reject) => {
        const settle = (error: Error | null, count: RedisCount): void =>
          error === null ? resolve(count) : reject(error);
        store.incr(key, settle, seconds * 1000, limit);
      }),
    allowed: (counted: RedisCount) => counted.current <= limit,
    denied: () => false,
  };
});

function peer(name: string, count: Count): Peer {
  return {
    id: name,
    name,
    role: 'peer',
    async open(port): Promise<Subject> {
      const client = openIoredis(port);
      return {
        ample: count(client, `${name}-api`, { limit: AMPLE_LIMIT, seconds: DAY_SECONDS }),
        tight: count(client, `${name}-login`, { limit: TIGHT_LIMIT, seconds: DAY_SECONDS }),
        close: async () => client.disconnect(),
      };
    },
    openWindow(port, window) {
      const client = openIoredis(port);
      const prefix = `${name}-${window.limit}-${window.seconds}`;
      return count(client, prefix, window);
    },
  };
}
