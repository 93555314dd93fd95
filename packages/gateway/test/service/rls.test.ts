// Envoy's rate limit service over gRPC.
import { describe, expect, test } from 'vitest';
import { askRls, descriptor, type RlsCall } from './rls-client.ts';
import { codesOf, directoryWith, OK, OVER, withFile } from './rls-files.ts';
import { startTestService } from './running-service.ts';

describe('a mapping of our own configuration', () => {
  const MAPPED = `
rate_limit:
  policies:
    per-user: { algorithm: fixedWindow, quota: 2, window: 1h }
    per-path: { algorithm: tokenBucket, average: 1, burst: 1, period: 1h }
service:
  rls:
    descriptors:
      - { domain: shop, entries: [{ key: user }], policies: [per-user] }
      - { domain: shop, entries: [{ key: path, value: "/api/*" }], policies: [per-path] }
      - { domain: shop, entries: [{ key: trial }], policies: [per-path], shadow: true }
`;

  test('counts by the value that it leaves open, in the state that everybody shares', async () => {
    const service = await startTestService(MAPPED);
    const ask = async (): Promise<unknown> => askRls(service.port, { descriptors: [descriptor('user=ann')] });

    const first = await ask();
    await service.post('/v1/check', { policy: 'per-user', key: 'ann' });
    const third = await ask();

    expect(first).toMatchObject({
      overallCode: 'OK',
      statuses: [
        {
          code: 'OK',
          currentLimit: { requestsPerUnit: 2, unit: 'HOUR', name: 'per-user' },
          limitRemaining: 1,
          durationUntilReset: expect.stringMatching(/^\d+s$/) as string,
        },
      ],
    });
    expect(third).toMatchObject({ overallCode: 'OVER_LIMIT', statuses: [{ code: 'OVER_LIMIT' }] });
    expect(await askRls(service.port, { descriptors: [descriptor('user=bob')] })).toMatchObject({
      overallCode: 'OK',
    });
  });

  test('tells clients of a denial what the gateway tells them', async () => {
    const service = await startTestService(MAPPED);
    const call = { descriptors: [descriptor('path=/api/a')] };
    await askRls(service.port, call);

    const denied = (await askRls(service.port, call)) as {
      readonly responseHeadersToAdd: readonly { readonly key: string; readonly value: string }[];
      readonly rawBody: string;
    };

    const names = denied.responseHeadersToAdd.map(({ key }) => key.toLowerCase());
    expect(names).toEqual(
      expect.arrayContaining(['ratelimit', 'x-ratelimit-limit', 'retry-after', 'content-type']),
    );
    expect(JSON.parse(Buffer.from(denied.rawBody, 'base64').toString())).toMatchObject({ status: 429 });
  });

  test('leaves everything else alone', async () => {
    const service = await startTestService(MAPPED);
    const ask = async (text: string, domain = 'shop'): Promise<string> =>
      codesOf(await askRls(service.port, { domain, descriptors: [descriptor(text)] }));

    const answers = [];
    for (const text of ['path=/other', 'user=ann,path=/x', 'unknown=1']) {
      for (let count = 0; count < 3; count += 1) answers.push(await ask(text));
    }
    for (let count = 0; count < 3; count += 1) answers.push(await ask('user=ann', 'elsewhere'));
    for (let count = 0; count < 3; count += 1) answers.push(await ask('trial=x'));

    expect(new Set(answers)).toEqual(new Set([OK]));
  });

  test('two descriptors are charged together or not at all', async () => {
    const service = await startTestService(MAPPED);
    const both = { descriptors: [descriptor('user=ann'), descriptor('path=/api/a')] };
    await askRls(service.port, both);

    const denied = await askRls(service.port, both);
    const user = await askRls(service.port, { descriptors: [descriptor('user=ann', { hitsAddend: 0n })] });

    expect(codesOf(denied)).toBe('OVER_LIMIT [OK OVER_LIMIT]');
    // Not 0: the denied request spent nothing.
    expect(user).toMatchObject({ overallCode: 'OK', statuses: [{ limitRemaining: 1 }] });
  });
});

