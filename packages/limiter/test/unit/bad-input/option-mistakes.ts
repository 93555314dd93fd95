import {
  createLimiter,
  limiterFromEnv,
  memoryStore,
  tokenBucket,
  type ErrorCode,
} from '../../../src/index.ts';
import { untyped, type Mentions, type ThrownMistake } from './row.ts';

type OptionRow = readonly [options: unknown, shown: string, bound: string, fix: string];

const LIMITER_NAMES = 'store, failurePolicy, instances, fallbackStore, deadlineMs, clock, decisionLog';
const SPELLING = 'correct the spelling or leave it out';
const STORE = 'expected a store with check, peek, forget, health, close';
const POLICY_NAMES = '"passThrough", "failClosed", "inMemoryFallback"';

const BAD_INSTANCES: readonly (readonly [value: unknown, shown: string])[] = [
  [0, '0'],
  [-1, '-1'],
  [1.5, '1.5'],
  [10_001, '10001'],
  [Number.NaN, 'NaN'],
  [Infinity, 'Infinity'],
  ['4', '"4"'],
  [4n, '4n'],
  [null, 'null'],
];

const LIMITER_OPTIONS: readonly OptionRow[] = [
  [null, 'are null;', `an object with ${LIMITER_NAMES}`, 'or nothing'],
  [7, 'are 7;', `an object with ${LIMITER_NAMES}`, 'or nothing'],
  ['redis', 'are "redis";', `an object with ${LIMITER_NAMES}`, 'or nothing'],
  [[], 'are an array of 0;', `an object with ${LIMITER_NAMES}`, 'or nothing'],
  [{ deadline: 50 }, 'do not include "deadline"', `accepted are ${LIMITER_NAMES}`, SPELLING],
  [{ Store: null }, 'do not include "Store"', `accepted are ${LIMITER_NAMES}`, SPELLING],
  [{ store: null }, 'store is null;', STORE, 'leave it out for embedded memory'],
  [{ store: 'redis://localhost' }, 'store is "redis://localhost";', STORE, 'such as memoryStore()'],
  [{ store: {} }, 'store is an object;', STORE, 'such as memoryStore()'],
  [{ store: { check: 1 } }, 'store is an object;', STORE, 'such as memoryStore()'],
  [{ store: memoryStore }, 'store is a function;', STORE, 'such as memoryStore()'],
  [{ failurePolicy: 'failOpen' }, 'failurePolicy is "failOpen";', POLICY_NAMES, 'choose one of'],
  [{ failurePolicy: null }, 'failurePolicy is null;', POLICY_NAMES, 'choose one of'],
  [{ failurePolicy: ['passThrough'] }, 'failurePolicy is an array of 1;', POLICY_NAMES, 'choose one of'],
  ...BAD_INSTANCES.map(([value, shown]): OptionRow => [
    { instances: value },
    `instances is ${shown};`,
    'an integer from 1 to 10000',
    'how many limiters share the store',
  ]),
  [{ deadlineMs: 0 }, 'is 0;', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: -1 }, '-1', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: 1.5 }, '1.5', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: 60_001 }, '60001', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: Infinity }, 'Infinity', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: Number.NaN }, 'NaN', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: '50ms' }, '"50ms"', '1 to 60000', 'milliseconds'],
  [{ deadlineMs: null }, 'null', '1 to 60000', 'expected an integer'],
  [{ deadlineMs: 50n }, '50n', '1 to 60000', 'expected an integer'],
  [{ clock: 0 }, 'is 0;', 'whole microseconds', 'Date.now() * 1000'],
  [{ clock: null }, 'null', 'whole microseconds', 'Date.now() * 1000'],
  [{ clock: { now: () => 0 } }, 'an object', 'whole microseconds', 'Date.now() * 1000'],
  [{ decisionLog: 'stdout' }, '"stdout"', 'true, false or a function', 'takes an entry'],
  [{ decisionLog: null }, 'null', 'true, false or a function', 'takes an entry'],
  [{ decisionLog: 1 }, 'is 1;', 'true, false or a function', 'takes an entry'],
];

const STORE_OPTIONS: readonly OptionRow[] = [
  [null, 'are null;', 'an object with maxKeys, clock', 'or nothing'],
  [5, 'are 5;', 'an object with maxKeys, clock', 'or nothing'],
  [[], 'are an array of 0;', 'an object with maxKeys, clock', 'or nothing'],
  [{ maxkeys: 5 }, 'do not include "maxkeys"', 'accepted are maxKeys, clock', SPELLING],
  [{ max: undefined }, 'do not include "max"', 'accepted are maxKeys, clock', SPELLING],
  [{ maxKeys: 0 }, 'is 0;', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: -1 }, '-1', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: 1.5 }, '1.5', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: Number.NaN }, 'NaN', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: Infinity }, 'Infinity', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: 100_000_001 }, '100000001', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: '1000' }, '"1000"', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: null }, 'null', '1 to 100000000', '120 bytes per key'],
  [{ maxKeys: 10n }, '10n', '1 to 100000000', '120 bytes per key'],
  [{ clock: 0 }, 'is 0;', 'expected a function', 'whole microseconds'],
  [{ clock: null }, 'null', 'expected a function', 'whole microseconds'],
  [{ clock: new Date(0) }, 'an object', 'expected a function', 'whole microseconds'],
];

