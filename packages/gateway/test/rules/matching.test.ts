import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/index.ts';
import { RuleMatcher, segmentAt } from '../../src/rules/rule-matcher.ts';
import type { RequestFacts } from '../../src/rules/request-facts.ts';
import { facts, gateOf, statusOf, type Asked } from './facts.ts';
import { runs } from '../../../../test/runs.ts';

type Match = Config['rate_limit']['rules'][number]['match'];

describe('a path pattern', () => {
  test.each<[pattern: string, path: string, matches: boolean]>([
    ['/', '/', true],
    ['/', '/a', false],
    ['/login', '/login', true],
    ['/login', '/login/', false],
    ['/login', '/loginx', false],
    ['/login', '/Login', false],
    ['/login/', '/login/', true],
    ['/users/{id}', '/users/7', true],
    ['/users/{id}', '/users/', false],
    ['/users/{id}', '/users', false],
    ['/users/{id}', '/users/7/posts', false],
    ['/users/{id}/posts', '/users/7/posts', true],
    ['/static/*', '/static/a', true],
    ['/static/*', '/static/', false],
    ['/static/*', '/static/a/b', false],
    ['/files/**', '/files', true],
    ['/files/**', '/files/', true],
    ['/files/**', '/files/a/b', true],
    ['/files/**', '/filesystem', false],
    ['/%7Euser/caf%c3%a9', '/~user/caf%C3%A9', true],
    ['/**', '/', true],
    ['/**', '/a/b', true],
  ])('%s and the path %s: %s', (pattern, path, matches) => {
    expect(find([{ path: [pattern] }], { path })).toBe(matches ? 0 : undefined);
  });
});

describe('a host', () => {
  test.each<[pattern: string, host: string, matches: boolean]>([
    ['example.com', 'example.com', true],
    ['example.com', 'example.com.', true],
    ['example.com', 'a.example.com', false],
    ['*.example.com', 'a.example.com', true],
    ['*.example.com', 'a.example.com.', true],
    ['*.example.com', 'a.b.example.com', true],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'badexample.com', false],
    ['*.example.com', '.example.com', false],
  ])('%s and the host %s: %s', (pattern, host, matches) => {
    expect(find([{ host: [pattern] }], { host })).toBe(matches ? 0 : undefined);
  });
});

test('every header has to have its value; * is any, and names know no case', () => {
  const match = { header: { 'X-Plan': 'free', 'X-Beta': '*' } };

  expect(
    find([match], {
      headers: [
        ['x-plan', 'free'],
        ['X-BETA', ''],
      ],
    }),
  ).toBe(0);
  expect(find([match], { headers: [['X-Plan', 'free']] })).toBeUndefined();
  expect(
    find([match], {
      headers: [
        ['X-Plan', 'freedom'],
        ['X-Beta', '1'],
      ],
    }),
  ).toBeUndefined();
});

test('the first rule that matches decides, wherever in the tree it stands', () => {
  const rules: Match[] = [
    { path: ['/a/{x}'], method: ['POST'] },
    { path: ['/a/**'], host: ['example.com'] },
    { path: ['/a/b'] },
    {},
  ];

  expect(find(rules, { path: '/a/b', method: 'POST' })).toBe(0);
  expect(find(rules, { path: '/a/b' })).toBe(1);
  expect(find(rules, { path: '/a/b', host: 'other.com' })).toBe(2);
  expect(find(rules, { path: '/c' })).toBe(3);
});

test('parameters are found where the pattern that matched has them', () => {
  const matcher = new RuleMatcher([
    { match: { path: ['/t/{tenant}', '/{region}/t/{tenant}'] }, rule: 'rule' },
  ]);

  const found = ['/t/acme', '/eu/t/acme'].map((path) => {
    const at = matcher.find(facts({ path }))?.parameters.get('tenant');
    return at === undefined ? undefined : segmentAt(path, at);
  });

  expect(found).toEqual(['acme', 'acme']);
  expect(segmentAt('/a', 3)).toBe('');
});

test('random rules and requests: the same rule as one after the other by regular expressions', () => {
  let matched = 0;
  fc.assert(
    fc.property(fc.array(RULE, { maxLength: 12 }), REQUEST, (rules, asked) => {
      const request = facts(asked);
      const expected = rules.findIndex((match) => matchesNaively(match, request));
      matched += expected === -1 ? 0 : 1;

      expect(find(rules, asked)).toBe(expected === -1 ? undefined : expected);
    }),
    { numRuns: runs(3000) },
  );
  expect(matched).toBeGreaterThan(runs(500));
});

