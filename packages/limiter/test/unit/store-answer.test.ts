import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { createLimiter, type Limiter, type LimiterError, type Store } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { TENS } from './policies.ts';
import { remoteStore } from './remote-store.ts';
import { runs } from '../../../../test/runs.ts';

const [api, queue] = TENS as [(typeof TENS)[number], (typeof TENS)[number]];

const ALLOWED = { allowed: true, remaining: 9, retryAfterUs: 0, resetAfterUs: 6_000_000, delayUs: 0 };
const DENIED = {
  allowed: false,
  remaining: 0,
  retryAfterUs: 6_000_000,
  resetAfterUs: 60_000_000,
  delayUs: 0,
};
const FIELDS = ['remaining', 'retryAfterUs', 'resetAfterUs', 'delayUs'] as const;

interface Bench {
  readonly limiter: Limiter;
  readonly errors: LimiterError[];
  readonly recoveries: unknown[];
}

/** A limiter whose store answers every check and look with this. */
function answering(answer: unknown): Bench {
  const clock = virtualClock();
  const store = Object.assign(remoteStore(clock), {
    check: vi.fn<() => Promise<unknown>>().mockResolvedValue(answer),
    peek: vi.fn<() => Promise<unknown>>().mockResolvedValue(answer),
  }) as unknown as Store;
  const limiter = createLimiter({ clock, store, failurePolicy: 'failClosed' });
  const errors: LimiterError[] = [];
  const recoveries: unknown[] = [];
  limiter.on('undecided', ({ error }) => errors.push(error));
  limiter.on('recovered', (event) => recoveries.push(event));
  return { limiter, errors, recoveries };
}

function without(field: string): object {
  return Object.fromEntries(Object.entries(ALLOWED).filter(([name]) => name !== field));
}

const NO_LISTS: readonly (readonly [what: string, answer: unknown, said: string])[] = [
  ['nothing', undefined, 'it answered undefined instead of verdicts'],
  ['null', null, 'it answered null instead of verdicts'],
  ['a text', 'OK', 'it answered "OK" instead of verdicts'],
  ['a verdict without a list', ALLOWED, 'it answered an object instead of verdicts'],
  ['something like a list', { length: 1, 0: ALLOWED }, 'it answered an object instead of verdicts'],
  ['no verdict', [], 'it answered 0 verdicts for 1 limits'],
  ['a verdict too many', [ALLOWED, ALLOWED], 'it answered 2 verdicts for 1 limits'],
  ['a list of undefined', [undefined], 'it answered undefined instead of a verdict'],
  ['a list with a hole', Object.assign([], { length: 1 }), 'it answered undefined instead of a verdict'],
  ['null in a list', [null], 'it answered null instead of a verdict'],
  ['a number in a list', [1], 'it answered 1 instead of a verdict'],
  ['a function in a list', [() => ALLOWED], 'it answered a function instead of a verdict'],
];

const BAD_NUMBERS: readonly (readonly [shown: string, value: unknown])[] = [
  ['NaN', Number.NaN],
  ['Infinity', Infinity],
  ['-2', -2],
  ['0.5', 0.5],
  ['9007199254740992', 2 ** 53],
  ['"9"', '9'],
  ['9n', 9n],
  ['null', null],
  ['undefined', undefined],
  ['true', true],
  ['an array of 1', [9]],
];

const BAD_VERDICTS: readonly (readonly [what: string, verdict: object, said: string])[] = [
  ...FIELDS.flatMap((field) =>
    BAD_NUMBERS.map(
      ([shown, value]) => [`${field} ${shown}`, { ...DENIED, [field]: value }, `${field} ${shown}`] as const,
    ),
  ),
  ...(['remaining', 'resetAfterUs', 'delayUs'] as const).map(
    (field) => [`${field} -1`, { ...DENIED, [field]: -1 }, `${field} -1`] as const,
  ),
  ...FIELDS.map((field) => [`no ${field}`, without(field), `${field} undefined`] as const),
  ['allowed 1', { ...ALLOWED, allowed: 1 }, 'allowed 1'],
  ['allowed "true"', { ...ALLOWED, allowed: 'true' }, 'allowed "true"'],
  ['no allowed', without('allowed'), 'allowed undefined'],
  ['allowed, but only later', { ...ALLOWED, retryAfterUs: 1 }, 'allowed true'],
  ['allowed, but never', { ...ALLOWED, retryAfterUs: -1 }, 'allowed true'],
  ['denied without a wait', { ...DENIED, retryAfterUs: 0 }, 'allowed false'],
];

describe('an answer that cannot be one is a failure of the store, not a denial and not a crash', () => {
  test.each([
    ...NO_LISTS,
    ...BAD_VERDICTS.map(([what, verdict, said]) => [`a verdict with ${what}`, [verdict], said] as const),
  ])('%s', async (_, answer, said) => {
    const { limiter, errors, recoveries } = answering(answer);

    const decision = await limiter.check(api.for('ann'));
    const look = await limiter.peek(api.for('ann'));

    expect(decision).toMatchObject({
      allowed: false,
      degraded: true,
      source: 'failurePolicy',
      retryAfterMs: 1000,
    });
    expect(look).toMatchObject({ degraded: true, source: 'failurePolicy' });
    expect(errors.map(({ code }) => code)).toEqual(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE']);
    expect(errors[0]?.message).toContain('The store could not decide: it answered ');
    expect(errors[0]?.message).toContain(said);
    expect(recoveries).toEqual([]);
  });

  test('also if only one of several verdicts is bad', async () => {
    const { limiter } = answering([ALLOWED, { ...ALLOWED, remaining: Number.NaN }]);

    const decision = await limiter.check([api.for('ann'), queue.for('ann')]);

    expect(decision).toMatchObject({ allowed: false, degraded: true });
  });

  test('whatever it is', async () => {
    const anything = fc.oneof(fc.anything(), fc.array(fc.anything(), { minLength: 1, maxLength: 1 }));
    await fc.assert(
      fc.asyncProperty(anything, async (answer) => {
        expect(await answering(answer).limiter.check(api.for('ann'))).toMatchObject({
          allowed: false,
          degraded: true,
        });
      }),
      { numRuns: runs(500) },
    );
  });
});

describe('an answer that can be one is taken as it is', () => {
  test.each([
    ['allowed', ALLOWED],
    ['denied', DENIED],
    ['denied for ever', { ...DENIED, retryAfterUs: -1 }],
    ['allowed after a delay', { ...ALLOWED, delayUs: 3_000_000 }],
    ['nothing left, nothing to wait for', { ...ALLOWED, remaining: 0, resetAfterUs: 0 }],
    ['the largest numbers', { ...ALLOWED, remaining: Number.MAX_SAFE_INTEGER }],
    ['more than was asked for', { ...DENIED, overflow: false, spent: { tatUs: 1 } }],
  ])('%s', async (_, verdict) => {
    const { limiter, errors } = answering([verdict]);

    const decision = await limiter.check(api.for('ann'));

    expect(decision).toMatchObject({
      allowed: verdict.allowed,
      remaining: verdict.remaining,
      retryAfterMs: verdict.retryAfterUs === -1 ? Infinity : verdict.retryAfterUs / 1000,
      resetAfterMs: verdict.resetAfterUs / 1000,
      delayMs: verdict.delayUs / 1000,
      degraded: false,
      source: 'store',
    });
    expect(errors).toEqual([]);
  });
});
