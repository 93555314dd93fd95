import { createLimiter, type Store } from '../../../src/index.ts';
import { untyped, type Bench, type Mentions, type RejectedMistake } from './row.ts';

type Call = 'check' | 'peek';

const CALLS: readonly Call[] = ['check', 'peek'];

const COST_BOUND = 'an integer from 0 to 9007199254740991';

const COSTS: readonly (readonly [cost: unknown, shown: string])[] = [
  [-1, '-1'],
  [Number.NaN, 'NaN'],
  [Infinity, 'Infinity'],
  [-Infinity, '-Infinity'],
  [1.5, '1.5'],
  [Number.MIN_VALUE, '5e-324'],
  [2 ** 53, '9007199254740992'],
  [Number.MAX_VALUE, '1.7976931348623157e+308'],
  ['1', '"1"'],
  ['', '""'],
  [null, 'null'],
  [1n, '1n'],
  [10n ** 80n, 'a bigint of 81 digits'],
  [true, 'true'],
  [[1], 'an array of 1'],
  [{ valueOf: () => 1 }, 'an object'],
  [Symbol('one'), 'a symbol'],
];

type LimitsRow = readonly [what: string, limits: (bench: Bench) => unknown, ...mentions: Mentions];

const LIMITS: readonly LimitsRow[] = [
  ['no limits', () => [], '0 limits', '1 to 32', 'split the request'],
  [
    '33 limits',
    ({ policy }) => Array.from({ length: 33 }, (_, key) => policy.for(`key ${key}`)),
    '33 limits',
    '1 to 32',
    'drop limits',
  ],
  ['undefined', () => undefined, 'undefined', 'expected policy.for(key)', 'an array of these'],
  ['null', () => null, 'null', 'expected policy.for(key)', 'an array of these'],
  ['a key', () => 'ann', '"ann"', 'expected policy.for(key)', 'an array of these'],
  ['a policy', ({ policy }) => policy, 'an object', 'expected policy.for(key)', 'an array of these'],
  [
    'an array with a policy',
    ({ policy }) => [policy.for('ann'), policy],
    'limits[1]',
    'is an object',
    'expected what policy.for(key) returns',
  ],
  ['an array with null', () => [null], 'limits[0]', 'is null', 'expected what policy.for(key) returns'],
  [
    'an array with a hole',
    ({ policy }) => Object.assign([policy.for('ann')], { 2: policy.for('bob') }),
    'limits[1]',
    'is undefined',
    'expected what policy.for(key) returns',
  ],
  [
    'an array of holes',
    () => Object.assign([], { length: 2 }),
    'limits[0]',
    'is undefined',
    'expected what policy.for(key) returns',
  ],
  [
    'a look-alike of a limit',
    ({ policy }) => Object.fromEntries(Object.entries(policy.for('ann'))),
    'an object',
    'expected policy.for(key)',
    'an array of these',
  ],
  [
    'a set of limits',
    ({ policy }) => new Set([policy.for('ann')]),
    'an object',
    'expected policy.for(key)',
    'an array of these',
  ],
];

const DUPLICATES: readonly LimitsRow[] = [
  [
    'the same limit twice',
    ({ policy }) => [policy.for('ann'), policy.for('bob'), policy.for('ann')],
    'key "ann"',
    'stands twice',
    'raise the cost',
  ],
  [
    'the same state under other numbers',
    ({ policy }) => [policy.for('ann'), policy.with({ average: 3 }).for('ann')],
    'Policy "api"',
    'stands twice',
    'name it once',
  ],
  [
    'the same long key twice',
    ({ policy }) => [policy.for('k'.repeat(9999)), policy.for('k'.repeat(9999))],
    '... (9999 characters)',
    'stands twice',
    'raise the cost',
  ],
  [
    'the same key of control characters twice',
    ({ policy }) => [policy.for('\u0001'.repeat(64)), policy.for('\u0001'.repeat(64))],
    String.raw`key "\u0001\u0001`,
    'stands twice',
    'raise the cost',
  ],
];

const NAMES = 'accepted are cost, signal, failurePolicy';
const OPTIONS = 'expected an object with cost, signal, failurePolicy';
const SPELLING = 'correct the spelling or leave it out';
const SIGNAL = 'expected an AbortSignal';
const TIMEOUT = 'such as AbortSignal.timeout(100)';

