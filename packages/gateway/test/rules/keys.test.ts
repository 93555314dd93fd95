import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { gateOf, problemOf, statusOf, type Asked } from './facts.ts';
import { runs } from '../../../../test/runs.ts';

/** Whom a request is counted for. */
function keysOf(yaml: string, asked: Asked): readonly string[] | number {
  const ruling = gateOf(yaml).ask(asked);
  return ruling.admitted ? ruling.detail.keys : ruling.problem.status;
}

function counted(strategy: string, path = '/**'): string {
  return `  policies: { p: { average: 5 } }\n  rules:\n    - { name: r, match: { path: "${path}" }, policies: [p], key: ${strategy} }\n`;
}

const hashOf = (secret: string): string =>
  `sha256:${createHash('sha256').update(secret).digest('hex').slice(0, 32)}`;

const TOKEN = (payload: unknown): string =>
  `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`;

describe('each strategy reads who is asking', () => {
  test.each<[strategy: string, asked: Asked, keys: readonly string[] | number]>([
    ['clientIP', {}, ['203.0.113.7']],
    ['global', {}, ['global']],
    ['{ type: global, global_key: all }', {}, ['all']],
    ['{ type: header, header_name: X-Tenant }', { headers: [['x-tenant', 'acme']] }, ['acme']],
    ['{ type: header, header_name: X-Tenant }', {}, 400],
    ['{ type: header, header_name: X-Tenant }', { headers: [['X-Tenant', '']] }, 400],
    ['{ type: header, header_name: X-Tenant, on_missing: clientIP }', {}, ['@203.0.113.7']],
    [
      '{ type: header, header_name: X-Tenant, on_missing: clientIP }',
      { headers: [['X-Tenant', '@203.0.113.7']] },
      ['@@203.0.113.7'],
    ],
    ['{ type: cookie, name: session }', { headers: [['Cookie', 'a=b; session=s1']] }, [hashOf('s1')]],
    ['{ type: cookie, name: session }', { headers: [['Cookie', 'sessions=s1']] }, 400],
    ['{ type: cookie, name: session, on_missing: clientIP }', {}, ['@203.0.113.7']],
    ['{ type: queryParameter, name: tenant }', { query: '?a=b&tenant=ac%6De' }, ['acme']],
    ['{ type: queryParameter, name: tenant }', { query: '?tenants=acme' }, 400],
    ['{ type: queryParameter, name: tenant, on_missing: clientIP }', {}, ['@203.0.113.7']],
    // Who says it twice would choose which of them the backend reads.
    ['{ type: cookie, name: session }', { headers: [['Cookie', 'session=s1; session=s2']] }, 400],
    ['{ type: queryParameter, name: tenant }', { query: '?tenant=a&tenant=b' }, 400],
    ['{ type: composite, header_name: X-Tenant }', { headers: [['X-Tenant', 'a']] }, ['1:a']],
    [
      '{ type: composite, header_name: X-Tenant, path_prefix: true }',
      { path: '/api/x', headers: [['X-Tenant', 'a']] },
      ['1:a,3:api'],
    ],
    [
      '{ type: composite, parts: [{ type: clientIP }, { type: header, header_name: X-Tenant }] }',
      { headers: [['X-Tenant', 'a']] },
      ['11:203.0.113.7,1:a'],
    ],
    ['{ type: composite, parts: [{ type: clientIP }, { type: header, header_name: X-Tenant }] }', {}, 400],
    [
      '{ type: jwtClaim, claim: sub, verified: false }',
      { headers: [['Authorization', `Bearer ${TOKEN({ sub: 'ann' })}`]] },
      ['ann'],
    ],
    [
      '{ type: jwtClaim, claim: sub, verified: false, header_name: X-Token }',
      { headers: [['X-Token', TOKEN({ sub: 7 })]] },
      ['7'],
    ],
    ['{ type: jwtClaim, claim: sub, verified: false }', { headers: [['Authorization', 'Bearer x']] }, 400],
    [
      '{ type: jwtClaim, claim: sub, verified: false }',
      { headers: [['Authorization', 'Bearer a.bm90IGpzb24.c']] },
      400,
    ],
    [
      '{ type: jwtClaim, claim: constructor, verified: false }',
      { headers: [['Authorization', `Bearer ${TOKEN({})}`]] },
      400,
    ],
    [
      '{ type: jwtClaim, claim: sub, verified: false }',
      { headers: [['Authorization', `Bearer ${TOKEN({ sub: { a: 1 } })}`]] },
      400,
    ],
    [
      '{ type: jwtClaim, claim: sub, verified: false, on_missing: clientIP }',
      { headers: [['Authorization', 'Basic abc']] },
      ['@203.0.113.7'],
    ],
  ])('%s, %j: %j', (strategy, asked, keys) => {
    expect(keysOf(counted(strategy), asked)).toEqual(keys);
  });

  test('a path parameter is the segment of the path', () => {
    const yaml = counted('{ type: pathParameter, name: tenant }', '/t/{tenant}/**');

    expect(keysOf(yaml, { path: '/t/acme/orders' })).toEqual(['acme']);
  });
});

test('a key header that is sent twice is refused, also where the address would stand in', () => {
  const yaml = counted('{ type: header, header_name: X-Tenant, on_missing: clientIP }');
  const { ask } = gateOf(yaml);

  const ruling = ask({
    headers: [
      ['X-Tenant', 'a'],
      ['X-Tenant', 'a'],
    ],
  });

  expect(problemOf(ruling)).toEqual({
    type: 'about:blank',
    title: 'Bad Request',
    status: 400,
    detail: 'The header "x-tenant" may be sent only once.',
  });
});

