// Overrides of operators next to those of the file.
import { createLimiter } from 'spillgate';
import { expect, test } from 'vitest';
import { createOverrides } from '../../src/admin/overrides.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { createRuleEngine } from '../../src/rules/rule-engine.ts';
import { createPolicies } from '../../src/rules/compiled-rule.ts';
import { facts, statusOf } from '../rules/facts.ts';

const FILE = `
rate_limit:
  policies:
    calls: { algorithm: tokenBucket, average: 100, period: 1h, overrides: [{ key: s3cret, average: 1 }] }
  rules:
    - { name: all, match: {}, key: { type: header, header_name: X-Api-Key }, policies: [{ policy: calls }] }
`;
const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

test('a key whose override is taken back has what the file gives it, also when the key is counted by its hash', () => {
  const loaded = loadConfig({ file: { path: 'a.yaml', text: FILE } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const policies = createPolicies(loaded.config);
  const gate = createRuleEngine(loaded.config, { limiter: createLimiter(), policies, log: SILENT });
  const ask = () => {
    const ruling = gate.decide(facts({ headers: [['X-Api-Key', 's3cret']] }));
    if (ruling instanceof Promise) throw new Error('the answer has to come at once');
    return ruling;
  };
  const first = ask();
  expect([first, ask()].map(statusOf)).toEqual([200, 429]);
  const [key = ''] = first.detail.keys;
  const overrides = createOverrides({ live: () => loaded, policies: () => policies });

  overrides.set({ policy: 'calls', key, numbers: { average: 3 } });
  expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
  overrides.remove('calls', key);

  expect(statusOf(ask())).toBe(429);
  expect(policies.get('calls')?.for(key).plan.limit).toBe(1);
});

test('the same holds for every key that the policy is used with', () => {
  const text =
    `${FILE}    - { name: more, match: { path: /more }, key: clientIP, policies: [calls] }\n`.replace(
      'match: {}',
      'match: { path: /all }',
    );
  const loaded = loadConfig({ file: { path: 'a.yaml', text } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const policies = createPolicies(loaded.config);
  const overrides = createOverrides({ live: () => loaded, policies: () => policies });
  const gate = createRuleEngine(loaded.config, { limiter: createLimiter(), policies, log: SILENT });
  const ruling = gate.decide(facts({ path: '/all', headers: [['X-Api-Key', 's3cret']] }));
  if (ruling instanceof Promise) throw new Error('the answer has to come at once');
  const [key = ''] = ruling.detail.keys;

  overrides.set({ policy: 'calls', key, numbers: { average: 3 } });
  overrides.remove('calls', key);

  expect(key).toMatch(/^@/);
  expect(policies.get('calls')?.for(key).plan.limit).toBe(1);
});