const KEYS: readonly (readonly [key: unknown, ...Mentions])[] = [
  ['', "('')", '1 to 1048576 characters', 'Decide what a missing value means'],
  [undefined, 'undefined', 'has to be a string', 'String(id)'],
  [null, 'null', 'has to be a string', 'String(id)'],
  [42, '42', 'has to be a string', 'String(id)'],
  [42n, '42n', 'has to be a string', 'String(id)'],
  [Number.NaN, 'NaN', 'has to be a string', 'String(id)'],
  [true, 'true', 'has to be a string', 'String(id)'],
  [['ann'], 'an array of 1', 'has to be a string', 'String(id)'],
  [{ id: 'ann' }, 'an object', 'has to be a string', 'String(id)'],
  [{ toString: () => 'ann', length: 3 }, 'an object', 'has to be a string', 'String(id)'],
  [new String('ann'), 'an object', 'has to be a string', 'String(id)'],
  [Symbol('ann'), 'a symbol', 'has to be a string', 'String(id)'],
  ['x'.repeat(2 ** 20 + 1), '... (1048577 characters)', 'at most 1048576 characters', 'shorten it'],
  [`~${'x'.repeat(2 ** 20)}`, '... (1048577 characters)', 'at most 1048576 characters', 'shorten it'],
];

const BOOLEAN_BOUND = 'expected true or false';
const UNSET = 'unset it for its default';
const WINDOW_BOUND = "expected 1ms to 366d with its unit, such as '30s', '1m' or '1h30m'";
const HOST_PORT = 'host:port with a port from 1 to 65535';
const PREFIX_BOUND = "1 to 64 letters, digits, '_', '-', '.' or ':'";

