// The files of envoyproxy/ratelimit, loaded unchanged, and counted as that server does with `compat: strict`.
import { describe, expect, test } from 'vitest';
import { descriptor } from './rls-client.ts';
import { OK, OVER, withFile } from './rls-files.ts';

describe('files of envoyproxy/ratelimit', () => {
  test('match as there: value, wildcard, key; and a limit counts at its own depth only', async () => {
    const { codes } = await withFile(`
domain: shop
descriptors:
  - { key: user, value: ann, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: user, value: "a*", rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - key: plan
    value: free
    rate_limit: { unit: hour, requests_per_unit: 1 }
    descriptors: [{ key: path, descriptors: [{ key: verb, rate_limit: { unit: hour, requests_per_unit: 1 } }] }]
`);
    const admitted = async (text: string): Promise<number> => {
      for (let count = 0; count < 6; count += 1) if ((await codes(descriptor(text))) === OVER) return count;
      return Infinity;
    };

    expect(await admitted('user=ann')).toBe(1);
    expect(await admitted('user=abe')).toBe(2);
    expect(await admitted('user=bob')).toBe(3);
    expect(await admitted('plan=free')).toBe(1);
    expect(await admitted('plan=free,path=/x')).toBe(Infinity);
    expect(await admitted('plan=free,path=/x,verb=GET')).toBe(1);
    expect(await admitted('plan=free,path=/x,verb=GET,more=1')).toBe(Infinity);
    expect(await admitted('plan=paid')).toBe(Infinity);
  });

  test('a wildcard counts each value, with share_threshold all of them together', async () => {
    const { codes } = await withFile(`
domain: shop
descriptors:
  - { key: own, value: "v*", rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: all, value: "v*", share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
`);

    expect([await codes(descriptor('own=v1')), await codes(descriptor('own=v2'))]).toEqual([OK, OK]);
    expect([await codes(descriptor('all=v1')), await codes(descriptor('all=v2'))]).toEqual([OK, OVER]);
  });

  test('unlimited, shadow mode, nothing at all, and limits that replace others', async () => {
    const { ask, codes } = await withFile(`
domain: shop
descriptors:
  - { key: free, rate_limit: { unlimited: true } }
  - { key: trial, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: none, rate_limit: { unit: hour, requests_per_unit: 0 } }
  - { key: base, rate_limit: { name: base, unit: hour, requests_per_unit: 1 } }
  - { key: more, rate_limit: { unit: hour, requests_per_unit: 9, replaces: [{ name: base }] } }
`);

    expect(await ask({ descriptors: [descriptor('free=x')] })).toMatchObject({
      statuses: [{ code: 'OK', limitRemaining: 4_294_967_295 }],
    });
    await codes(descriptor('trial=x'));
    expect(await codes(descriptor('trial=x'))).toBe(OK);
    expect(await codes(descriptor('none=x'))).toBe(OVER);
    const replaced = [descriptor('base=x'), descriptor('more=x')];
    for (let count = 0; count < 3; count += 1) expect(await codes(...replaced)).toBe('OK [OK OK]');
    expect(await codes(descriptor('base=x'))).toBe(OK);
  });

  test('quota mode refuses only when every quota is spent', async () => {
    const { codes } = await withFile(`
domain: shop
descriptors:
  - { key: one, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: two, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
`);
    const both = [descriptor('one=x'), descriptor('two=x')];

    expect(await codes(...both)).toBe('OK [OK OK]');
    expect(await codes(...both)).toBe('OK [OVER_LIMIT OK]');
    expect(await codes(...both)).toBe('OVER_LIMIT [OVER_LIMIT OVER_LIMIT]');
  });

  test('metadata of what passed comes back', async () => {
    const { ask } = await withFile(
      `
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 1 }, metadata: { tier: gold, nested: { a: 1 } } }
`,
      'dynamic_metadata: true',
    );

    expect(await ask({ descriptors: [descriptor('user=ann')] })).toMatchObject({
      dynamicMetadata: {
        domain: 'shop',
        descriptors: [{ entries: ['user=ann'] }],
        metadata: { tier: 'gold', nested: { a: 1 } },
      },
    });
  });

  test.each([
    ['domain: ""', 'config file cannot have empty domain'],
    ['domain: a\ndescriptors: [{ value: x }]', 'descriptor has empty key'],
    ['domain: a\nnope: 1', "config error, unknown key 'nope'"],
    ['domain: a\n0.25: 1', 'config error, key is not of type string: 0.25'],
    ['domain: a\ndescriptors: [a]', 'config error, yaml file contains list of type other than map: a'],
    [
      'domain: a\ndescriptors: [{ key: k, value: v }, { key: k, value: v }]',
      "duplicate descriptor composite key 'a.k_v'",
    ],
    [
      'domain: a\ndescriptors: [{ key: a_b }, { key: a, value: b }]',
      "duplicate descriptor composite key 'a.a_b'",
    ],
    [
      'domain: a\ndescriptors: [{ key: k, rate_limit: { unit: foo, requests_per_unit: 1 } }]',
      "invalid rate limit unit 'foo'",
    ],
    [
      'domain: a\ndescriptors: [{ key: k, rate_limit: { unit: day, unlimited: true } }]',
      'should not specify rate limit unit when unlimited',
    ],
    [
      'domain: a\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: "" }] } }]',
      'should not have an empty replaces entry',
    ],
    [
      'domain: a\ndescriptors: [{ key: k, rate_limit: { name: n, unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }]',
      'replaces should not contain name of same descriptor',
    ],
    [
      'domain: a\ndescriptors: [{ key: k, value: v, share_threshold: true }]',
      "share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
    ],
    ['domain: a\ndescriptors: [', 'error loading config file: '],
    ['domain: a\ndescriptors: *nowhere', 'error loading config file: Unresolved alias'],
    [
      'domain: a\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: -1 } }]',
      'error loading config file: requests_per_unit is -1',
    ],
  ])('a file that the reference server refuses is refused with its words: %j', async (yaml, message) => {
    await expect(withFile(yaml)).rejects.toThrow(message);
  });
});

