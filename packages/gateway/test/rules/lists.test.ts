import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, test } from 'vitest';
import { AddressList } from '../../src/rules/access-list.ts';
import { gateOf, problemOf, statusOf, type Asked } from './facts.ts';
import { runs } from '../../../../test/runs.ts';

const TENANT = 'key_strategy: { type: header, header_name: X-Tenant, on_missing: clientIP }';

describe('keys that are secrets', () => {
  const key = '{ type: header, header_name: X-Goog-Api-Key }';
  const yaml = (listed: string): string =>
    `  key_strategy: ${key}\n  deny: { keys: ["${listed}"] }\n  average: 9\n`;
  const ask = (listed: string, sent: string): number =>
    statusOf(gateOf(yaml(listed)).ask({ headers: [['X-Goog-Api-Key', sent]] }));
  const hash = `sha256:${createHash('sha256').update('hunter2').digest('hex').slice(0, 32)}`;

  test('are meant in plain text and as the log shows them', () => {
    expect(ask('hunter2', 'hunter2')).toBe(403);
    expect(ask(hash, 'hunter2')).toBe(403);
    expect(ask(hash, 'another')).toBe(200);
  });

  test('cannot be sent as their hash', () => {
    expect(ask(hash, hash)).toBe(200);
    expect(ask('hunter2', hash)).toBe(200);
  });

  test.each([
    'Authorization',
    'X-Goog-Api-Key',
    'X-Tenant-Token',
    'Api-Secret',
    'Cookie',
    'X-Session-Id',
    'X-Password',
  ])('are hashed wherever they go: %s', (name) => {
    const { ask: askGate } = gateOf(`  average: 9\n  key_strategy: { type: header, header_name: ${name} }\n`);

    expect(askGate({ headers: [[name, 'hunter2']] }).detail.keys).toEqual([hash]);
  });
});

describe('allow and deny', () => {
  test('deny by range or key answers 403 with a problem', () => {
    const { ask } = gateOf(`  ${TENANT}\n  deny: { cidrs: [203.0.113.0/24], keys: [evil] }\n`);

    const byAddress = ask();
    const byKey = ask({ address: '198.51.100.1', headers: [['X-Tenant', 'evil']] });

    expect([byAddress, byKey].map(statusOf)).toEqual([403, 403]);
    expect(problemOf(byKey)).toMatchObject({ title: 'Forbidden', status: 403 });
    expect(byKey.detail.reason).toBe('denyList');
    expect(statusOf(ask({ address: '198.51.100.1' }))).toBe(200);
  });

  test('who is allowed spends nothing and is told nothing', () => {
    const { ask } = gateOf(`  average: 1\n  period: 1h\n  ${TENANT}\n  allow: { keys: [friend] }\n`);
    const friend = { headers: [['X-Tenant', 'friend']] } as const;

    const rulings = [ask(friend), ask(friend), ask(friend)];

    expect(rulings.map(statusOf)).toEqual([200, 200, 200]);
    expect(rulings[0]).toMatchObject({ headers: [], detail: { reason: 'allowList', decision: undefined } });
  });

  test('a list of a rule holds for its requests only', () => {
    const { ask } = gateOf(
      '  rules: [{ name: r, match: { path: /internal }, deny: { cidrs: [0.0.0.0/0] }, allow: { cidrs: [10.0.0.0/8] } }]\n',
    );

    expect(statusOf(ask({ path: '/internal' }))).toBe(403);
    expect(statusOf(ask({ path: '/other' }))).toBe(200);
  });

  test('nobody gets on a list of keys by leaving the key out', () => {
    const { ask } = gateOf(`  average: 1\n  ${TENANT}\n  allow: { keys: ["@203.0.113.7", "203.0.113.7"] }\n`);

    expect(ask().detail.reason).toBe('limits');
  });

  test.each([
    ['a policy', 'policies: [{ policy: few, key: { type: pathParameter, name: id } }]'],
    ['a rule', 'key: { type: pathParameter, name: id }, policies: [few]'],
  ])('nobody gets on the common list by writing its key where %s reads another one', (_, counted) => {
    const { ask } = gateOf(
      `  ${TENANT}\n  allow: { keys: [boss] }\n  policies: { few: { average: 1, period: 1h } }
  rules: [{ name: r, match: { path: "/users/{id}" }, ${counted} }]\n`,
    );
    const stranger = { path: '/users/boss', headers: [['X-Tenant', 'ann']] } as const;

    expect([ask(stranger), ask(stranger)].map(statusOf)).toEqual([200, 429]);
    expect(statusOf(ask({ path: '/users/boss', headers: [['X-Tenant', 'boss']] }))).toBe(200);
  });

  describe('the keys of the common lists hold on rules with a key of their own', () => {
    const FILE = `  key_strategy: { type: header, header_name: X-Tenant-Id }\n  deny: { keys: [bad] }\n  allow: { keys: [vip] }
  policies: { few: { average: 1, period: 1h } }
  rules: [{ name: public, match: { path: /public/** }, key: clientIP, policies: [few] }]\n`;
    const tenant = (name: string): Asked => ({ path: '/public/x', headers: [['X-Tenant-Id', name]] });

    test('who is denied gets a 403, and who is allowed is not counted', () => {
      const { ask } = gateOf(FILE);

      const rulings = [tenant('bad'), tenant('vip'), tenant('vip'), tenant('ann'), tenant('ann')].map(ask);

      expect(rulings.map(statusOf)).toEqual([403, 200, 200, 200, 429]);
    });

    test('a request without that key is counted as ever, and its rule needs no more than its own', () => {
      const { ask } = gateOf(FILE);

      expect([ask({ path: '/public/x' }), ask({ path: '/public/x' })].map(statusOf)).toEqual([200, 429]);
    });

    test('nobody is on them by the address that a rule counts instead', () => {
      const { ask } = gateOf(FILE.replace('[vip]', '["203.0.113.7"]'));

      expect([ask({ path: '/public/x' }), ask({ path: '/public/x' })].map(statusOf)).toEqual([200, 429]);
    });

    test('with a %2F that could change the key, no list is asked', () => {
      const { ask } = gateOf(
        `  key_strategy: { type: composite, header_name: X-Tenant, path_prefix: true }\n  allow: { keys: ["3:ann,1:a"] }
  rules: [{ name: all, key: clientIP }]\n`,
      );
      const ann = { headers: [['X-Tenant', 'ann']] } as const;

      expect(ask({ ...ann, path: '/a/x' }).detail.reason).toBe('allowList');
      expect(ask({ ...ann, path: '/a%2Fx', otherPath: '/a/x' }).detail.reason).toBe('ambiguousPath');
    });
  });

  test('a list of a rule is about the key of the rule', () => {
    const { ask } = gateOf(
      `  ${TENANT}\n  policies: { few: { average: 1, period: 1h } }
  rules: [{ name: r, match: { path: "/users/{id}" }, allow: { keys: [boss] }, policies: [{ policy: few, key: { type: pathParameter, name: id } }] }]\n`,
    );
    const stranger = { path: '/users/boss', headers: [['X-Tenant', 'ann']] } as const;
    const boss = { path: '/users/boss', headers: [['X-Tenant', 'boss']] } as const;

    expect([ask(stranger), ask(stranger), ask(boss)].map(statusOf)).toEqual([200, 429, 200]);
  });

  test('deny is stronger than allow, wherever each of them stands', () => {
    const place = fc.subarray(['global cidr', 'global key', 'rule cidr', 'rule key']);
    fc.assert(
      fc.property(place, place, (denied, allowed) => {
        const list = (places: readonly string[], where: string): string =>
          `{ cidrs: [${places.includes(`${where} cidr`) ? '203.0.113.7' : ''}], keys: [${places.includes(`${where} key`) ? 'me' : ''}] }`;
        const { ask } = gateOf(
          `  average: 5\n  ${TENANT}\n  deny: ${list(denied, 'global')}\n  allow: ${list(allowed, 'global')}
  rules: [{ name: r, policies: [default], deny: ${list(denied, 'rule')}, allow: ${list(allowed, 'rule')} }]\n`,
        );

        const ruling = ask({ headers: [['X-Tenant', 'me']] });

        expect(statusOf(ruling)).toBe(denied.length > 0 ? 403 : 200);
        expect(ruling.detail.reason).toBe(
          denied.length > 0 ? 'denyList' : allowed.length > 0 ? 'allowList' : 'limits',
        );
      }),
    );
  });
});