const CHECK_OPTIONS: readonly (readonly [options: unknown, ...Mentions])[] = [
  [{ cots: 5 }, 'do not include "cots"', NAMES, SPELLING],
  [{ cost: 5, Signal: undefined }, 'do not include "Signal"', NAMES, SPELLING],
  [{ ['x'.repeat(1000)]: 5 }, '... (1000 characters)', NAMES, SPELLING],
  [5, 'are 5;', OPTIONS, 'or nothing'],
  ['5', 'are "5";', OPTIONS, 'or nothing'],
  [null, 'are null;', OPTIONS, 'or nothing'],
  [[5], 'are an array of 1;', OPTIONS, 'or nothing'],
  [() => 5, 'are a function;', OPTIONS, 'or nothing'],
  [{ signal: {} }, 'signal is an object;', SIGNAL, TIMEOUT],
  [{ signal: new AbortController() }, 'signal is an object;', SIGNAL, TIMEOUT],
  [{ signal: new EventTarget() }, 'signal is an object;', SIGNAL, TIMEOUT],
  [{ signal: { throwIfAborted: () => undefined } }, 'signal is an object;', SIGNAL, TIMEOUT],
  [{ signal: null }, 'signal is null;', SIGNAL, TIMEOUT],
  [{ signal: 100 }, 'signal is 100;', SIGNAL, TIMEOUT],
  [
    { failurePolicy: 'failOpen' },
    'failurePolicy is "failOpen";',
    'choose one of',
    '"passThrough", "failClosed", "inMemoryFallback"',
  ],
];

const CLOCK_TIMES: readonly (readonly [nowUs: unknown, shown: string])[] = [
  [1.5, '1.5'],
  [Number.NaN, 'NaN'],
  [-1, '-1'],
  [Infinity, 'Infinity'],
  [2 ** 52 + 1, '4503599627370497'],
  ['1000', '"1000"'],
  [1000n, '1000n'],
  [undefined, 'undefined'],
  [null, 'null'],
  [new Date(0), 'an object'],
];

export const callMistakes: readonly RejectedMistake[] = [
  ...CALLS.flatMap((call) => COSTS.map(([cost, shown]) => costMistake(call, cost, shown))),
  ...CALLS.flatMap((call) =>
    CHECK_OPTIONS.map(([options, ...mentions]) => optionsMistake(call, options, mentions)),
  ),
  ...[...CALLS, 'forget' as const].flatMap((call) => [
    ...LIMITS.map((row) => limitsMistake(call, 'INVALID_LIMITS', row)),
    ...DUPLICATES.map((row) => limitsMistake(call, 'DUPLICATE_LIMIT', row)),
  ]),
  ...CALLS.flatMap((call) => CLOCK_TIMES.map(([nowUs, shown]) => clockMistake(call, nowUs, shown))),
  ...closedMistakes(),
];

function costMistake(call: Call, cost: unknown, shown: string): RejectedMistake {
  return {
    what: `${call} with the cost ${shown}`,
    run: ({ limiter, policy }) => limiter[call](policy.for('ann'), { cost: untyped(cost) }),
    code: 'INVALID_COST',
    mentions: [`cost is ${shown}`, COST_BOUND, 'round it before the call'],
  };
}

function optionsMistake(call: Call, options: unknown, mentions: Mentions): RejectedMistake {
  return {
    what: `${call} whose options say: ${mentions[0]}`,
    run: ({ limiter, policy }) => limiter[call](policy.for('ann'), untyped(options)),
    code: 'INVALID_OPTION',
    mentions,
  };
}

function limitsMistake(
  call: Call | 'forget',
  code: 'INVALID_LIMITS' | 'DUPLICATE_LIMIT',
  [what, limits, ...mentions]: LimitsRow,
): RejectedMistake {
  return {
    what: `${call} of ${what}`,
    run: (bench) => bench.limiter[call](untyped(limits(bench))),
    code,
    mentions,
  };
}

function clockMistake(call: Call, nowUs: unknown, shown: string): RejectedMistake {
  return {
    what: `${call} with a clock that returns ${shown}`,
    run: ({ policy }) => createLimiter({ clock: () => untyped(nowUs) })[call](policy.for('ann')),
    code: 'INVALID_CLOCK',
    mentions: [`returned ${shown}`, 'whole microseconds from 0 to 4503599627370496', 'Date.now() * 1000'],
  };
}

function closedMistakes(): readonly RejectedMistake[] {
  const calls: Readonly<Record<string, (bench: Bench) => Promise<unknown>>> = {
    check: ({ limiter, policy }) => limiter.check(policy.for('ann')),
    peek: ({ limiter, policy }) => limiter.peek(policy.for('ann')),
    forget: ({ limiter, policy }) => limiter.forget(policy.for('ann')),
    health: ({ limiter }) => limiter.health(),
  };
  return Object.entries(calls).map(([call, run]) => ({
    what: `${call} after close`,
    run: (bench) => {
      const closing = createLimiter({ store: neverAsked });
      void closing.close();
      return run({ ...bench, limiter: closing });
    },
    code: 'LIMITER_CLOSED',
    mentions: ['limiter is closed', 'close it only after', 'everything that uses it has stopped'],
  }));
}

/** After close, no call may reach the store. */
const neverAsked: Store = {
  check: async () => Promise.reject(new Error('asked after close')),
  peek: async () => Promise.reject(new Error('asked after close')),
  forget: async () => Promise.reject(new Error('asked after close')),
  health: async () => Promise.reject(new Error('asked after close')),
  close: async () => undefined,
};