test('hundreds of rules cost no more than a few: only those that may fit are looked at', () => {
  let looks = 0;
  const rules = Array.from({ length: 500 }, (_, at): Match => ({
    path: [`/service-${at}/**`],
    header: { 'X-Any': '*' },
  }));
  const matcher = new RuleMatcher(rules.map((match, rule) => ({ match, rule })));
  const request = facts({ path: '/service-499/a' });
  const counted: RequestFacts = {
    ...request,
    headers: {
      raw: [],
      lines: () => {
        looks += 1;
        return ['yes'];
      },
    },
  };

  expect(matcher.find(counted)?.rule).toBe(499);
  expect(looks).toBe(1);
});

function find(rules: readonly Match[], asked: Asked): number | undefined {
  return new RuleMatcher(rules.map((match, rule) => ({ match, rule }))).find(facts(asked))?.rule;
}

const SEGMENT = fc.constantFrom('a', 'b', 'ab', '');
const PATH = fc.array(SEGMENT, { minLength: 1, maxLength: 4 }).map((segments) => `/${segments.join('/')}`);
const PATTERN = fc
  .tuple(
    fc.array(fc.constantFrom('a', 'b', 'ab', '{p}', '*'), { minLength: 0, maxLength: 3 }),
    fc.constantFrom('a', 'b', '', '{q}', '*', '**'),
  )
  .map(([head, last]) => `/${[...head, last].join('/')}`);
const HOSTS = ['a.example.com', 'example.com', 'b.a.example.com', 'other.org'];
const HOST_PATTERN = fc.constantFrom(...HOSTS, '*.example.com', '*.a.example.com', '*.org');
const METHOD = fc.constantFrom('GET', 'POST');

const RULE: fc.Arbitrary<Match> = fc.record({
  path: fc.option(fc.array(PATTERN, { minLength: 1, maxLength: 3 }), { nil: undefined }),
  host: fc.option(fc.array(HOST_PATTERN, { minLength: 1, maxLength: 2 }), { nil: undefined }),
  method: fc.option(fc.array(METHOD, { minLength: 1, maxLength: 2 }), { nil: undefined }),
  header: fc.option(fc.constantFrom({ 'X-A': '1' }, { 'x-a': '*' }, { 'X-B': '2', 'X-A': '*' }), {
    nil: undefined,
  }),
});

const REQUEST: fc.Arbitrary<Asked> = fc.record({
  path: PATH,
  host: fc.constantFrom(...HOSTS),
  method: METHOD,
  headers: fc.constantFrom<readonly (readonly [string, string])[]>(
    [],
    [['X-A', '1']],
    [
      ['X-A', '3'],
      ['X-B', '2'],
    ],
    [
      ['X-A', '3'],
      ['X-A', '1'],
    ],
  ),
});

/** What the reference page says, one rule after the other. */
function matchesNaively({ path, host, method, header }: Match, request: RequestFacts): boolean {
  const fitsPath = path === undefined || path.some((pattern) => expressionOf(pattern).test(request.path));
  const fitsHost =
    host === undefined ||
    host.some((name) =>
      name.startsWith('*.') ? request.host.endsWith(name.slice(1)) : request.host === name,
    );
  const fitsHeaders = Object.entries(header ?? {}).every(([name, value]) => {
    const lines = request.headers.lines(name.toLowerCase());
    return value === '*' ? lines.length > 0 : lines.includes(value);
  });
  return fitsPath && fitsHost && fitsHeaders && (method === undefined || method.includes(request.method));
}

function expressionOf(pattern: string): RegExp {
  const below = pattern.endsWith('/**');
  const source = (below ? pattern.slice(0, -3) : pattern)
    .replaceAll(/\{\w+\}|\*/g, '[^/]+')
    .replaceAll('.', '\\.');
  return new RegExp(`^${source}${below ? '(?:/.*)?' : ''}$`);
}

