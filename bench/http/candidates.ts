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
import type { Handler } from './without-sockets.ts';

export type Framework = 'Fastify' | 'Express';
export type StateIn = 'nowhere' | 'memory' | 'Redis';

/** A hello-world server with one way to limit it. */
export interface Candidate {
  readonly id: string;
  readonly framework: Framework;
  readonly name: string;
  readonly role: 'bare' | 'ours' | 'peer';
  readonly stateIn: StateIn;
  /** How many headers about limits it adds to a response. */
  readonly headers: number;
  /** Listens on a free port of 127.0.0.1. */
  readonly listen: (redisPort: number) => Promise<Listening>;
}

export interface Listening {
  readonly port: number;
  readonly handle: Handler;
}

/** What Spillgate sends unless it is told otherwise. */
export const SHIPPED_HEADERS = 5;

/** Nobody is ever denied: what a limiter costs those who may pass is the question. */
const PLENTY = 1_000_000_000;
const api = tokenBucket({ name: 'api', average: PLENTY, burst: PLENTY, period: '1m' });

/** As shipped, and with as many headers as each of the peers sends. */
const OUR_HEADERS = [
  { name: 'Spillgate', style: ['draft', 'legacy'], headers: SHIPPED_HEADERS },
  { name: 'Spillgate, legacy headers', style: 'legacy', headers: 3 },
  { name: 'Spillgate, no headers', style: 'none', headers: 0 },
] as const;

export const CANDIDATES: readonly Candidate[] = [
  onFastify({ name: 'alone', role: 'bare', stateIn: 'nowhere', headers: 0 }, async () => undefined),
  ...OUR_HEADERS.map(({ style, name, headers }) =>
    onFastify({ name, role: 'ours', stateIn: 'memory', headers }, async (app) => {
      await app.register(spillgateFastify({ limiter: createLimiter(), policies: api, headers: style }));
    }),
  ),
  onFastify({ name: '@fastify/rate-limit', role: 'peer', stateIn: 'memory', headers: 3 }, async (app) => {
    await app.register(fastifyRateLimit, { max: PLENTY, timeWindow: '1 minute' });
  }),
  onFastify({ name: 'rate-limiter-flexible', role: 'peer', stateIn: 'memory', headers: 0 }, async (app) => {
    const limiter = new RateLimiterMemory({ points: PLENTY, duration: 60 });
    app.addHook('onRequest', async (request) => void (await limiter.consume(request.ip)));
  }),
  ...OUR_HEADERS.map(({ style, name, headers }) =>
    onFastify({ name, role: 'ours', stateIn: 'Redis', headers }, async (app, port) => {
      await app.register(spillgateFastify({ limiter: sharedLimiter(port), policies: api, headers: style }));
    }),
  ),
  onFastify(
    { name: '@fastify/rate-limit', role: 'peer', stateIn: 'Redis', headers: 3 },
    async (app, port) => {
      await app.register(fastifyRateLimit, { max: PLENTY, timeWindow: '1 minute', redis: new Redis(port) });
    },
  ),
  onFastify(
    { name: 'rate-limiter-flexible', role: 'peer', stateIn: 'Redis', headers: 0 },
    async (app, port) => {
      const limiter = new RateLimiterRedis({ storeClient: new Redis(port), points: PLENTY, duration: 60 });
      app.addHook('onRequest', async (request) => void (await limiter.consume(request.ip)));
    },
  ),

  onExpress({ name: 'alone', role: 'bare', stateIn: 'nowhere', headers: 0 }, () => undefined),
  ...OUR_HEADERS.map(({ style, name, headers }) =>
    onExpress({ name, role: 'ours', stateIn: 'memory', headers }, () =>
      spillgateExpress({ limiter: createLimiter(), policies: api, headers: style }),
    ),
  ),
  onExpress({ name: 'express-rate-limit', role: 'peer', stateIn: 'memory', headers: 3 }, () =>
    expressRateLimit({ limit: PLENTY }),
  ),
  onExpress({ name: 'rate-limiter-flexible', role: 'peer', stateIn: 'memory', headers: 0 }, () =>
    flexible(new RateLimiterMemory({ points: PLENTY, duration: 60 })),
  ),
  ...OUR_HEADERS.map(({ style, name, headers }) =>
    onExpress({ name, role: 'ours', stateIn: 'Redis', headers }, (port) =>
      spillgateExpress({ limiter: sharedLimiter(port), policies: api, headers: style }),
    ),
  ),
  onExpress(
    { name: 'express-rate-limit with rate-limit-redis', role: 'peer', stateIn: 'Redis', headers: 3 },
    (port) => {
      const redis = new Redis(port);
      const store = new RedisStore({
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as its own documents do
        sendCommand: (command: string, ...args: string[]) => redis.call(command, ...args) as Promise<number>,
      });
      return expressRateLimit({ limit: PLENTY, store });
    },
  ),
  onExpress({ name: 'rate-limiter-flexible', role: 'peer', stateIn: 'Redis', headers: 0 }, (port) =>
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

type Row = Omit<Candidate, 'id' | 'framework' | 'listen'>;

function onFastify(row: Row, limit: (app: FastifyInstance, redisPort: number) => Promise<void>): Candidate {
  return {
    ...row,
    id: `Fastify, ${row.name}, ${row.stateIn}`,
    framework: 'Fastify',
    listen: async (redisPort) => {
      const app = fastify();
      await limit(app, redisPort);
      app.get('/', async () => 'hello');
      await app.listen({ host: '127.0.0.1', port: 0 });
      return {
        port: portOf(app.server.address()),
        handle: (request, response) => app.routing(request, response),
      };
    },
  };
}

function onExpress(row: Row, limit: (redisPort: number) => RequestHandler | undefined): Candidate {
  return {
    ...row,
    id: `Express, ${row.name}, ${row.stateIn}`,
    framework: 'Express',
    listen: async (redisPort) => {
      const app: Express = express();
      const handler = limit(redisPort);
      if (handler !== undefined) app.use(handler);
      app.get('/', (_request, response) => void response.send('hello'));
      const server = app.listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      return { port: portOf(server.address()), handle: (request, response) => void app(request, response) };
    },
  };
}

function portOf(address: unknown): number {
  if (typeof address === 'object' && address !== null && 'port' in address) return Number(address.port);
  throw new Error('the server has no port');
}