describe('hits', () => {
  const FILE = `
domain: shop
descriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }]
`;

  test('are those of the descriptor, else of the request, else one', async () => {
    const { ask } = await withFile(FILE);
    const remaining = async (call: Omit<RlsCall, 'descriptors'>, more = {}): Promise<unknown> =>
      (
        (await ask({ ...call, descriptors: [descriptor('user=ann', more)] })) as {
          readonly statuses: readonly { readonly limitRemaining?: number }[];
        }
      ).statuses[0]?.limitRemaining;

    expect(await remaining({})).toBe(4);
    expect(await remaining({ hitsAddend: 2 })).toBe(2);
    expect(await remaining({ hitsAddend: 2 }, { hitsAddend: 1n })).toBe(1);
    expect(await remaining({ hitsAddend: 2 }, { hitsAddend: 0n })).toBe(1);
  });

  test('of zero look: over only when not one more would fit', async () => {
    const { ask, codes } = await withFile(FILE);
    const look = descriptor('user=ann', { hitsAddend: 0n });
    expect(await codes(look)).toBe(OK);
    await ask({ hitsAddend: 5, descriptors: [descriptor('user=ann')] });

    expect(await codes(look)).toBe(OVER);
  });

  test('of the same limit twice are charged together', async () => {
    const { codes } = await withFile(FILE);
    const twice = [descriptor('user=ann', { hitsAddend: 2n }), descriptor('user=ann', { hitsAddend: 2n })];

    expect(await codes(...twice)).toBe('OK [OK OK]');
    expect(await codes(...twice)).toBe('OVER_LIMIT [OVER_LIMIT OVER_LIMIT]');
    expect(await codes(descriptor('user=ann'))).toBe(OK);
  });

  test.each([
    ['different hits', ''],
    ['a quota', 'quota_mode: true, '],
  ])(
    'of descriptors with %s are charged together or not at all, whoever asks meanwhile',
    async (_, quota) => {
      const { ask, codes } = await withFile(`
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1000 } }
  - { key: tokens, ${quota}rate_limit: { unit: year, requests_per_unit: 100 } }
`);
      const both = [descriptor('user=ann'), descriptor('tokens=ann', { hitsAddend: 10n })];

      const answers = await Promise.all(Array.from({ length: 60 }, async () => codes(...both)));
      const left = await ask({ descriptors: [descriptor('user=ann', { hitsAddend: 0n })] });

      expect(answers.filter((answer) => answer === 'OK [OK OK]')).toHaveLength(10);
      // Not one of those that were refused spent anything.
      expect(left).toMatchObject({ statuses: [{ limitRemaining: 990 }] });
    },
  );

  test('spend what has room where one quota of several is spent, and nothing where all are', async () => {
    const { ask, codes } = await withFile(`
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1000 } }
  - { key: small, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: large, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 4 } }
`);
    const all = [descriptor('user=ann'), descriptor('small=ann'), descriptor('large=ann')];
    const answers: unknown[] = [];

    for (let count = 0; count < 5; count += 1) answers.push(await codes(...all));
    const left = await ask({ descriptors: [descriptor('user=ann', { hitsAddend: 0n })] });

    expect(answers).toEqual([
      'OK [OK OK OK]',
      'OK [OK OK OK]',
      'OK [OK OVER_LIMIT OK]',
      'OK [OK OVER_LIMIT OK]',
      'OVER_LIMIT [OK OVER_LIMIT OVER_LIMIT]',
    ]);
    expect(left).toMatchObject({ statuses: [{ limitRemaining: 996 }] });
  });

  test('cannot be given back unless that is switched on', async () => {
    const { codes } = await withFile(FILE);

    expect(await codes(descriptor('user=ann', { isNegativeHits: true }))).toMatch(
      /^12: descriptor 0 gives hits back/,
    );
  });
});

describe('a limit that the request brings along', () => {
  const FILE = 'domain: shop';
  const limited = (text: string, requestsPerUnit: number, unit = 3) =>
    descriptor(text, { limit: { requestsPerUnit, unit } });

  test('holds for a known domain, and keeps what was spent when it changes', async () => {
    const { codes, ask } = await withFile(FILE);

    expect([await codes(limited('user=ann', 1)), await codes(limited('user=ann', 1))]).toEqual([OK, OVER]);
    expect([await codes(limited('user=ann', 2)), await codes(limited('user=ann', 2))]).toEqual([OK, OVER]);
    expect(codesOf(await ask({ domain: 'unknown', descriptors: [limited('user=ann', 0)] }))).toBe(OK);
  });

  test('has a unit', async () => {
    const { codes } = await withFile(FILE);

    expect(await codes(limited('user=ann', 1, 0))).toMatch(/^3: a limit of a descriptor has the unit 0/);
    expect(await codes(limited('user=ann', 1, 99))).toMatch(/^3: a limit of a descriptor has the unit 99/);
  });
});

describe('while the store cannot decide', () => {
  const failing = (policy: string): string => `
rate_limit:
  failure_policy: ${policy}
  policies: { per-user: { algorithm: fixedWindow, quota: 2, window: 1h } }
redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }
service: { rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [per-user] }] } }
`;

  test.each([
    ['failClosed', '14: the limits cannot be checked at the moment'],
    ['passThrough', OK],
    ['inMemoryFallback', OK],
  ])('%s answers %s', async (policy, expected) => {
    const service = await startTestService(failing(policy));

    expect(codesOf(await askRls(service.port, { descriptors: [descriptor('user=ann')] }))).toBe(expected);
  });
});

test('POST /json answers as the reference server does', async () => {
  const folder = directoryWith(
    'domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 1 } }]',
  );
  const service = await startTestService(`service: { rls: { directory: ${JSON.stringify(folder)} } }`);
  const body = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] };

  const replies = [
    await service.post('/json', body),
    await service.post('/json', body),
    await service.post('/json', { domain: '' }),
  ];

  expect(replies).toMatchObject([
    { status: 200, json: { overallCode: 'OK' } },
    { status: 429, json: { overallCode: 'OVER_LIMIT' } },
    { status: 400, json: { code: 'INVALID_REQUEST' } },
  ]);
});

test('gRPC calls need the token where one is configured', async () => {
  const service = await startTestService('service: { token: correct-horse-battery, rls: {} }');
  const call = { descriptors: [descriptor('user=ann')] };

  expect(await askRls(service.port, call)).toMatch(/^16: Send the token/);
  expect(
    codesOf(
      await askRls(service.port, { ...call, metadata: { authorization: 'Bearer correct-horse-battery' } }),
    ),
  ).toBe(OK);
});
