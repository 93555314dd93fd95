// What a route has to meet: the module's limits, those of its class, and those of its method.
import { Controller, Get, type ExecutionContext, type Type } from '@nestjs/common';
import { expect, test } from 'vitest';
import { Limit, RateLimitModule, SkipLimit, type NestRateLimitOptions } from '../../../src/adapters/nest.ts';
import { createLimiter, slidingWindowLog, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import type { Reply } from '../client.ts';
import { decorateClass, decorateMethod, startApplication } from './application.ts';

const api = tokenBucket({ name: 'api', average: 9, burst: 9, period: '9s' });
const items = slidingWindowLog({ name: 'items', quota: 5, window: '1h' });
const login = slidingWindowLog({ name: 'login', quota: 2, window: '1m' });

interface Decorated {
  readonly ofClass?: readonly ClassDecorator[];
  readonly ofMethod?: readonly MethodDecorator[];
}

/** A controller at `/path` with these decorators. */
function controller(path: string, { ofClass = [], ofMethod = [] }: Decorated): Type {
  class Decorated {
    handle(): string {
      return 'hello';
    }
  }
  decorateMethod(Decorated, 'handle', ...ofMethod, Get());
  decorateClass(Decorated, ...ofClass, Controller(path));
  return Decorated;
}

function start(controllers: readonly Type[], options: Partial<NestRateLimitOptions> = {}) {
  const limiter = createLimiter({ clock: virtualClock() });
  const module = RateLimitModule.forRoot({ limiter, policies: api, headers: 'draft', ...options });
  return startApplication('Express', { imports: [module], controllers: [...controllers] });
}

/** What one request to a controller with these decorators is told. */
async function told(decorated: Decorated, options?: Partial<NestRateLimitOptions>): Promise<unknown> {
  const { get } = await start([controller('', decorated)], options);
  return (await get()).headers['ratelimit'];
}

test.each<[string, string | undefined, Decorated]>([
  ['without decorators the module alone', '"api";r=8;t=1', {}],
  ['of a class in addition', '"api";r=8;t=1, "items";r=4;t=3600', { ofClass: [Limit(items)] }],
  ['of a method in addition', '"api";r=8;t=1, "login";r=1;t=60', { ofMethod: [Limit(login)] }],
  [
    'of module, class and method together, in this order',
    '"api";r=8;t=1, "items";r=4;t=3600, "login";r=1;t=60',
    { ofClass: [Limit(items)], ofMethod: [Limit([login])] },
  ],
  [
    'of two decorators together',
    '"api";r=8;t=1, "login";r=1;t=60, "items";r=4;t=3600',
    { ofMethod: [Limit(items), Limit(login)] },
  ],
  [
    'of a policy of the same name instead of the outer one',
    '"items";r=4;t=3600, "api";r=99;t=1',
    { ofClass: [Limit(items)], ofMethod: [Limit(api.with({ average: 100, burst: 100 }))] },
  ],
  ['skipped by a method', undefined, { ofClass: [Limit(items)], ofMethod: [SkipLimit()] }],
  ['skipped by a class', undefined, { ofClass: [SkipLimit()] }],
  [
    'of a method in a class that skips',
    '"login";r=1;t=60',
    { ofClass: [SkipLimit()], ofMethod: [Limit(login)] },
  ],
  ['of a method alone', '"login";r=1;t=60', { ofMethod: [SkipLimit(), Limit(login)] }],
  ['of a method alone, the other way round', '"login";r=1;t=60', { ofMethod: [Limit(login), SkipLimit()] }],
  ['of a class alone', '"items";r=4;t=3600', { ofClass: [SkipLimit(), Limit({ policies: items })] }],
  ['with the cost of a class', '"api";r=6;t=3', { ofClass: [Limit({ cost: 3 })] }],
  [
    'with the cost of a method',
    '"api";r=5;t=4',
    { ofClass: [Limit({ cost: 3 })], ofMethod: [Limit({ cost: 4 })] },
  ],
  ['with the cost of a function', '"api";r=7;t=2', { ofMethod: [Limit({ cost: async () => 2 })] }],
  ['with a cost of 0, which only looks', '"api";r=9;t=0', { ofMethod: [Limit({ cost: 0 })] }],
  [
    'with a cost that was said before',
    '"items";r=2;t=3600',
    {
      ofClass: [Limit({ cost: 3 })],
      ofMethod: [SkipLimit(), Limit({ policies: items }), Limit({ cost: 3 })],
    },
  ],
  [
    'with the cost of a class, where its limits are skipped',
    '"login";r=0;t=60',
    { ofClass: [Limit({ cost: 2 })], ofMethod: [SkipLimit(), Limit(login)] },
  ],
])('a route has the limits %s', async (_, expected, decorated) => {
  expect(await told(decorated)).toBe(expected);
});

test('the cost of the module holds where no decorator says another', async () => {
  expect(await told({}, { cost: 2 })).toBe('"api";r=7;t=2');
  expect(await told({}, { cost: async () => 3 })).toBe('"api";r=6;t=3');
  expect(await told({ ofMethod: [Limit({ cost: 4 })] }, { cost: 2 })).toBe('"api";r=5;t=4');
});

test('a module without policies counts what @Limit() names, and nothing else', async () => {
  expect(await told({}, { policies: undefined })).toBeUndefined();
  expect(await told({ ofMethod: [Limit(login)] }, { policies: undefined })).toBe('"login";r=1;t=60');
});

test('a function chooses the policies of the module, and is not asked where they are skipped', async () => {
  const asked: string[] = [];
  const policies = (context: ExecutionContext) => {
    asked.push(context.getHandler().name);
    return undefined;
  };

  expect(await told({ ofMethod: [Limit(login)] }, { policies })).toBe('"login";r=1;t=60');
  expect(await told({ ofMethod: [SkipLimit()] }, { policies })).toBeUndefined();
  expect(asked).toEqual(['handle']);
});

test('a key belongs to the policies that it stands with', async () => {
  const header = (name: string) => ({ header: name });
  const { get } = await start(
    [
      controller('', {
        ofClass: [Limit({ policies: items, key: header('x-tenant') })],
        ofMethod: [Limit({ policies: [{ policy: login, key: header('x-user') }], key: header('x-nobody') })],
      }),
    ],
    { key: header('x-app') },
  );
  const send = async (app: string, tenant: string, user: string) =>
    (await get({ headers: { 'x-app': app, 'x-tenant': tenant, 'x-user': user } })).headers['ratelimit'];

  expect(await send('a', 'acme', 'ann')).toBe('"api";r=8;t=1, "items";r=4;t=3600, "login";r=1;t=60');
  expect(await send('b', 'acme', 'ann')).toBe('"api";r=8;t=1, "items";r=3;t=3600, "login";r=0;t=60');
  expect(await send('a', 'other', 'bob')).toBe('"api";r=7;t=2, "items";r=4;t=3600, "login";r=1;t=60');
});

test('routes share a policy, and have their own where they say so', async () => {
  const { get } = await start([
    controller('one', {}),
    controller('two', { ofMethod: [Limit(login)] }),
    controller('free', { ofMethod: [SkipLimit()] }),
  ]);
  const status = async (path: string): Promise<Reply['status']> => (await get({ path })).status;

  expect([await status('/two'), await status('/two'), await status('/two')]).toEqual([200, 200, 429]);
  expect((await get({ path: '/one' })).headers['ratelimit']).toBe('"api";r=6;t=3');
  expect(await status('/free')).toBe(200);
});

test('a class has the limits of the class that it extends', async () => {
  const base = controller('base', { ofClass: [Limit(items)], ofMethod: [Limit(login)] });
  class Derived extends base {}
  decorateClass(Derived, Controller('derived'));
  class Own extends base {}
  decorateClass(Own, Controller('own'), SkipLimit());
  const { get } = await start([Derived, Own]);

  expect((await get({ path: '/derived' })).headers['ratelimit']).toBe(
    '"api";r=8;t=1, "items";r=4;t=3600, "login";r=1;t=60',
  );
  expect((await get({ path: '/own' })).headers['ratelimit']).toBe('"login";r=0;t=60');
});

test('a decorator on another method, or on another class, changes nothing here', async () => {
  class Two {
    first(): string {
      return 'first';
    }
    second(): string {
      return 'second';
    }
  }
  decorateMethod(Two, 'first', Get('first'));
  decorateMethod(Two, 'second', Get('second'), Limit(login));
  decorateClass(Two, Controller());
  const { get } = await start([Two, controller('other', { ofClass: [Limit(items)] })]);

  expect((await get({ path: '/first' })).headers['ratelimit']).toBe('"api";r=8;t=1');
  expect((await get({ path: '/second' })).headers['ratelimit']).toBe('"api";r=7;t=2, "login";r=1;t=60');
});

test.each<[string, unknown]>([
  ['an empty list', []],
  ['a list of something else', [7]],
  ['nothing', undefined],
  ['a number', 7],
  ['a function', () => login],
  ['a choice that stands alone', { policy: login, key: 'address' }],
  ['a misspelled option', { policy: login }],
  ['a cost below 0', { cost: -1 }],
  ['a key that is none', { policies: login, key: 7 }],
])('a mistake in @Limit() shows when the class is declared: %s', (_, limits) => {
  expect(() => Limit(limits as typeof login)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
});