test.each([
  'clientIP',
  'global',
  '{ type: header, header_name: X-Tenant, on_missing: clientIP }',
  '{ type: composite, header_name: X-Tenant, path_prefix: true }',
  '{ type: pathParameter, name: tenant }',
  '{ type: jwtClaim, claim: sub, verified: false, on_missing: clientIP }',
])('%s reads nothing of the query, whatever is given there, once or twice', (strategy) => {
  const yaml = counted(strategy, '/t/{tenant}');
  const asked: Asked = { path: '/t/acme', headers: [['X-Tenant', 'acme']] };
  const usual = keysOf(yaml, asked);

  const query = '?tenant=other&tenant=a&limit=1&limit=2&x-tenant=other&sub=other&key=other';

  expect(usual).toHaveLength(1);
  expect(keysOf(yaml, { ...asked, query })).toEqual(usual);
});

test('a secret is counted by its hash, and overrides are found for it', () => {
  const yaml = `  policies: { p: { average: 1, overrides: [{ key: sesame, average: 3 }] } }
  rules: [{ name: r, policies: [p], key: { type: header, header_name: X-Api-Key } }]\n`;
  const { ask, records } = gateOf(`${yaml}logging: { decision_log: all }`);

  const statuses = [1, 2, 3, 4].map(() => statusOf(ask({ headers: [['X-Api-Key', 'sesame']] })));

  expect(statuses).toEqual([200, 200, 200, 429]);
  expect(JSON.stringify(records)).not.toContain('sesame');
  expect(records[0]?.keys[0]).toMatch(/^sha256:[\da-f]{32}$/);
});

test('the same text read in two places is two keys, even under one policy', () => {
  const { ask } = gateOf(`  average: 1
  period: 1h
  rules:
    - { name: by-header, match: { path: /h }, policies: [default], key: { type: header, header_name: X-Tenant } }
    - { name: by-parts, match: { path: /c }, policies: [default], key: { type: composite, parts: [{ type: clientIP }, { type: header, header_name: X-Tenant }] } }\n`);
  const victim = '203.0.113.7';

  const stolen = ask({ path: '/h', address: '198.51.100.1', headers: [['X-Tenant', victim]] });
  const disguised = ask({
    path: '/h',
    address: '198.51.100.1',
    headers: [['X-Tenant', '11:203.0.113.7,1:a']],
  });

  expect([stolen, disguised].map(statusOf)).toEqual([200, 200]);
  expect(statusOf(ask({ address: victim }))).toBe(200);
  expect(statusOf(ask({ path: '/c', address: victim, headers: [['X-Tenant', 'a']] }))).toBe(200);
});

test('the same strategy in two rules counts together', () => {
  const { ask } = gateOf(`  policies: { p: { average: 1, period: 1h } }
  rules:
    - { name: a, match: { path: /a }, policies: [p], key: { type: header, header_name: X-Tenant } }
    - { name: b, match: { path: /b }, policies: [{ policy: p, key: { type: header, header_name: x-tenant, on_missing: clientIP } }] }\n`);
  const headers = [['X-Tenant', 'acme']] as const;

  expect(statusOf(ask({ path: '/a', headers }))).toBe(200);
  expect(statusOf(ask({ path: '/b', headers }))).toBe(429);
});

test('different identities never make the same key', () => {
  const strategies = [
    'clientIP',
    '{ type: header, header_name: X-Tenant, on_missing: clientIP }',
    '{ type: header, header_name: X-User, on_missing: clientIP }',
    '{ type: composite, parts: [{ type: header, header_name: X-Tenant, on_missing: clientIP }, { type: header, header_name: X-User, on_missing: clientIP }] }',
  ];
  const rules = strategies.map(
    (key, at) => `    - { name: r${at}, match: { path: /${at} }, policies: [p], key: ${key} }\n`,
  );
  const yaml = `  policies: { p: { average: 1000000 } }\n  rules:\n${rules.join('')}`;
  const { ask } = gateOf(yaml);
  const nasty = fc
    .array(fc.constantFrom('@', ':', ',', '1', '2', 'a', '203.0.113.7', 'header x-tenant'), { maxLength: 4 })
    .map((parts) => parts.join(''));
  const request = fc.record({
    strategy: fc.nat(strategies.length - 1),
    tenant: nasty,
    user: nasty,
    address: fc.constantFrom('203.0.113.7', '1.1.1.1'),
  });
  // Who is meant, without any encoding.
  const identity = ({
    strategy,
    tenant,
    user,
    address,
  }: {
    strategy: number;
    tenant: string;
    user: string;
    address: string;
  }): string => {
    const named = (value: string): unknown => (value === '' ? { address } : { value });
    const parts = [[address], [named(tenant)], [named(user)], [named(tenant), named(user)]][strategy];
    return JSON.stringify([strategy, parts]);
  };
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(request, (asked) => {
      const { strategy, tenant, user, address } = asked;
      const [key = ''] = ask({
        path: `/${strategy}`,
        address,
        headers: [
          ['X-Tenant', tenant],
          ['X-User', user],
        ],
      }).detail.keys;

      const who = seen.get(key) ?? identity(asked);
      seen.set(key, who);
      expect(who).toBe(identity(asked));
    }),
    { numRuns: runs(5000) },
  );
  expect(seen.size).toBeGreaterThan(runs(1000));
});
