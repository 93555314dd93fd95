// Overrides of operators next to those of the file.
import { createLimiter } from 'spillgate';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { createRuleEngine } from '../../src/rules/rule-engine.ts';
import { InstanceSettings } from '../../src/runtime/instance-settings.ts';
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

type Loaded = Extract<ReturnType<typeof loadConfig>, { readonly ok: true }>;

function overridesOf(loaded: Loaded, policies: ReturnType<typeof createPolicies>) {
  const live = { ...loaded, generation: 1, loadedAt: new Date() };
  const { applied } = new InstanceSettings({ live: () => live, policies: () => policies }, SILENT);
  const id = (key: string) => ({ kind: 'override', policy: 'calls', key }) as const;
  return {
    set: (key: string, numbers: Readonly<Record<string, number>>) =>
      applied.change({ set: [{ ...id(key), numbers, setAt: new Date().toISOString() }], removed: [] }),
    remove: (key: string) => applied.change({ set: [], removed: [id(key)] }),
  };
}

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
  const overrides = overridesOf(loaded, policies);

  overrides.set(key, { average: 3 });
  expect([ask(), ask(), ask()].map(statusOf)).toEqual([200, 200, 429]);
  overrides.remove(key);

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
  const overrides = overridesOf(loaded, policies);
  const gate = createRuleEngine(loaded.config, { limiter: createLimiter(), policies, log: SILENT });
  const ruling = gate.decide(facts({ path: '/all', headers: [['X-Api-Key', 's3cret']] }));
  if (ruling instanceof Promise) throw new Error('the answer has to come at once');
  const [key = ''] = ruling.detail.keys;

  overrides.set(key, { average: 3 });
  overrides.remove(key);

  expect(key).toMatch(/^@/);
  expect(policies.get('calls')?.for(key).plan.limit).toBe(1);
});
