import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { compositeKey, type FoundKey } from '../../../src/http/index.ts';
import { untyped } from '../../unit/bad-input/row.ts';
import { KeyFinder, type ConstantKey } from '../../../src/http/request-key.ts';
import { runs } from '../../../../../test/runs.ts';

test('what a key function returns beside a string is refused, also as one part of several', async () => {
  const facts = { peer: undefined, headerLines: () => ['a'] };
  const keys = new KeyFinder<undefined>(() => undefined, 'reject');
  const number = untyped(() => 7);

  await expect(keys.find(number, undefined, facts)).rejects.toThrow('The key function returned 7');
  await expect(keys.find([{ header: 'x' }, number], undefined, facts)).rejects.toThrow(
    'convert ids with String(id)',
  );
});

test.each<[string, ConstantKey, FoundKey]>([
  ['the address', 'address', '192.0.2.1'],
  ['a header', { header: 'X-Tenant' }, 'acme'],
  ['a cookie', { cookie: 'session' }, 'ann'],
  ['a query parameter', { query: 'tenant' }, 'acme'],
  ['several', [{ header: 'x-tenant' }, 'address'], '4:acme,9:192.0.2.1'],
  [
    'a missing header',
    ['address', { header: 'x-none' }],
    { detail: 'The header "x-none" is missing; it says who is asking.', missing: true },
  ],
  ['a repeated header', { header: 'x-twice' }, expect.objectContaining({ missing: false })],
])('%s as a key is found alike with and without a promise', async (_, option, expected) => {
  const headers: Readonly<Record<string, readonly string[]>> = {
    'x-tenant': ['acme'],
    'x-twice': ['a', 'b'],
    cookie: ['theme=dark; session="%61nn"'],
  };
  const facts = {
    peer: '192.0.2.1',
    headerLines: (name: string) => headers[name] ?? [],
    query: () => '?a=1&tenant=acme',
  };
  const keys = new KeyFinder<undefined>(({ peer }) => peer, 'reject');

  expect(keys.findSync(option, facts)).toEqual(expected);
  expect(await keys.find(option, undefined, facts)).toEqual(expected);
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
      numRuns: runs(20_000),
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
  const keys = new KeyFinder<undefined>(({ peer }) => peer, 'address');
  const keyOf = async (sent: string | undefined): Promise<FoundKey> => {
    const facts = { peer: '192.0.2.1', headerLines: () => (sent === undefined ? [] : [sent]) };
    const found = keys.findSync({ header: 'x-api-key' }, facts);
    expect(await keys.find({ header: 'x-api-key' }, undefined, facts)).toEqual(found);
    return found;
  };
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