describe('compat: strict', () => {
  const FILE = `
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: path, rate_limit: { unit: hour, requests_per_unit: 1 } }
`;

  test('counts every descriptor, also of denied requests, and what is over', async () => {
    const { ask, codes } = await withFile(FILE, 'compat: strict');
    const both = [descriptor('user=ann'), descriptor('path=/')];

    const codesOfThree = [
      await codes(...both),
      await codes(...both),
      await codes(...both),
      await codes(...both),
    ];
    const zero = await codes(descriptor('user=bob', { hitsAddend: 3n }));
    const full = await codes(descriptor('user=bob', { hitsAddend: 0n }));
    await ask({ hitsAddend: 100, descriptors: [descriptor('user=eve')] });

    expect(codesOfThree).toEqual([
      'OK [OK OK]',
      'OVER_LIMIT [OK OVER_LIMIT]',
      'OVER_LIMIT [OK OVER_LIMIT]',
      'OVER_LIMIT [OVER_LIMIT OVER_LIMIT]',
    ]);
    expect([zero, full]).toEqual([OK, OK]);
    // The hundred hits that were over were counted, too.
    expect(await codes(descriptor('user=eve'))).toBe(OVER);
  });

  test('sends the three headers of the reference server if asked to, and its one error code', async () => {
    const { ask, codes } = await withFile(FILE, 'compat: strict, response_headers: true');

    expect(await ask({ descriptors: [descriptor('user=ann')] })).toMatchObject({
      responseHeadersToAdd: [
        { key: 'RateLimit-Limit', value: '3' },
        { key: 'RateLimit-Remaining', value: '2' },
        { key: 'RateLimit-Reset' },
      ],
    });
    expect(await ask({ domain: '', descriptors: [descriptor('user=ann')] })).toBe(
      '2: rate limit domain must not be empty',
    );
    expect(await codes()).toBe('2: rate limit descriptor list must not be empty');
  });
});
