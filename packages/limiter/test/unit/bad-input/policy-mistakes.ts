import {
  calendarQuota,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../../../src/index.ts';
import { MAX_OVERRIDES } from '../../../src/policy.ts';
import { untyped, type Mentions, type ThrownMistake } from './row.ts';

interface Definition {
  readonly name: string;
  readonly create: (definition: never) => unknown;
  /** Correct but for the changes. */
  readonly define: (changes: object) => unknown;
  readonly counts: readonly string[];
  readonly durations: readonly string[];
}

const DEFINITIONS: readonly Definition[] = [
  {
    name: 'tokenBucket',
    create: tokenBucket,
    define: (changes) => tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s', ...changes }),
    counts: ['average', 'burst'],
    durations: ['period'],
  },
  {
    name: 'leakyBucket',
    create: leakyBucket,
    define: (changes) => leakyBucket({ name: 'api', average: 10, period: '1s', maxDelay: '1s', ...changes }),
    counts: ['average'],
    durations: ['period', 'maxDelay'],
  },
  {
    name: 'fixedWindow',
    create: fixedWindow,
    define: (changes) => fixedWindow({ name: 'api', quota: 10, window: '1m', offset: '1s', ...changes }),
    counts: ['quota'],
    durations: ['window', 'offset'],
  },
  {
    name: 'slidingWindowLog',
    create: slidingWindowLog,
    define: (changes) => slidingWindowLog({ name: 'api', quota: 10, window: '1m', ...changes }),
    counts: ['quota'],
    durations: ['window'],
  },
  {
    name: 'slidingWindowCounter',
    create: slidingWindowCounter,
    define: (changes) => slidingWindowCounter({ name: 'api', quota: 10, window: '1m', ...changes }),
    counts: ['quota'],
    durations: ['window'],
  },
  {
    name: 'calendarQuota',
    create: calendarQuota,
    define: (changes) => calendarQuota({ name: 'api', quota: 10, every: 'month', startsOn: 5, ...changes }),
    counts: ['quota'],
    durations: [],
  },
];

const COUNT_BOUND = 'an integer from 1 to 4503599627370496';

/** Whole already, so that asking for a whole number would mislead. */
const IN_RANGE = ': choose a number in this range.';

const BAD_COUNTS: readonly (readonly [value: unknown, shown: string, fix: string])[] = [
  [null, 'null', 'whole number'],
  [-1, '-1', IN_RANGE],
  [0, '0', 'do not ask the limiter'],
  [-0, '-0', 'do not ask the limiter'],
  [1.5, '1.5', 'whole number'],
  [0.5, '0.5', "1 per '10s'"],
  [Number.MIN_VALUE, '5e-324', "1 per '10s'"],
  [Number.NaN, 'NaN', 'whole number'],
  [Infinity, 'Infinity', 'whole number'],
  [-Infinity, '-Infinity', 'whole number'],
  [2 ** 52 + 1, '4503599627370497', IN_RANGE],
  [Number.MAX_VALUE, '1.7976931348623157e+308', IN_RANGE],
  ['10', '"10"', 'whole number'],
  ['', '""', 'whole number'],
  [10n, '10n', 'whole number'],
  [true, 'true', 'whole number'],
  [{ valueOf: () => 10 }, 'an object', 'whole number'],
  [[10], 'an array of 1', 'whole number'],
  [Symbol('ten'), 'a symbol', 'whole number'],
  [() => 10, 'a function', 'whole number'],
];

const DURATION_FIX = "write it like '250ms', '1s', '1m', '1h30m' or '1d'";

const BAD_DURATIONS: readonly (readonly [value: unknown, shown: string])[] = [
  ['', '""'],
  [' ', '" "'],
  ['1', '"1"'],
  ['s', '"s"'],
  ['1x', '"1x"'],
  ['1S', '"1S"'],
  ['1.5s', '"1.5s"'],
  ['-1s', '"-1s"'],
  ['+1s', '"+1s"'],
  ['1 s', '"1 s"'],
  ['1s ', '"1s "'],
  ['1s\n', String.raw`"1s\n"`],
  ['1h 30m', '"1h 30m"'],
  ['1m1h', '"1m1h"'],
  ['1s1s', '"1s1s"'],
  ['1e9d', '"1e9d"'],
  ['Infinity', '"Infinity"'],
  ['٣s', '"٣s"'],
  ['9'.repeat(70), `"${'9'.repeat(64)}"... (70 characters)`],
  [Number.NaN, 'NaN'],
  [Infinity, 'Infinity'],
  [0.0001, '0.0001'],
  [null, 'null'],
  [1000n, '1000n'],
  [true, 'true'],
  [{ seconds: 1 }, 'an object'],
  [[1000], 'an array of 1'],
  [Symbol('1s'), 'a symbol'],
];

const OUTSIDE: readonly (readonly [value: unknown, shown: string])[] = [
  [-1, '-1'],
  [-0.001, '-0.001'],
  ['3651d', '"3651d"'],
  ['1000000000d', '"1000000000d"'],
  ['87600h1ms', '"87600h1ms"'],
  [3650 * 86_400_000 + 0.001, '315360000000.001'],
];

/** What stands between the lowest and the highest duration in a message. */
const DURATION_RANGES: Readonly<Record<string, string>> = {
  period: '0.001ms to 3650d',
  window: '0.001ms to 3650d',
  maxDelay: '0ms to 3650d',
  offset: '0ms to 59999.999ms',
};

export const policyMistakes: readonly ThrownMistake[] = [
  ...DEFINITIONS.flatMap(countMistakes),
  ...DEFINITIONS.flatMap(durationMistakes),
  ...DEFINITIONS.flatMap(argumentMistakes),
  ...DEFINITIONS.flatMap(nameMistakes),
  ...DEFINITIONS.flatMap(failurePolicyMistakes),
  ...rangeMistakes(),
  ...overrideMistakes(),
];

function countMistakes({ name, define, counts }: Definition): readonly ThrownMistake[] {
  return counts.flatMap((field) => {
    // A missing burst is the average, so it is no mistake.
    const missing = field === 'burst' ? [] : [[undefined, 'undefined', 'whole number'] as const];
    return [...missing, ...BAD_COUNTS].map(([value, shown, fix]): ThrownMistake => ({
      what: `${name} with ${field} ${shown}`,
      run: () => define({ [field]: value }),
      code: 'INVALID_POLICY',
      mentions: [`${field} is ${shown};`, COUNT_BOUND, fix],
    }));
  });
}

function durationMistakes({ name, define, durations }: Definition): readonly ThrownMistake[] {
  return durations.flatMap((field) => {
    const run = (value: unknown) => () => define({ [field]: value });
    const range = DURATION_RANGES[field] ?? 'a range for every field';
    const missing = field === 'offset' ? [] : [[undefined, 'undefined'] as const];
    const tooShort = range.startsWith('0ms') ? [] : ([[0, '0'] as const, ['0s', '"0s"'] as const] as const);
    const mistake = (value: unknown, shown: string, bound: string): ThrownMistake => ({
      what: `${name} with ${field} ${shown}`,
      run: run(value),
      code: 'INVALID_DURATION',
      mentions: [`${field} is ${shown},`, bound, DURATION_FIX],
    });
    return [
      ...[...missing, ...BAD_DURATIONS].map(([value, shown]) => mistake(value, shown, 'not a duration')),
      ...[...tooShort, ...OUTSIDE].map(([value, shown]) => mistake(value, shown, range)),
    ];
  });
}

function argumentMistakes({ name, create, define, counts }: Definition): readonly ThrownMistake[] {
  const wrong: readonly (readonly [value: unknown, shown: string])[] = [
    [undefined, 'undefined'],
    [null, 'null'],
    ['api', '"api"'],
    [10, '10'],
    [[], 'an array of 0'],
  ];
  return [
    ...wrong.map(([value, shown]): ThrownMistake => ({
      what: `${name} of ${shown}`,
      run: () => create(untyped(value)),
      code: 'INVALID_POLICY',
      mentions: [shown, 'expected an object', `${name}()`],
    })),
    ...['limit', 'Average', 'maxdelay', '__proto__x', 'constructor'].map((field): ThrownMistake => ({
      what: `${name} with the unknown field ${field}`,
      run: () => define({ [field]: 1 }),
      code: 'INVALID_POLICY',
      mentions: [`"${field}"`, ['it takes name', ...counts].join(', '), 'correct the spelling'],
    })),
    {
      what: `${name} with an unknown field of 1000 characters`,
      run: () => define({ ['x'.repeat(1000)]: 1 }),
      code: 'INVALID_POLICY',
      mentions: ['... (1000 characters)', 'it takes', 'leave it out'],
    },
  ];
}

function nameMistakes({ name, define }: Definition): readonly ThrownMistake[] {
  const names: readonly (readonly [value: unknown, shown: string])[] = [
    [undefined, 'undefined'],
    [null, 'null'],
    [7, '7'],
    ['', '""'],
    ['a b', '"a b"'],
    ['a/b', '"a/b"'],
    ['a:b', '"a:b"'],
    ['{a}', '"{a}"'],
    ['api\n', String.raw`"api\n"`],
    ['api\r\nX-Injected: 1', String.raw`"api\r\nX-Injected: 1"`],
    ['ünder', '"ünder"'],
    ['a\u2028b\u007f\u009b', String.raw`"a\u2028b\u007f\u009b"`],
    ['\u0001'.repeat(64), String.raw`"\u0001\u0001`],
    ['x'.repeat(65), '... (65 characters)'],
    [{ toString: () => 'api' }, 'an object'],
  ];
  return names.map(([value, shown]): ThrownMistake => ({
    what: `${name} with the name ${shown}`,
    run: () => define({ name: value }),
    code: 'INVALID_POLICY',
    mentions: [shown, "1 to 64 letters, digits, '_', '-' or '.'", "such as 'api'"],
  }));
}

function failurePolicyMistakes({ name, define }: Definition): readonly ThrownMistake[] {
  const values: readonly (readonly [value: unknown, shown: string])[] = [
    [null, 'null'],
    ['failOpen', '"failOpen"'],
    ['toString', '"toString"'],
    [['failClosed'], 'an array of 1'],
    [true, 'true'],
  ];
  return values.map(([value, shown]): ThrownMistake => ({
    what: `${name} with the failure policy ${shown}`,
    run: () => define({ failurePolicy: value }),
    code: 'INVALID_POLICY',
    mentions: [
      `failurePolicy is ${shown};`,
      '"passThrough", "failClosed", "inMemoryFallback"',
      'choose one of',
    ],
  }));
}

function rangeMistakes(): readonly ThrownMistake[] {
  const rows: readonly (readonly [what: string, run: () => unknown, mentions: Mentions])[] = [
    [
      'a burst that takes longer to refill than the clock can count',
      () => tokenBucket({ name: 'slow', average: 1, burst: 100, period: '3650d' }),
      ['burst is 100', 'at most 142 years', 'lower burst or raise average'],
    ],
    [
      'a burst and a rate without an exact common measure',
      () => tokenBucket({ name: 'odd', average: 999_999, burst: 4e15, period: '1s' }),
      ['average 999999 per 1000000 us', 'below 2^53', 'use rounder numbers'],
    ],
    [
      'a queue without an exact common measure',
      () => leakyBucket({ name: 'odd', average: 999_999_999, period: '999983ms', maxDelay: '3650d' }),
      ['average 999999999 per 999983000 us', 'below 2^53', 'smaller burst or maxDelay'],
    ],
    [
      'a counter whose quota cannot be weighed exactly',
      () => slidingWindowCounter({ name: 'big', quota: 2 ** 52, window: '1m' }),
      ['quota is 4503599627370496', 'above 4503599627370496', 'lower the quota'],
    ],
    [
      'a counter whose window is too uneven for its quota',
      () => slidingWindowCounter({ name: 'uneven', quota: 1e9, window: 86_399_999.999 }),
      ['quota is 1000000000 in a window of 86399999999 us', 'above 4503599627370496', 'rounder window'],
    ],
    [
      'an offset as long as the window',
      () => fixedWindow({ name: 'edge', quota: 1, window: '1m', offset: '1m' }),
      ['"1m"', '0ms to 59999.999ms', DURATION_FIX],
    ],
    [
      'a period that no calendar has',
      () => calendarQuota({ name: 'often', quota: 1, every: untyped('hour') }),
      ['every is "hour"', '"day", "week", "month", "year", "ever"', 'choose one of'],
    ],
    [
      'no period',
      () => calendarQuota(untyped({ name: 'often', quota: 1 })),
      ['every is undefined', '"day", "week", "month", "year", "ever"', 'choose one of'],
    ],
    [
      'a time zone that does not exist',
      () => calendarQuota({ name: 'lost', quota: 1, every: 'day', timeZone: 'Mars/Olympus' }),
      ['timeZone is "Mars/Olympus"', 'IANA time zone database', "such as 'Europe/Berlin'"],
    ],
    [
      'an offset of hours as a time zone, whatever the engine takes it for',
      () => calendarQuota({ name: 'lost', quota: 1, every: 'day', timeZone: '+02:00' }),
      ['timeZone is "+02:00"', 'IANA time zone database', "such as 'Europe/Berlin'"],
    ],
    [
      'a week that starts on its eighth day',
      () => calendarQuota({ name: 'late', quota: 1, every: 'week', startsOn: 8 }),
      ['startsOn is 8', 'from 1 to 7', 'every is "week"'],
    ],
    [
      'a day that starts on its second day',
      () => calendarQuota({ name: 'late', quota: 1, every: 'day', startsOn: 2 }),
      ['startsOn is 2', 'from 1 to 1', 'leave it out'],
    ],
  ];
  return rows.map(([what, run, mentions]): ThrownMistake => ({
    what,
    run,
    code: what.startsWith('an offset as') ? 'INVALID_DURATION' : 'INVALID_POLICY',
    mentions,
  }));
}

function overrideMistakes(): readonly ThrownMistake[] {
  const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1s' });
  return [
    {
      what: 'override without numbers',
      run: () => api.override('ann', untyped(undefined)),
      code: 'INVALID_POLICY',
      mentions: ['undefined', 'expected an object', 'policy "api"'],
    },
    {
      what: 'override with a number instead of numbers',
      run: () => api.override('ann', untyped(50)),
      code: 'INVALID_POLICY',
      mentions: ['50', 'expected an object', 'policy "api"'],
    },
    {
      what: 'override of the name',
      run: () => api.override('ann', untyped({ name: 'other' })),
      code: 'INVALID_POLICY',
      mentions: ['"name"', 'it takes average, burst, period', 'leave it out'],
    },
    {
      what: 'override of the failure policy',
      run: () => api.override('ann', untyped({ failurePolicy: 'passThrough' })),
      code: 'INVALID_POLICY',
      mentions: ['"failurePolicy"', 'it takes average, burst, period', 'leave it out'],
    },
    {
      what: 'override with a bad number',
      run: () => api.override('ann', { average: -5 }),
      code: 'INVALID_POLICY',
      mentions: ['average is -5', COUNT_BOUND, IN_RANGE],
    },
    {
      what: 'override of an empty key',
      run: () => api.override('', { average: 5 }),
      code: 'INVALID_KEY',
      mentions: ["('')", '1 to 1048576 characters', 'Decide what a missing value means'],
    },
    {
      what: 'with() of an unknown field',
      run: () => api.with(untyped({ rate: 5 })),
      code: 'INVALID_POLICY',
      mentions: ['"rate"', 'it takes average, burst, period', 'correct the spelling'],
    },
    {
      what: 'with() of a bad duration',
      run: () => api.with({ period: '1 minute' }),
      code: 'INVALID_DURATION',
      mentions: ['period is "1 minute"', 'not a duration', DURATION_FIX],
    },
    {
      what: 'one override too many',
      run: () => {
        const full = tokenBucket({ name: 'full', average: 10, period: '1s' });
        for (let key = 0; key < MAX_OVERRIDES; key += 1) full.override(`key ${key}`, { average: 5 });
        // Changing one that exists still works, and so does one more after one was removed.
        full.override('key 0', { average: 6 }).override('key 1', null).override('new', { average: 5 });
        full.override('one too many', { average: 5 });
      },
      code: 'TOO_MANY_OVERRIDES',
      mentions: ['"full"', '100000 overrides', 'override(key, null)'],
    },
  ];
}