describe('ranges of addresses', () => {
  test.each<[range: string, address: string, within: boolean]>([
    ['10.0.0.0/8', '10.255.255.255', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['0.0.0.0/0', '255.255.255.255', true],
    ['203.0.113.7', '203.0.113.7', true],
    ['203.0.113.7', '203.0.113.8', false],
    ['::ffff:10.0.0.0/104', '10.1.2.3', true],
    ['::ffff:a00:0/104', '11.1.2.3', false],
    ['::/0', '2001:db8::1', true],
    ['::/0', '10.0.0.1', false],
    ['2001:db8::/32', '2001:db8:ffff::1', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['::1', '::1', true],
    ['fe80::/10', 'febf::1', true],
    ['64:ff9b::1.2.3.4', '64:ff9b::102:304', true],
  ])('%s and %s: %s', (range, address, within) => {
    expect(new AddressList([range]).has(address)).toBe(within);
  });

  test('random ranges agree with ipaddr.js', () => {
    const v4 = fc
      .array(fc.constantFrom(0, 1, 127, 128, 255), { minLength: 4, maxLength: 4 })
      .map((parts) => parts.join('.'));
    const v6 = fc
      .array(fc.constantFrom('0', '1', '8000', 'ffff'), { minLength: 8, maxLength: 8 })
      .map((parts) => parts.join(':'));
    const v4Case = fc.tuple(v4, fc.nat(32), v4);
    const v6Case = fc.tuple(v6, fc.nat(128), v6);
    fc.assert(
      fc.property(fc.oneof(v4Case, v6Case), ([network, bits, address]) => {
        const expected = ipaddr.parse(address).match(ipaddr.parseCIDR(`${network}/${bits}`));

        expect(new AddressList([`${network}/${bits}`]).has(address)).toBe(expected);
      }),
      { numRuns: runs(1000) },
    );
  });
});
