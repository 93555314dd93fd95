// How the limits get into an application: modules, guards and their order.
import { Injectable, UseGuards, type CanActivate, type ExecutionContext, type Type } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { describe, expect, test } from 'vitest';
import { RateLimitGuard, RateLimitModule, type RateLimitModuleOptions } from '../../../src/adapters/nest.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { createApplication, moduleOf, PLATFORMS, startApplication, textController } from './application.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });
const api = tokenBucket({ name: 'api', average: 9, burst: 9, period: '9s' });

function options(others: Partial<RateLimitModuleOptions> = {}): RateLimitModuleOptions {
  return { limiter: createLimiter({ clock: virtualClock() }), policies: once, ...others };
}

/** A request after a guard has found out who sent it. */
interface KnownRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  user?: string | undefined;
}

class AuthGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<KnownRequest>();
    request.user = request.headers['x-user'];
    return request.user !== 'mallory';
  }
}
Injectable()(AuthGuard);

const userOf = (context: ExecutionContext) => context.switchToHttp().getRequest<KnownRequest>().user;

/** A module with a guard for the whole application. */
function moduleWithGuard(): Type {
  return moduleOf({ providers: [{ provide: APP_GUARD, useClass: AuthGuard }] });
}

describe.each(PLATFORMS)('on %s', (platform) => {
  test('a guard of the application itself comes before the limits, which know its user', async () => {
    const running = await startApplication(platform, {
      imports: [RateLimitModule.forRoot(options({ key: userOf }))],
      providers: [{ provide: APP_GUARD, useClass: AuthGuard }],
      controllers: [textController('')],
    });

    expect(await running.statuses(2, { headers: { 'x-user': 'ann' } })).toEqual([200, 429]);
    expect(await running.statuses(1, { headers: { 'x-user': 'bob' } })).toEqual([200]);
    expect(await running.statuses(2, { headers: { 'x-user': 'mallory' } })).toEqual([403, 403]);
  });

  test.each([
    ['before', [403, 403], 1],
    ['after', [403, 429], 0],
  ])(
    'the module of another guard, imported %s it, has its turn there',
    async (place, expected, remaining) => {
      const limits = options({ key: { header: 'x-user' } });
      const [limited, auth] = [RateLimitModule.forRoot(limits), moduleWithGuard()];
      const running = await startApplication(platform, {
        imports: place === 'before' ? [auth, limited] : [limited, auth],
        controllers: [textController('')],
      });

      expect(await running.statuses(2, { headers: { 'x-user': 'mallory' } })).toEqual(expected);
      const decision = await createPeek(limits)('mallory');
      expect(decision.remaining).toBe(remaining);
    },
  );

  test('without a guard for everything, only what asks for it is limited, in every module', async () => {
    const other = moduleOf({ controllers: [textController('guarded', UseGuards(RateLimitGuard))] });
    const running = await startApplication(platform, {
      imports: [RateLimitModule.forRoot(options({ guard: false })), other],
      controllers: [textController('free')],
    });

    expect(await running.statuses(2, { path: '/free' })).toEqual([200, 200]);
    expect(await running.statuses(2, { path: '/guarded' })).toEqual([200, 429]);
  });

  test('a guard that is there twice counts once', async () => {
    const running = await startApplication(platform, {
      imports: [RateLimitModule.forRoot(options({ policies: api }))],
      controllers: [textController('', UseGuards(RateLimitGuard, RateLimitGuard))],
    });

    const replies = [await running.get(), await running.get()];

    expect(replies.map(({ headers }) => headers['ratelimit'])).toEqual(['"api";r=8;t=1', '"api";r=7;t=2']);
  });

  test('a path without a route has no guard', async () => {
    const running = await startApplication(platform, {
      imports: [RateLimitModule.forRoot(options())],
      controllers: [textController('')],
    });

    expect(await running.statuses(3, { path: '/nowhere' })).toEqual([404, 404, 404]);
  });

  test('options may come from other providers, later', async () => {
    class Configuration {
      readonly average = 2;
    }
    const module = RateLimitModule.forRootAsync({
      imports: [moduleOf({ providers: [Configuration], exports: [Configuration] })],
      inject: [Configuration],
      useFactory: async ({ average }: Configuration) =>
        options({ policies: once.with({ average, burst: average }) }),
    });
    const running = await startApplication(platform, {
      imports: [module],
      controllers: [textController('')],
    });

    expect(await running.statuses(3)).toEqual([200, 200, 429]);
  });

  test('options from a function need nothing else', async () => {
    const module = RateLimitModule.forRootAsync({ useFactory: () => options(), guard: false });
    const running = await startApplication(platform, {
      imports: [module],
      controllers: [textController('free'), textController('guarded', UseGuards(RateLimitGuard))],
    });

    expect(await running.statuses(2, { path: '/free' })).toEqual([200, 200]);
    expect(await running.statuses(2, { path: '/guarded' })).toEqual([200, 429]);
  });
});

/** Looks at what is left for a key. */
function createPeek({ limiter }: RateLimitModuleOptions) {
  return (key: string) => limiter.check([once.for(key)], { cost: 0 });
}

test.each<[string, object]>([
  ['an unknown option', { polices: once }],
  ['no policy in a list', { policies: [] }],
  ['something else than a policy', { policies: 7 }],
  ['a cost below 0', { cost: -1 }],
  ['a cost that is text', { cost: '1' }],
  ['an exchange that is no function', { exchange: 'graphql' }],
  ['a guard that is neither true nor false', { guard: 'all' }],
  ['a filter that is neither true nor false', { filter: null }],
  ['no limiter', { limiter: undefined }],
])('a mistake in the options shows when the module is made: %s', (_, others) => {
  expect(() => RateLimitModule.forRoot({ ...options(), ...others })).toThrow(
    expect.objectContaining({ code: 'INVALID_OPTION' }),
  );
});

test('a mistake in options that come later stops the application from starting', async () => {
  const module = RateLimitModule.forRootAsync({ useFactory: () => ({ ...options(), cost: -1 }) });

  await expect(createApplication('Express', { imports: [module] })).rejects.toMatchObject({
    code: 'INVALID_OPTION',
  });
});

test('an unknown option of forRootAsync() is a mistake', () => {
  const mistaken = { useFactory: () => options(), useClass: Object };

  expect(() => RateLimitModule.forRootAsync(mistaken)).toThrow('useClass');
});

test('a module of limits does not have to be created over HTTP', async () => {
  const root = moduleOf({ imports: [RateLimitModule.forRoot(options())] });

  const context = await NestFactory.createApplicationContext(root, { logger: false });

  expect(context.get(root)).toBeInstanceOf(root);
  await context.close();
});
