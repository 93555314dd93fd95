// What is valid and probably not what was meant.
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { configSchema } from '../../src/config/config.ts';
import { overridesMeanSomebody } from '../../src/config/cross-field-checks/written-keys.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { RuleMatcher } from '../../src/rules/rule-matcher.ts';
import { facts } from '../rules/facts.ts';

function warningsOf(limits: string): readonly string[] {
  const loaded = loadConfig({ file: { path: 'a.yaml', text: `rate_limit:\n${limits}` } });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  return loaded.problems.map(formatProblem);
}

describe('a rule behind another that matches all that it matches', () => {
  const rules = (...matches: readonly string[]): string =>
    `  rules: [${matches.map((match, at) => `{ name: r${at}, match: ${match} }`).join(', ')}]\n`;

  test('is warned of, with the names of both', () => {
    expect(warningsOf(rules('{ path: /api/** }', '{ path: /api/login }'))).toEqual([
      'a.yaml:2:51: warning: rate_limit.rules[1] (r1) is never reached: everything it matches is already matched by r0. The first rule that matches decides; move this one up, or remove it.',
    ]);
  });

  test.each<[hidden: boolean, ...matches: string[]]>([
    [true, '{ path: "/a/{x}" }', '{ path: /a/b }'],
    [true, '{ path: /a/* }', '{ path: "/a/{x}" }'],
    [true, '{ path: /a/** }', '{ path: /a }'],
    [true, '{ path: /a/** }', '{ path: /a/ }'],
    [true, '{ path: /a/** }', '{ path: /a/b/** }'],
    [true, '{ path: /%61 }', '{ path: /a }'],
    [true, '{ path: [/a, /b] }', '{ path: [/b, /a] }'],
    [true, '{ path: /a }', '{ path: /b }', '{ path: [/a, /b] }'],
    [true, '{ path: /a, method: [GET, POST] }', '{ path: /a, method: POST }'],
    [true, '{ host: "*.b.com" }', '{ host: [a.b.com, "*.a.b.com", "*.b.com"] }'],
    [true, '{ header: { X-A: "*" } }', '{ header: { x-a: "1", X-B: "2" } }'],
    [true, '{ path: /a/, lenient_path: true }', '{ path: /A }'],
    [true, '{ path: /A, lenient_path: true }', '{ path: /a, lenient_path: true }'],
    [false, '{ path: /a }', '{ path: /a, lenient_path: true }'],
    [false, '{ path: "/{x}" }', '{ path: /a, lenient_path: true }'],
    [false, '{ path: /a/b }', '{ path: /a/** }'],
    [false, '{ path: /a/b }', '{ path: "/a/{x}" }'],
    [false, '{ path: /a/* }', '{ path: /a/** }'],
    [false, '{ path: /a/* }', '{ path: /a/ }'],
    [false, '{ path: /a/* }', '{ path: /a }'],
    [false, '{ path: /a }', '{ path: /a/b }'],
    [false, '{ path: /a }', '{ path: /A }'],
    [false, '{ path: /a }', '{ path: [/a, /b] }'],
    [false, '{ path: /a, method: GET }', '{ path: /a }'],
    [false, '{ path: /a, method: GET }', '{ path: /a, method: [GET, POST] }'],
    [false, '{ host: "*.b.com" }', '{ host: b.com }'],
    [false, '{ host: a.b.com }', '{ path: /x }'],
    [false, '{ header: { X-A: "1" } }', '{ header: { X-A: "*" } }'],
    [false, '{ header: { X-A: "1" } }', '{ path: /x }'],
  ])('%s: %s, %s', (hidden, ...matches) => {
    expect(warningsOf(rules(...matches)).some((text) => text.includes('never reached'))).toBe(hidden);
  });

  test('no request ever reaches one, whatever the rules', () => {
    const segment = fc.constantFrom('a', 'b', '*', '{x}', '');
    const path = fc
      .tuple(fc.array(segment, { minLength: 1, maxLength: 3 }), fc.boolean())
      .map(
        ([parts, rest]) =>
          `/${parts.filter((part, at) => part !== '' || at === parts.length - 1).join('/')}${rest ? '/**' : ''}`,
      )
      .filter((text) => !text.includes('//') && (text.match(/\{x\}/g) ?? []).length < 2);
    const method = fc.constantFrom(undefined, ['GET'], ['GET', 'POST']);
    const match = fc.record({ path: fc.array(path, { minLength: 1, maxLength: 2 }), method });
    const requests = ['/', '/a', '/a/', '/b', '/a/b', '/a/b/', '/b/a/c', '/a/a/a/a', '/c'].flatMap((asked) =>
      ['GET', 'POST', 'PUT'].map((how) => facts({ path: asked, method: how })),
    );
    fc.assert(
      fc.property(fc.array(match, { minLength: 2, maxLength: 4 }), (matches) => {
        const text = JSON.stringify({
          rate_limit: { rules: matches.map((one, at) => ({ name: `r${at}`, match: one })) },
        });
        const loaded = loadConfig({ file: { path: 'a.yaml', text } });
        const hidden = loaded.problems.flatMap(
          ({ message }) => /\((r\d)\) is never/.exec(message)?.[1] ?? [],
        );
        const matcher = new RuleMatcher(
          matches.map(({ path: paths, method: methods }, at) => ({
            match: {
              path: paths,
              lenient_path: false,
              ...(methods === undefined ? {} : { method: methods }),
            },
            rule: `r${at}`,
          })),
        );

        const reached = requests.map((request) => matcher.find(request)?.rule);

        expect(hidden.filter((name) => reached.includes(name))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});

describe('a key that clients counted by address cannot have', () => {
  test.each([
    ['  allow: { keys: [acme] }\n', 'rate_limit.allow.keys[0] is "acme", which matches no client'],
    [
      '  deny: { keys: [192.0.2.1, "2001:db8::/48"] }\n',
      'rate_limit.deny.keys[1] is "2001:db8::/48", which matches no client',
    ],
    [
      '  key_strategy: { type: header, header_name: X-A }\n  rules: [{ name: r, key: clientIP, allow: { keys: [acme] } }]\n',
      'rate_limit.rules[0].allow.keys[0] is "acme", which matches no client',
    ],
    [
      '  policies: { p: { average: 1, overrides: [{ key: acme, average: 2 }] } }\n  rules: [{ name: r, policies: [p] }]\n',
      'rate_limit.policies.p.overrides[0].key is "acme", which matches no client',
    ],
    [
      '  allow: { keys: ["2001:db8::1"] }\n',
      'rate_limit.allow.keys[0] is "2001:db8::1"; IPv6 clients are counted by network, so this matches all of 2001:db8::/64. Write the network if you mean all of it; for one address use cidrs.',
    ],
    [
      '  key_strategy: global\n  deny: { keys: [acme] }\n',
      'rate_limit.deny.keys[0] is "acme", which matches no client: all requests are counted under "global" here',
    ],
    [
      '  key_strategy: { type: header, header_name: X-A }\n  deny: { keys: ["acme "] }\n',
      'rate_limit.deny.keys[0] is "acme ", which matches no client: the value of a header has no spaces around it',
    ],
    [
      '  key_strategy: { type: header, header_name: X-A, on_missing: clientIP }\n  deny: { keys: ["@192.0.2.1"] }\n',
      'rate_limit.deny.keys[0] is "***@192.0.2.1", which matches no client: a key that begins with "@" stands for an address',
    ],
    [
      '  key_strategy: { type: header, header_name: X-Api-Key }\n  deny: { keys: ["sha256:12ab"] }\n',
      'rate_limit.deny.keys[0] matches no client: after "sha256:" it needs the 32 digits that the log shows',
    ],
    [
      '  key_strategy: { type: composite, header_name: X-A, path_prefix: true }\n  deny: { keys: ["acme"] }\n',
      'rate_limit.deny.keys[0] is "acme", which matches no client: the parts of a composite key are written with their lengths',
    ],
    [
      '  rules: [{ name: r, match: { path: "/{t}" }, key: { type: pathParameter, name: t }, deny: { keys: ["a/b"] } }]\n',
      'rate_limit.rules[0].deny.keys[0] is "a/b", which matches no client: it is not one segment of a path',
    ],
  ])('%s is warned of', (limits, warning) => {
    expect(warningsOf(limits)).toEqual([expect.stringContaining(warning)]);
  });

  test.each([
    '  key_strategy: global\n  deny: { keys: [global] }\n',
    `  key_strategy: { type: header, header_name: X-Api-Key }\n  deny: { keys: [hunter2, "sha256:${'0'.repeat(32)}"] }\n`,
    '  key_strategy: { type: composite, header_name: X-A, path_prefix: true }\n  deny: { keys: ["4:acme,3:api"] }\n',
    '  rules: [{ name: r, match: { path: "/{t}" }, key: { type: pathParameter, name: t }, deny: { keys: [acme, "a%20b"] } }]\n',
    '  allow: { keys: [192.0.2.1, "::ffff:192.0.2.1", "2001:db8::/64"] }\n',
    '  key_strategy: { type: header, header_name: X-A }\n  allow: { keys: [acme, "2001:db8::1"] }\n',
    '  rules: [{ name: r, key: { type: header, header_name: X-A }, deny: { keys: [acme] } }]\n',
    '  policies: { p: { average: 1, overrides: [{ key: acme, average: 2 }, { key: "::1", average: 2 }] } }\n  rules: [{ name: r, match: { path: /a }, policies: [p] }, { name: s, key: { type: header, header_name: X-A }, policies: [p] }]\n',
  ])('no warning: %s', (limits) => {
    expect(warningsOf(limits)).toEqual([]);
  });
});

test('overrides are bounded together with the keys that their policy is used with', () => {
  const complaints = (strategies: number): readonly string[] =>
    overridesMeanSomebody(
      configSchema.parse({
        rate_limit: {
          policies: {
            p: {
              average: 1,
              overrides: Array.from({ length: 10_000 }, (_, at) => ({ key: `k${at}`, average: 2 })),
            },
          },
          rules: Array.from({ length: strategies }, (_, at) => ({
            name: `r${at}`,
            key: { type: 'header', header_name: `X-${at}` },
            policies: ['p'],
          })),
        },
      }),
    ).map(({ message }) => message);

  expect(complaints(10)).toEqual([]);
  expect(complaints(11)).toEqual([
    'rate_limit.policies.p.overrides has 10000 entries for each of 11 key strategies; expected at most 100000 altogether',
  ]);
});
