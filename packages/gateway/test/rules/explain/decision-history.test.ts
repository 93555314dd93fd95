import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/index.ts';
import { DecisionHistory } from '../../../src/rules/explain/decision-history.ts';
import { facts, gateOf } from '../facts.ts';

const YAML = `
  policies: { few: { algorithm: fixedWindow, quota: 1, window: 1h } }
  rules: [{ name: all, policies: [few], key: { type: header, header_name: X-Tenant } }]
`;

function kept(
  count: number,
  headers: readonly (readonly [string, string])[] = [],
  tenants = 10,
): DecisionHistory {
  const { gate } = gateOf(YAML);
  const loaded = loadConfig({ file: { path: 'test.yaml', text: `rate_limit:\n${YAML}` } });
  if (!loaded.ok) throw new Error('the configuration is wrong');
  const history = new DecisionHistory();
  for (let at = 0; at < count; at += 1) {
    const request = {
      ...facts({ headers: [['X-Tenant', `tenant-${at % tenants}`], ...headers] }),
      id: `id-${at}`,
    };
    const outcome = gate.decide(request);
    if (outcome instanceof Promise) throw new Error('the answer has to come at once');
    history.record(request, outcome, loaded.config);
  }
  return history;
}

describe('the last decisions', () => {
  test('are found by their id, and listed with the latest first', () => {
    const history = kept(30);

    expect(history.find('id-12')?.outcome.admitted).toBe(false);
    expect(history.recent({ limit: 3 }).map(({ id }) => id)).toEqual(['id-29', 'id-28', 'id-27']);
    expect(history.recent({ limit: 1, outcome: 'denied' })).toMatchObject([
      { outcome: 'denied', reason: 'limits', rule: 'all', policy: 'few', keys: ['tenant-9'] },
    ]);
    expect(history.recent({ limit: 50, key: 'tenant-3' }).map(({ id }) => id)).toEqual([
      'id-23',
      'id-13',
      'id-3',
    ]);
    expect(history.find('nobody')).toBeUndefined();
  });

  test('are 2,048 denied ones at most', () => {
    const history = kept(3000, [], 100);

    expect(history.recent({ limit: 10_000, outcome: 'denied' })).toHaveLength(2048);
    expect(history.find('id-951')).toBeUndefined();
    expect(history.find('id-952')).toBeDefined();
  });

  test('are fewer where their headers are long', () => {
    const history = kept(600, [['X-Long', 'x'.repeat(32_768)]]);

    const count = history.recent({ limit: 10_000, outcome: 'denied' }).length;

    expect(count).toBeGreaterThan(200);
    expect(count).toBeLessThanOrEqual(256);
  });
});

test('a client that is denied very often does not push out what others were denied', () => {
  const { gate } = gateOf(YAML);
  const loaded = loadConfig({ file: { path: 'test.yaml', text: `rate_limit:\n${YAML}` } });
  if (!loaded.ok) throw new Error('the configuration is wrong');
  const history = kept(20);
  const flood = facts({ headers: [['X-Tenant', 'flood']] });

  for (let at = 0; at < 2100; at += 1) {
    const outcome = gate.decide(flood);
    if (outcome instanceof Promise) throw new Error('the answer has to come at once');
    history.record(flood, outcome, loaded.config);
  }

  expect(history.find('id-11')).toBeDefined();
  expect(history.recent({ limit: 1, key: 'flood', outcome: 'denied' })).toHaveLength(1);
});

test('many admitted requests do not push out a denied one', () => {
  const history = kept(20);
  const admitted = gateOf('  average: 0\n').ask();
  const loaded = loadConfig({ file: { path: 'test.yaml', text: 'rate_limit: { average: 0 }' } });
  if (!loaded.ok) throw new Error('the configuration is wrong');

  for (let at = 0; at < 100_000; at += 1) history.record(facts(), admitted, loaded.config);

  expect(history.find('id-11')).toBeDefined();
  expect(history.recent({ limit: 100_000 }).length).toBeLessThanOrEqual(2048 + 1024);
});
