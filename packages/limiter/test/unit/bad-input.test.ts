import { describe, expect, test } from 'vitest';
import {
  createLimiter,
  LimiterError,
  memoryStore,
  tokenBucket,
  type Decision,
  type Store,
} from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { callMistakes } from './bad-input/call-mistakes.ts';
import { optionMistakes } from './bad-input/option-mistakes.ts';
import { policyMistakes } from './bad-input/policy-mistakes.ts';
import { untyped, type Bench, type ThrownMistake } from './bad-input/row.ts';

const policy = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1m' });

const syncMistakes: readonly ThrownMistake[] = [
  {
    what: 'checkSync on a store that waits for a network',
    run: () => createLimiter({ store: asynchronous() }).checkSync(policy.for('ann')),
    code: 'SYNC_UNSUPPORTED',
    mentions: ['checkSync()', 'a store that decides at once', 'use await check()'],
  },
  {
    what: 'checkSync with a bad cost',
    run: () => createLimiter().checkSync(policy.for('ann'), { cost: -1 }),
    code: 'INVALID_COST',
    mentions: ['cost is -1', 'from 0 to 9007199254740991', 'round it'],
  },
  {
    what: 'checkSync with the cost in place of the options',
    run: () => createLimiter().checkSync(policy.for('ann'), untyped(5)),
    code: 'INVALID_OPTION',
    mentions: ['are 5;', 'expected an object with cost, signal', 'or nothing'],
  },
  {
    what: 'checkSync with a misspelled option',
    run: () => createLimiter().checkSync(policy.for('ann'), untyped({ cots: 5 })),
    code: 'INVALID_OPTION',
    mentions: ['do not include "cots"', 'accepted are cost, signal', 'correct the spelling'],
  },
  {
    what: 'checkSync of no limits',
    run: () => createLimiter().checkSync([]),
    code: 'INVALID_LIMITS',
    mentions: ['0 limits', '1 to 32', 'split the request'],
  },
  {
    what: 'checkSync with a broken clock',
    run: () => createLimiter({ clock: () => 0.5 }).checkSync(policy.for('ann')),
    code: 'INVALID_CLOCK',
    mentions: ['returned 0.5', 'whole microseconds', 'Date.now() * 1000'],
  },
];

const thrownMistakes = [...policyMistakes, ...optionMistakes, ...syncMistakes];

describe('a mistake in a definition or an option throws a LimiterError that names value, bound and fix', () => {
  test.each(thrownMistakes)('$what', ({ run, code, mentions }) => {
    const error = thrownBy(run);

    expect(error).toBeInstanceOf(LimiterError);
    expect(error.code).toBe(code);
    expect(missing(error.message, mentions)).toEqual([]);
    expect(error.message).toSatisfy(isOneShortLine);
  });

  test('the table is not shortened by accident', () => {
    expect(thrownMistakes.length).toBeGreaterThan(300);
  });
});

describe('a mistake in a call rejects with a LimiterError, is never thrown at once, and spends nothing', () => {
  test.each(callMistakes)('$what', async ({ run, code, mentions }) => {
    const bench = newBench();

    const error = await rejectionOf(run, bench);

    expect(error).toBeInstanceOf(LimiterError);
    expect(error.code).toBe(code);
    expect(missing(error.message, mentions)).toEqual([]);
    expect(error.message).toSatisfy(isOneShortLine);
    expect((await bench.limiter.peek(policy.for('ann'))).remaining).toBe(10);
    expect((await bench.limiter.health()).nodes[0]?.detail).toMatch(/^0 of /);
  });

  const calls: readonly (readonly [string, (bench: Bench) => Promise<unknown>])[] = [
    ['check', ({ limiter }) => limiter.check(untyped(null))],
    ['peek', ({ limiter }) => limiter.peek(untyped(null))],
    ['forget', ({ limiter }) => limiter.forget(untyped(null))],
  ];

  test.each(calls)('%s on a store that waits for a network rejects too', async (_, run) => {
    const bench = { ...newBench(), limiter: createLimiter({ store: asynchronous() }) };

    await expect(run(bench)).rejects.toMatchObject({ code: 'INVALID_LIMITS' });
  });

  test('a bad limit anywhere in the array spends nothing on the good ones', async () => {
    const { limiter } = newBench();

    await expect(limiter.check([policy.for('ann'), untyped('bob')])).rejects.toMatchObject({
      code: 'INVALID_LIMITS',
    });

    expect((await limiter.peek(policy.for('ann'))).remaining).toBe(10);
  });

  test('the edges themselves are accepted', async () => {
    const { limiter } = newBench();
    const many = Array.from({ length: 32 }, (_, key) => policy.for(`key ${key}`));

    const decisions: Decision[] = [
      await limiter.check(policy.for('x'.repeat(2 ** 20))),
      await limiter.check(many),
      await limiter.check(policy.for('ann'), { cost: 0 }),
      await limiter.check(policy.for('bob'), {}),
      await limiter.check(policy.for('bob'), { cost: undefined, signal: undefined }),
      await limiter.check(policy.for('bob'), { signal: new AbortController().signal }),
    ];
    const never = await limiter.check(policy.for('ann'), { cost: Number.MAX_SAFE_INTEGER });

    expect(decisions.map((decision) => decision.allowed)).toEqual(decisions.map(() => true));
    expect((await limiter.peek(policy.for('bob'))).remaining).toBe(7);
    expect(never).toMatchObject({ allowed: false, retryAfterMs: Infinity });
  });
});

function newBench(): Bench {
  const clock = virtualClock();
  return { limiter: createLimiter({ clock }), policy, clock };
}

/** A store without the synchronous half. */
function asynchronous(): Store {
  const memory = memoryStore();
  return {
    check: async (limits, cost) => memory.check(limits, cost),
    peek: async (limits, cost) => memory.peek(limits, cost),
    forget: async (limits) => memory.forget(limits),
    health: async () => memory.health(),
    close: async () => memory.close(),
  };
}

function thrownBy(run: () => unknown): LimiterError {
  try {
    run();
  } catch (error) {
    return error as LimiterError;
  }
  throw new Error('nothing was thrown');
}

async function rejectionOf(run: (bench: Bench) => Promise<unknown>, bench: Bench): Promise<LimiterError> {
  // Outside of the handlers below: what is thrown at once fails the test.
  const promise = run(bench);
  return promise.then(
    () => Promise.reject(new Error('nothing was rejected')),
    (error: unknown) => error as LimiterError,
  );
}

function missing(message: string, mentions: readonly string[]): readonly string[] {
  return mentions
    .filter((mention) => !message.includes(mention))
    .map((mention) => `${mention} <- ${message}`);
}

function isOneShortLine(message: string): boolean {
  return message.length <= 400 && !/[\p{Cc}\u2028\u2029]/u.test(message);
}
