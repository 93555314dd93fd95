import { expect, test } from 'vitest';
import { createLimiter, fixedWindow } from '../../src/index.ts';
import { formatEntry } from '../../src/decision-log.ts';
import { quote } from '../../src/errors.ts';
import type { SyncStore } from '../../src/stores/store.ts';

const api = fixedWindow({ name: 'api', quota: 1, window: '1m' });

test.each(['"', '\\', '\n', '\u0000', '\u202e', '\ud800', 'x'])(
  'a long key of %j is cut between characters, never inside an escape',
  (character) => {
    const text = quote(character.repeat(500), 128);

    const read: unknown = JSON.parse(text);
    expect(read).toBe(character.repeat(String(read).length));
    expect(text.length).toBeLessThanOrEqual(258);
  },
);

test('a key cannot end its own quotes in the decision log', () => {
  const entry = { key: '"'.repeat(128), policy: 'api', cost: 1, remaining: 0, retryAfterMs: 0 } as const;

  const line = formatEntry({ ...entry, outcome: 'denied', source: 'store' });

  expect(line).toMatch(/ key="(?:\\"){128}" cost=1 /);
});

test('the text of a foreign error is cut and stays on one line', async () => {
  const failure = new Error(`\u001b[2J${'page of text\n'.repeat(500)}`);
  const limiter = createLimiter({ store: throwing(failure), failurePolicy: 'passThrough' });

  const { cause } = await limiter.check(api.for('k'));

  expect(cause).toHaveProperty('cause', failure);
  expect(String(cause)).toMatch(/^[^\p{Cc}]{1,300}$/u);
});

test('a synchronous store that throws is replaced by local memory with the same policy', () => {
  const limiter = createLimiter({ store: throwing(new Error('broken')), failurePolicy: 'inMemoryFallback' });

  const decisions = [limiter.checkSync(api.for('k')), limiter.checkSync(api.for('k'))];

  expect(decisions.map(({ allowed, source }) => [allowed, source])).toEqual([
    [true, 'fallback'],
    [false, 'fallback'],
  ]);
});

function throwing(failure: Error): SyncStore {
  const fail = (): never => {
    throw failure;
  };
  return {
    checkSync: fail,
    peekSync: fail,
    forgetSync: fail,
    check: fail,
    peek: fail,
    forget: fail,
    health: fail,
    close: async () => undefined,
  };
}
