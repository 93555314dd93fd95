import fastifyRateLimit from '@fastify/rate-limit';
import express, { type Express, type RequestHandler } from 'express';
import { rateLimit as expressRateLimit } from 'express-rate-limit';
import fastify, { type FastifyInstance } from 'fastify';
import { Redis } from 'ioredis';
import { RedisStore } from 'rate-limit-redis';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { createLimiter, tokenBucket } from 'spillgate';
import { rateLimit as spillgateExpress } from 'spillgate/express';
import { rateLimit as spillgateFastify } from 'spillgate/fastify';
import { redisStore } from 'spillgate/redis';

export type Framework = 'Fastify' | 'Express';
export type StateIn = 'nowhere' | 'memory' | 'Redis';

/** A hello-world server with one way to limit it. */
export interface Candidate {
  readonly id: string;
  readonly framework: Framework;
  readonly name: string;
  readonly role: 'bare' | 'ours' | 'peer';
  readonly stateIn: StateIn;
  /** Listens on a free port of 127.0.0.1 and answers with it. */
  readonly listen: (redisPort: number) => Promise<number>;
}

/** Nobody is ever denied: what a limiter costs those who may pass is the question. */
const PLENTY = 1_000_000_000;
const api = tokenBucket({ name: 'api', average: PLENTY, burst: PLENTY, period: '1m' });

export const CANDIDATES: readonly Candidate[] = [
  onFastify('alone', 'bare', 'nowhere', async () => undefined),
  onFastify('Spillgate', 'ours', 'memory', async (app) => {
    await app.register(spillgateFastify({ limiter: createLimiter(), policies: api }));
  }),
  onFastify('Spillgate, X-RateLimit headers only', 'ours', 'memory', async (app) => {
    await app.register(spillgateFastify({ limiter: createLimiter(), policies: api, headers: 'legacy' }));
  }),
  onFastify('@fastify/rate-limit', 'peer', 'memory', async (app) => {
    await app.register(fastifyRateLimit, { max: PLENTY, timeWindow: '1 minute' });
  }),
  onFastify('rate-limiter-flexible, no headers', 'peer', 'memory', async (app) => {
    const limiter = new RateLimiterMemory({ points: PLENTY, duration: 60 });
    app.addHook('onRequest', async (request) => void (await limiter.consume(request.ip)));
  }),
  onFastify('Spillgate', 'ours', 'Redis', async (app, port) => {
    await app.register(spillgateFastify({ limiter: sharedLimiter(port), policies: api }));
  }),
  onFastify('@fastify/rate-limit', 'peer', 'Redis', async (app, port) => {
    await app.register(fastifyRateLimit, { max: PLENTY, timeWindow: '1 minute', redis: new Redis(port) });
  }),
  onFastify('rate-limiter-flexible, no headers', 'peer', 'Redis', async (app, port) => {
    const limiter = new RateLimiterRedis({ storeClient: new Redis(port), points: PLENTY, duration: 60 });
    app.addHook('onRequest', async (request) => void (await limiter.consume(request.ip)));
  }),

  onExpress('alone', 'bare', 'nowhere', () => undefined),
  onExpress('Spillgate', 'ours', 'memory', () =>
    spillgateExpress({ limiter: createLimiter(), policies: api }),
  ),
  onExpress('Spillgate, X-RateLimit headers only', 'ours', 'memory', () =>
    spillgateExpress({ limiter: createLimiter(), policies: api, headers: 'legacy' }),
  ),
  onExpress('express-rate-limit', 'peer', 'memory', () => expressRateLimit({ limit: PLENTY })),
  onExpress('rate-limiter-flexible, no headers', 'peer', 'memory', () =>
    flexible(new RateLimiterMemory({ points: PLENTY, duration: 60 })),
  ),
  onExpress('Spillgate', 'ours', 'Redis', (port) =>
    spillgateExpress({ limiter: sharedLimiter(port), policies: api }),
  ),
  onExpress('express-rate-limit with rate-limit-redis', 'peer', 'Redis', (port) => {
    const redis = new Redis(port);
    const store = new RedisStore({
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as its own documents do
      sendCommand: (command: string, ...args: string[]) => redis.call(command, ...args) as Promise<number>,
    });
    return expressRateLimit({ limit: PLENTY, store });
  }),
  onExpress('rate-limiter-flexible, no headers', 'peer', 'Redis', (port) =>
    flexible(new RateLimiterRedis({ storeClient: new Redis(port), points: PLENTY, duration: 60 })),
  ),
];

function sharedLimiter(port: number): ReturnType<typeof createLimiter> {
  return createLimiter({ store: redisStore({ client: new Redis(port) }) });
}

function flexible(limiter: RateLimiterMemory | RateLimiterRedis): RequestHandler {
  return async (request, _response, next) => {
    await limiter.consume(request.ip ?? '');
    next();
  };
}

function onFastify(
  name: string,
  role: Candidate['role'],
  stateIn: StateIn,
  limit: (app: FastifyInstance, redisPort: number) => Promise<void>,
): Candidate {
  return {
    id: `Fastify, ${name}, ${stateIn}`,
    framework: 'Fastify',
    name,
    role,
    stateIn,
    listen: async (redisPort) => {
      const app = fastify();
      await limit(app, redisPort);
      app.get('/', async () => 'hello');
      await app.listen({ host: '127.0.0.1', port: 0 });
      return portOf(app.server.address());
    },
  };
}

function onExpress(
  name: string,
  role: Candidate['role'],
  stateIn: StateIn,
  limit: (redisPort: number) => RequestHandler | undefined,
): Candidate {
  return {
    id: `Express, ${name}, ${stateIn}`,
    framework: 'Express',
    name,
    role,
    stateIn,
    listen: async (redisPort) => {
      const app: Express = express();
      const handler = limit(redisPort);
      if (handler !== undefined) app.use(handler);
      app.get('/', (_request, response) => void response.send('hello'));
      const server = app.listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      return portOf(server.address());
    },
  };
}

function portOf(address: unknown): number {
  if (typeof address === 'object' && address !== null && 'port' in address) return Number(address.port);
  throw new Error('the server has no port');
}
