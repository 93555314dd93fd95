import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { compositeKey } from '../../../src/http/index.ts';
import { untyped } from '../../unit/bad-input/row.ts';
import { findKey, type KeyFacts, type NoKey } from '../../../src/http/request-key.ts';

test('what a key function returns beside a string is refused, also as one part of several', () => {
  const facts: KeyFacts<undefined> = {
    request: undefined,
    facts: { peer: undefined, headerLines: () => ['a'] },
    addressKey: () => undefined,
  };
  const number = untyped(() => 7);

  expect(() => findKey(number, facts, 'reject')).toThrow('The key function returned 7');
  expect(() => findKey([{ header: 'x' }, number], facts, 'reject')).toThrow('convert ids with String(id)');
});

const texts = fc.string({
  unit: fc.constantFrom('a', '1', ':', ',', '@', '\ud800', '\0', '{'),
  maxLength: 6,
});

test('different parts never make the same key, whatever bytes they have', () => {
  fc.assert(
    fc.property(fc.array(texts, { maxLength: 4 }), fc.array(texts, { maxLength: 4 }), (left, right) => {
      expect(compositeKey(left) === compositeKey(right)).toBe(JSON.stringify(left) === JSON.stringify(right));
    }),
    {
      numRuns: 20_000,
      examples: [
        [
          ['a:b', 'c'],
          ['a', 'b:c'],
        ],
      ],
    },
  );
});

test('a key that is sent and an address that stands in for one are never the same', async () => {
  const facts = (sent: string | undefined): KeyFacts<undefined> => ({
    request: undefined,
    facts: { peer: '192.0.2.1', headerLines: () => (sent === undefined ? [] : [sent]) },
    addressKey: ({ peer }) => peer,
  });
  const keyOf = async (sent: string | undefined): Promise<string | NoKey> =>
    findKey({ header: 'x-api-key' }, facts(sent), 'address');
  const standIn = await keyOf(undefined);

  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('', '@', '@@', '~'),
      fc.constantFrom('192.0.2.1', 'ann', ''),
      async (prefix, rest) => {
        const sent = prefix + rest;
        if (sent !== '') expect(await keyOf(sent)).not.toBe(standIn);
        if (sent !== '') expect(await keyOf(`@${sent}`)).not.toBe(await keyOf(sent));
      },
    ),
  );
  expect(standIn).toBe('@192.0.2.1');
  expect(await keyOf('ann')).toBe('ann');
});