const ENVIRONMENT: readonly (readonly [variable: string, value: string, bound: string, fix: string])[] = [
  ['DISTRIBUTED_RATE_LIMIT_ENABLED', 'maybe', BOOLEAN_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_ENABLED', ' true', BOOLEAN_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_ENABLED', '2', BOOLEAN_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_FALLBACK', 'nope', BOOLEAN_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '0', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '-5', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '1.5', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '1e3', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '0x10', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '1000000001', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', 'NaN', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_MAX', '٦٠', '1 to 1000000000', UNSET],
  ['DISTRIBUTED_RATE_LIMIT_WINDOW', '1 minute', WINDOW_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_WINDOW', '60000', WINDOW_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_WINDOW', '0s', WINDOW_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_WINDOW', '-1s', WINDOW_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_WINDOW', '367d', WINDOW_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_PREFIX', 'a b', PREFIX_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_PREFIX', '{tag}', PREFIX_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_PREFIX', 'é:', PREFIX_BOUND, UNSET],
  ['DISTRIBUTED_RATE_LIMIT_PREFIX', 'x'.repeat(65), PREFIX_BOUND, UNSET],
  ['REDIS_ADDR', 'localhost', HOST_PORT, UNSET],
  ['REDIS_ADDR', 'localhost:', HOST_PORT, UNSET],
  ['REDIS_ADDR', ':6379', HOST_PORT, UNSET],
  ['REDIS_ADDR', 'localhost:0', HOST_PORT, UNSET],
  ['REDIS_ADDR', 'localhost:65536', HOST_PORT, UNSET],
  ['REDIS_ADDR', 'redis://localhost:6379', HOST_PORT, UNSET],
  ['REDIS_ADDR', 'local host:6379', HOST_PORT, UNSET],
  ['REDIS_ADDR', '::1:6379', HOST_PORT, UNSET],
  ['REDIS_DB', '-1', '0 to 65535', UNSET],
  ['REDIS_DB', '65536', '0 to 65535', UNSET],
  ['REDIS_DB', 'zero', '0 to 65535', UNSET],
  ['REDIS_DB', '1.0', '0 to 65535', UNSET],
];

const BAD_CREATE_STORE: readonly (readonly [value: unknown, shown: string])[] = [
  [null, 'null'],
  [memoryStore(), 'an object'],
  ['redis://localhost', '"redis://localhost"'],
  [0, '0'],
];

const FROM_ENV_OPTIONS: readonly OptionRow[] = [
  [null, 'are null;', 'an object with createStore, clock', 'or nothing'],
  [() => memoryStore(), 'are a function;', 'an object with createStore, clock', 'or nothing'],
  ...BAD_CREATE_STORE.map(([value, shown]): OptionRow => [
    { createStore: value },
    `createStore is ${shown};`,
    'expected a function that takes the settings and returns a store',
    'redisStore({ url',
  ]),
  [{ createstore: memoryStore }, 'do not include "createstore"', 'accepted are createStore, clock', SPELLING],
];

const EVENTS =
  'one of decision, storeError, undecided, recovered, nodeDown, nodeUp, nodeGone, scriptReloaded, lateCharge, warning, overflow';

const LISTENERS: readonly (readonly [event: unknown, listener: unknown, shown: string])[] = [
  ['decided', () => undefined, '"decided" and a function'],
  ['Decision', () => undefined, '"Decision" and a function'],
  ['toString', () => undefined, '"toString" and a function'],
  ['__proto__', () => undefined, '"__proto__" and a function'],
  [undefined, () => undefined, 'undefined and a function'],
  [() => undefined, undefined, 'a function and undefined'],
  ['decision', undefined, '"decision" and undefined'],
  ['decision', 'print', '"decision" and "print"'],
  ['overflow', { handleEvent: () => undefined }, '"overflow" and an object'],
];

const api = tokenBucket({ name: 'api', average: 10, period: '1s' });

export const optionMistakes: readonly ThrownMistake[] = [
  ...LIMITER_OPTIONS.map((row) => optionMistake('createLimiter', createLimiter, row)),
  ...['check', 'peek', 'forget', 'health', 'close'].map((method): ThrownMistake => ({
    what: `createLimiter with a store without ${method}`,
    run: () => createLimiter({ store: Object.assign(memoryStore(), { [method]: undefined }) }),
    code: 'INVALID_OPTION',
    mentions: ['store is an object;', STORE, 'such as memoryStore()'],
  })),
  ...STORE_OPTIONS.map((row) => optionMistake('memoryStore', memoryStore, row)),
  ...FROM_ENV_OPTIONS.map((row) =>
    optionMistake('limiterFromEnv', (options) => limiterFromEnv({}, options), row),
  ),
  ...LISTENERS.map(([event, listener, shown]): ThrownMistake => ({
    what: `on() with ${shown}`,
    run: () => createLimiter().on(untyped(event), untyped(listener)),
    code: 'INVALID_OPTION',
    mentions: [`on() got ${shown};`, `expected ${EVENTS}`, 'and a function.'],
  })),
  ...KEYS.map(([key, ...mentions]): ThrownMistake => ({
    what: `a key that is ${mentions[0]}`,
    run: () => api.for(untyped(key)),
    code: 'INVALID_KEY',
    mentions,
  })),
  ...ENVIRONMENT.map(([variable, value, bound, fix]): ThrownMistake => ({
    what: `${variable}=${value.slice(0, 30)}`,
    run: () => limiterFromEnv({ [variable]: value }),
    code: 'INVALID_ENVIRONMENT',
    mentions: [`${variable} is "${value.slice(0, 64)}"`, bound, fix],
  })),
  ...[undefined, null, 'production'].map((env): ThrownMistake => ({
    what: `limiterFromEnv of ${env}`,
    run: () => limiterFromEnv(untyped(env)),
    code: 'INVALID_ENVIRONMENT',
    mentions: [
      `The environment is ${typeof env === 'string' ? JSON.stringify(env) : env};`,
      'expected an object of texts',
      'pass process.env',
    ],
  })),
  {
    what: 'distributed limits without a store',
    run: () => limiterFromEnv({ DISTRIBUTED_RATE_LIMIT_ENABLED: 'true', REDIS_ADDR: 'redis.internal:6380' }),
    code: 'STORE_REQUIRED',
    mentions: ['DISTRIBUTED_RATE_LIMIT_ENABLED', 'redis.internal:6380', 'pass createStore'],
  },
];

function optionMistake(
  name: string,
  create: (options: never) => unknown,
  [options, ...mentions]: OptionRow,
): ThrownMistake {
  const code: ErrorCode = 'INVALID_OPTION';
  return { what: `${name} with ${label(options)}`, run: () => create(untyped(options)), code, mentions };
}

function label(options: unknown): string {
  if (Array.isArray(options)) return `an array of ${options.length}`;
  if (typeof options === 'function') return 'a function';
  if (typeof options !== 'object' || options === null) return String(options);
  return Object.entries(options)
    .map(([name, value]) => `${name}: ${typeof value} ${String(value).slice(0, 20)}`)
    .join(', ');
}
