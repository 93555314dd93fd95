// Keys that stand in the configuration, and who is meant by them.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { addressKeys } from '../../src/config/schema/key.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { operatorsKey } from '../../src/rules/policy-readers.ts';
import { gateOf, statusOf, type Asked } from './facts.ts';

describe('overrides of a policy that is used with several keys', () => {
  const FILE = `  policies: { plan: { average: 1, period: 1h, overrides: [{ key: acme, average: 3 }] } }
  rules:
    - { name: path, match: { path: "/t/{tenant}" }, key: { type: pathParameter, name: tenant }, policies: [plan] }
    - { name: header, match: { path: /h }, key: { type: header, header_name: X-Tenant }, policies: [plan] }
    - { name: secret, match: { path: /s }, key: { type: header, header_name: X-Api-Key }, policies: [plan] }\n`;

  test.each<[key: string, asked: Asked]>([
    ['the path', { path: '/t/acme' }],
    ['a header', { path: '/h', headers: [['X-Tenant', 'acme']] }],
    ['a secret', { path: '/s', headers: [['X-Api-Key', 'acme']] }],
  ])('hold for each of them: %s', (_, asked) => {
    const { ask } = gateOf(FILE);

    expect([1, 2, 3, 4].map(() => statusOf(ask(asked)))).toEqual([200, 200, 200, 429]);
  });

  test('each of them is still counted apart, and others keep the usual numbers', () => {
    const { ask } = gateOf(FILE);
    for (let spent = 0; spent < 3; spent += 1) ask({ path: '/t/acme' });

    expect(statusOf(ask({ path: '/t/acme' }))).toBe(429);
    expect(statusOf(ask({ path: '/h', headers: [['X-Tenant', 'acme']] }))).toBe(200);
    expect([1, 2].map(() => statusOf(ask({ path: '/t/other' })))).toEqual([200, 429]);
  });
});

describe('a client that is counted by its network is meant by any of its addresses', () => {
  const asked = { address: '2001:db8:0:1::abcd' };

  test('in an override', () => {
    const { ask } = gateOf(
      '  policies: { p: { average: 1, period: 1h, overrides: [{ key: "2001:DB8:0:1::1", average: 3 }] } }\n  rules: [{ name: r, policies: [p] }]\n',
    );

    expect([1, 2, 3, 4].map(() => statusOf(ask(asked)))).toEqual([200, 200, 200, 429]);
    expect([1, 2].map(() => statusOf(ask({ address: '2001:db8:0:2::1' })))).toEqual([200, 429]);
  });

  test.each([
    ['allow', 'allowList'],
    ['deny', 'denyList'],
  ])('in %s', (list, reason) => {
    const { ask } = gateOf(`  average: 1\n  ${list}: { keys: ["2001:db8:0:1::1"] }\n`);

    expect(ask(asked).detail.reason).toBe(reason);
    expect(ask({ address: '2001:db8:0:2::1' }).detail.reason).toBe('limits');
  });

  test('but not where a header has such a text', () => {
    const { ask } = gateOf(
      '  average: 1\n  key_strategy: { type: header, header_name: X-Tenant }\n  deny: { keys: ["2001:db8:0:1::1"] }\n',
    );

    expect(ask({ headers: [['X-Tenant', '2001:db8:0:1::1']] }).detail.reason).toBe('denyList');
    expect(ask({ headers: [['X-Tenant', '2001:db8:0:1::/64']] }).detail.reason).toBe('limits');
  });

  test.each([
    [64, '::1', '::/64'],
    [64, '2001:DB8:0:0:1::', '2001:db8::/64'],
    [48, '2001:db8:0:1::1', '2001:db8::/48'],
    [64, '2001:db8:0:1:0::/64', '2001:db8:0:1::/64'],
    [64, '2001:db8::7/64', '2001:db8::/64'],
    [64, 'fe80::1%eth0', 'fe80::/64'],
    [64, '::ffff:192.0.2.1', '192.0.2.1'],
    [64, '::ffff:c000:201', '192.0.2.1'],
    [64, '64:ff9b::192.0.2.1', '192.0.2.1'],
    [64, '192.0.2.1', '192.0.2.1'],
  ])('with /%s, %s is %s', (prefix, written, key) => {
    expect(addressKeys(prefix)(written)).toBe(key);
    expect(addressKeys(prefix)(key)).toBe(key);
  });

  test.each([
    'acme',
    '',
    '2001:db8::/48',
    '::1/64/64',
    '192.0.2.1/32',
    '::ffff:192.0.2.1/64',
    '192.0.2.1:80',
  ])('what is no client stays as it is: %s', (text) => {
    expect(addressKeys(64)(text)).toBe(text);
  });

  test('for operators, too, by the length of prefix that is configured', () => {
    const called = (rules: string, key: string): string => {
      const text = `server: { client_address: { ipv6_prefix: 48 } }\nrate_limit: { policies: { p: { average: 1 } }, rules: [${rules}] }`;
      const loaded = loadConfig({ file: { path: 'a.yaml', text } });
      if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
      return operatorsKey(loaded.config, 'p', key);
    };
    const byHeader = '{ name: r, key: { type: header, header_name: X-Api-Key }, policies: [p] }';

    expect(called('{ name: r, policies: [p] }', '::1')).toBe('::/48');
    expect(called('', '::1')).toBe('::/48');
    const hash = `sha256:${createHash('sha256').update('::1').digest('hex').slice(0, 32)}`;
    expect(called(byHeader, '::1')).toBe(hash);
    expect(called(byHeader, hash)).toBe(hash);
  });
});
