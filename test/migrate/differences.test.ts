// What the migration pages say about other packages, tried on these packages: a page must not claim what is not so.
import rateLimitOfFastify from '@fastify/rate-limit';
import { Controller, Get, Module } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import express from 'express';
import { rateLimit as rateLimitOfExpress } from 'express-rate-limit';
import fastify, { type FastifyInstance } from 'fastify';
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createLimiter, slidingWindowLog, tokenBucket } from '#limiter/index.js';
import { startRedis } from '../redis/servers.ts';
import { startUpstashHttp } from './upstash-http.ts';

/** Only the date stands still: servers and sockets go on. */
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-01-01T00:00:30Z') });
  return () => vi.useRealTimers();
});

function passSeconds(seconds: number): void {
  vi.setSystemTime(Date.now() + seconds * 1000);
}

/** How many of 10 requests pass. */
async function passingOfTen(ask: () => Promise<boolean>): Promise<number> {
  let passing = 0;
  for (let sent = 0; sent < 10; sent += 1) if (await ask()) passing += 1;
  return passing;
}

describe('express-rate-limit', () => {
  async function start(): Promise<() => Promise<Response>> {
    const app = express();
    app.use(rateLimitOfExpress({ windowMs: 60_000, limit: 5 }));
    app.get('/', (_request, response) => void response.send('hello'));
    const server = app.listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    return () => fetch(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`);
  }

  test('nearly twice the limit passes around the end of a window', async () => {
    const ask = await start();
    expect((await ask()).status).toBe(200);

    passSeconds(59);
    const before = await passingOfTen(async () => (await ask()).ok);
    passSeconds(1);
    const after = await passingOfTen(async () => (await ask()).ok);

    expect([before, after]).toEqual([4, 5]);
  });

  test('X-RateLimit-Reset is a Unix time', async () => {
    const ask = await start();

    const { headers } = await ask();

    expect(Number(headers.get('x-ratelimit-reset'))).toBe(Date.now() / 1000 + 60);
  });
});

describe('rate-limiter-flexible', () => {
  const allows = async (consumed: Promise<unknown>): Promise<boolean> =>
    consumed.then(
      () => true,
      () => false,
    );

  test('a denied request is counted; here it spends nothing', async () => {
    const theirs = new RateLimiterMemory({ points: 5, duration: 60 });
    const limiter = createLimiter();
    const ours = slidingWindowLog({ name: 'ours', quota: 5, window: '1m' }).for('key');
    const costs = [3, 3, 2];

    const theirAnswers: boolean[] = [];
    for (const cost of costs) theirAnswers.push(await allows(theirs.consume('key', cost)));
    const ourAnswers = costs.map((cost) => limiter.checkSync(ours, { cost }).allowed);

    expect(theirAnswers).toEqual([true, false, false]);
    expect(ourAnswers).toEqual([true, false, true]);
  });

  test('a union spends in every limiter, also when one rejects', async () => {
    const small = new RateLimiterMemory({ keyPrefix: 'small', points: 1, duration: 60 });
    const large = new RateLimiterMemory({ keyPrefix: 'large', points: 10, duration: 60 });
    const union = new RateLimiterUnion(small, large);
    for (let at = 0; at < 4; at += 1) await allows(union.consume('key'));

    expect((await large.get('key'))?.consumedPoints).toBe(4);
  });
});

describe('@upstash/ratelimit', () => {
  async function connect(): Promise<Redis> {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    return new Redis({ url: await startUpstashHttp(redis), token: 'secret' });
  }

  test('a cost that does not fit is denied and counted all the same', async () => {
    const limiter = Ratelimit.slidingWindow(10, '1 h');
    const ratelimit = new Ratelimit({ redis: await connect(), limiter, ephemeralCache: false });
    await ratelimit.limit('key', { rate: 9 });

    const denied = await ratelimit.limit('key', { rate: 5 });
    const next = await ratelimit.limit('key');

    expect([denied.success, denied.remaining, next.success]).toEqual([false, 0, false]);
  });

  test('a token bucket gets its tokens at the end of each whole interval; here one by one', async () => {
    const limiter = Ratelimit.tokenBucket(5, '10 s', 5);
    const ratelimit = new Ratelimit({ redis: await connect(), limiter, ephemeralCache: false });
    const ours = createLimiter({ clock: () => Date.now() * 1000 });
    const bucket = tokenBucket({ name: 'ours', average: 5, period: '10s', burst: 5 }).for('key');
    const both = async (): Promise<number[]> => [
      await passingOfTen(async () => (await ratelimit.limit('key')).success),
      await passingOfTen(async () => ours.checkSync(bucket).allowed),
    ];

    const atFirst = await both();
    passSeconds(9);
    const soon = await both();
    passSeconds(1);
    const later = await both();

    expect({ atFirst, soon, later }).toEqual({ atFirst: [5, 5], soon: [0, 4], later: [5, 1] });
  });
});

describe('@fastify/rate-limit', () => {
  async function start(cache?: number): Promise<FastifyInstance> {
    const app = fastify();
    const options = {
      max: 5,
      timeWindow: '1 minute',
      keyGenerator: ({ headers }: KeyedRequest) => String(headers['x-key']),
    };
    await app.register(rateLimitOfFastify, cache === undefined ? options : { ...options, cache });
    app.get('/', () => 'hello');
    onTestFinished(() => app.close());
    return app;
  }
  interface KeyedRequest {
    readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  }
  const asker =
    (app: FastifyInstance, key: string, url = '/') =>
    async (): Promise<boolean> =>
      (await app.inject({ url, headers: { 'x-key': key } })).statusCode !== 429;

  test('a flood of clients makes one of them begin anew', async () => {
    const app = await start(100);
    const victim = asker(app, 'victim');
    expect([await passingOfTen(victim), await passingOfTen(victim)]).toEqual([5, 0]);

    for (let at = 0; at < 100; at += 1) await asker(app, `other ${at}`)();

    expect(await passingOfTen(victim)).toBe(5);
  });

  test('requests that meet no route are not limited by themselves', async () => {
    const app = await start();

    expect(await passingOfTen(asker(app, 'key', '/nowhere'))).toBe(10);
  });
});

describe('@nestjs/throttler', () => {
  class Routes {
    a(): string {
      return 'a';
    }

    b(): string {
      return 'b';
    }
  }
  // Decorators as functions: what compiles the tests does not know the old syntax.
  Controller()(Routes);
  for (const route of ['a', 'b'] as const) {
    Get(route)(Routes.prototype, route, Object.getOwnPropertyDescriptor(Routes.prototype, route) ?? {});
  }

  async function start(name?: string): Promise<(path: string) => Promise<Response>> {
    const throttler = { ttl: 60_000, limit: 5, ...(name === undefined ? {} : { name }) };
    // oxlint-disable-next-line typescript/no-extraneous-class -- a module of Nest is a class
    class AppModule {}
    Module({
      imports: [ThrottlerModule.forRoot([throttler])],
      controllers: [Routes],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(AppModule);
    const app = await NestFactory.create(AppModule, { logger: false });
    await app.listen(0, '127.0.0.1');
    onTestFinished(() => app.close());
    const url = await app.getUrl();
    return (path) => fetch(`${url}/${path}`);
  }

  test('every route is counted by itself', async () => {
    const ask = await start();

    const passing = [
      await passingOfTen(async () => (await ask('a')).ok),
      await passingOfTen(async () => (await ask('b')).ok),
    ];

    expect(passing).toEqual([5, 5]);
  });

  test('the first denial blocks for a whole window', async () => {
    const ask = await start();
    const passing = (): Promise<number> => passingOfTen(async () => (await ask('a')).ok);
    expect((await ask('a')).status).toBe(200);
    passSeconds(50);
    expect(await passing()).toBe(4);

    passSeconds(59); // all but one second of the block; the first request left the window long ago
    const blocked = await passing();
    passSeconds(1);

    expect([blocked, await passing()]).toEqual([0, 5]);
  });

  test('the wait of a named throttler is in a header of its own', async () => {
    const ask = await start('short');
    await passingOfTen(async () => (await ask('a')).ok);

    const { headers } = await ask('a');

    expect([headers.get('retry-after'), headers.get('retry-after-short')]).toEqual([null, '60']);
  });
});
