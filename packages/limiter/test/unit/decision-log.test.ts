import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import {
  createLimiter,
  fixedWindow,
  logDecisions,
  type DecisionLogEntry,
  type Limiter,
} from '../../src/index.ts';
import { formatEntry } from '../../src/decision-log.ts';
import { virtualClock } from '../../src/testing/index.ts';

const api = fixedWindow({ name: 'api', quota: 2, window: '1h' });

/** Ends a line, moves the cursor, or reorders what a terminal shows. */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

function printed(): string[] {
  const lines: string[] = [];
  vi.spyOn(console, 'info').mockImplementation((line: string) => void lines.push(line));
  return lines;
}

function newLimiter(decisionLog: boolean | ((entry: DecisionLogEntry) => void)): Limiter {
  return createLimiter({ clock: virtualClock(), decisionLog });
}

describe('decisionLog: true', () => {
  test('prints one line per decision', async () => {
    const lines = printed();
    const limiter = newLimiter(true);

    await limiter.check(api.for('ann'), { cost: 2 });
    limiter.checkSync(api.for('ann'));
    await limiter.peek(api.for('ann'));

    expect(lines).toEqual([
      'spillgate allowed policy=api key="ann" cost=2 remaining=0 retryAfterMs=0 source=store',
      'spillgate denied policy=api key="ann" cost=1 remaining=0 retryAfterMs=3600000 source=store',
    ]);
  });

  const HOSTILE_KEYS = [
    'ann\nspillgate allowed policy=admin key="root"',
    'ann\r\n',
    '\u001b[2J\u001b[31mred',
    '\u009b31m',
    '\u007f\u0008\u0008',
    '\u202egnp.exe',
    '\u2066\u2067\u2068\u2069',
    '\u061c\u200e\u200f',
    'line\u2028paragraph\u2029',
    'a" policy="b',
    'back\\slash',
    '\ud800',
    `${'x'.repeat(127)}\u{1f600}`,
    '\u0000',
    'x'.repeat(2 ** 20),
    '\u0007'.repeat(2 ** 20),
  ];

  test.each(HOSTILE_KEYS.map((key) => [JSON.stringify(key.slice(0, 30)), key]))(
    'prints one safe line for the key %s',
    async (_, key) => {
      const lines = printed();

      await newLimiter(true).check(api.for(key));

      expect(lines).toHaveLength(1);
      expect(lines[0]).not.toMatch(UNSAFE);
      expect(lines[0]).toMatch(
        /^spillgate allowed policy=api key="(?:[^"\\]|\\.)*" cost=1 remaining=1 retryAfterMs=0 source=store$/,
      );
      expect(lines[0]?.length).toBeLessThan(1000);
    },
  );

  test('a short key can be read back from the line, whatever it is made of', () => {
    const entry = {
      policy: 'api',
      outcome: 'denied',
      cost: 1,
      remaining: 0,
      retryAfterMs: 1,
      source: 'store',
    } as const;
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }), (key) => {
        const line = formatEntry({ ...entry, key });

        const quoted = /key=("(?:[^"\\]|\\.)*") cost=/.exec(line)?.[1] ?? '';
        expect(line).not.toMatch(UNSAFE);
        expect(JSON.parse(quoted)).toBe(key);
      }),
      { numRuns: 300 },
    );
    expect.hasAssertions();
  });
});

describe('decisionLog: a function', () => {
  test('gets an entry per decision, with the key as it is, and nothing is printed', async () => {
    const lines = printed();
    const entries: DecisionLogEntry[] = [];
    const limiter = newLimiter((entry) => entries.push(entry));

    await limiter.check(api.for('line\nbreak'));
    await limiter.check(api.for('line\nbreak'), { cost: 3 });

    expect(entries).toEqual([
      {
        key: 'line\nbreak',
        policy: 'api',
        outcome: 'allowed',
        cost: 1,
        remaining: 1,
        retryAfterMs: 0,
        source: 'store',
      },
      {
        key: 'line\nbreak',
        policy: 'api',
        outcome: 'denied',
        cost: 3,
        remaining: 1,
        retryAfterMs: Infinity,
        source: 'store',
      },
    ]);
    expect(lines).toEqual([]);
  });

  test('that throws does not break decisions', async () => {
    const reported = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const limiter = newLimiter(() => {
      throw new Error('disk full');
    });

    expect((await limiter.check(api.for('ann'))).allowed).toBe(true);
    expect(reported).toHaveBeenCalledOnce();
  });
});

test.each([[false], [undefined]])('decisionLog: %s prints nothing', async (decisionLog) => {
  const lines = printed();

  await createLimiter({ clock: virtualClock(), decisionLog }).check(api.for('ann'));

  expect(lines).toEqual([]);
});

test('logDecisions can be switched on and off later', async () => {
  const limiter = newLimiter(false);
  const entries: DecisionLogEntry[] = [];

  await limiter.check(api.for('before'));
  const stop = logDecisions(limiter, (entry) => entries.push(entry));
  await limiter.check(api.for('during'));
  stop();
  await limiter.check(api.for('after'));

  expect(entries.map((entry) => entry.key)).toEqual(['during']);
});