describe('rules for GET', () => {
  const rules = (setting: string): string =>
    `${setting}  rules:\n    - { name: get, match: { path: /a, method: GET } }\n    - { name: all }\n`;
  const nameOf = (yaml: string, method: string): string | undefined =>
    gateOf(yaml).ask({ path: '/a', method }).detail.rule;

  test('match HEAD, too', () => {
    expect(nameOf(rules(''), 'GET')).toBe('get');
    expect(nameOf(rules(''), 'HEAD')).toBe('get');
    expect(nameOf(rules(''), 'POST')).toBe('all');
  });

  test('match GET alone where the configuration says so', () => {
    expect(nameOf(rules('  head_matches_get: false\n'), 'GET')).toBe('get');
    expect(nameOf(rules('  head_matches_get: false\n'), 'HEAD')).toBe('all');
  });
});

describe('a rule with lenient_path', () => {
  test.each([
    ['pathParameter', '{ type: pathParameter, name: tenant }'],
    ['path_prefix', '{ type: composite, header_name: X-User, path_prefix: true }'],
    [
      'a part of a composite key',
      '{ type: composite, parts: [{ type: pathParameter, name: tenant }, { type: clientIP }] }',
    ],
  ])('reads its key from the path that it compares: %s', (_, key) => {
    const gate = gateOf(
      `  policies: { p: { average: 1, burst: 3, period: 1h } }\n  rules:\n    - { name: r, match: { path: "/{tenant}/x", lenient_path: true }, policies: [p], key: ${key} }\n`,
    );
    const paths = ['/acme/x', '/ACME/x', '/acme;1/x', '/acme;2/x/', '/Acme;x=y/x;z'];

    const statuses = paths.map((path) => statusOf(gate.ask({ path, headers: [['X-User', 'ann']] })));

    expect(statuses).toEqual([200, 200, 200, 429, 429]);
  });

  test('has its lists in that spelling, too', () => {
    const gate = gateOf(
      '  policies: { p: { average: 9 } }\n  rules:\n    - { name: r, match: { path: "/{tenant}/x", lenient_path: true }, policies: [p], key: { type: pathParameter, name: tenant }, deny: { keys: [Acme] } }\n',
    );

    expect(['/acme/x', '/ACME;1/x', '/other/x'].map((path) => statusOf(gate.ask({ path })))).toEqual([
      403, 403, 200,
    ]);
  });
});

describe('lenient_path', () => {
  const FILE = `  rules:
    - { name: login, match: { path: /Login, lenient_path: true } }
    - { name: users, match: { path: "/users/{id}/", lenient_path: true }, key: { type: pathParameter, name: id } }
    - { name: all, match: { path: "/files/**", host: a.example.com, lenient_path: true } }
    - { name: exact, match: { path: /exact } }\n`;

  test.each<[path: string, rule: string | undefined]>([
    ['/login', 'login'],
    ['/LOGIN', 'login'],
    ['/login/', 'login'],
    ['/login;x=1', 'login'],
    ['/Login;a/;b', 'login'],
    ['/;a/login', 'login'],
    ['/login/x', undefined],
    ['/loginx', undefined],
    ['/', undefined],
    ['/USERS/7', 'users'],
    ['/users;v=1/7/', 'users'],
    ['/users/', undefined],
    ['/FILES/a/b', 'all'],
    ['/files', 'all'],
    ['/exact', 'exact'],
    ['/EXACT', undefined],
    ['/exact/', undefined],
  ])('%s: %s', (path, rule) => {
    expect(gateOf(FILE).ask({ path, host: 'a.example.com' }).detail.rule).toBe(rule);
  });

  test('the first rule in the file decides, whichever way it matches', () => {
    const rules = (first: boolean, second: boolean): string =>
      `  rules: [{ name: one, match: { path: /a, lenient_path: ${first} } }, { name: two, match: { path: "/*", lenient_path: ${second} } }]\n`;

    for (const [first, second] of [
      [true, false],
      [false, true],
    ] as const) {
      expect(gateOf(rules(first, second)).ask({ path: '/a' }).detail.rule).toBe('one');
      expect(gateOf(rules(first, second)).ask({ path: '/A' }).detail.rule).toBe(first ? 'one' : 'two');
    }
  });

  test('whom a path names is read in the spelling that the rule compares', () => {
    const { ask } = gateOf(
      FILE.replace('name: id }', 'name: id }, policies: [default]').replace(
        '  rules',
        '  average: 1\n  rules',
      ),
    );

    expect(ask({ path: '/USERS/Ann' }).detail.keys).toEqual([expect.stringContaining('ann')]);
  });
});
