import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { policyReaders } from '../../src/rules/policy-readers.ts';

const BY_TENANT =
  '{ name: a, match: { path: /a }, policies: [{ policy: p, key: { type: header, header_name: X-Tenant } }] }';
const BY_USER =
  '{ name: b, match: { path: /b }, policies: [{ policy: p, key: { type: header, header_name: X-User } }] }';
const BY_ADDRESS = '{ name: c, match: { path: /c }, policies: [p] }';

function homeOf(rules: readonly string[]): string | undefined {
  const text = `rate_limit: { policies: { p: { average: 1 } }, rules: [${rules.join(', ')}] }`;
  const loaded = loadConfig({ file: { path: 'a.yaml', text } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return policyReaders(loaded.config).get('p')?.[0]?.id;
}

test('whose plain keys a policy counts does not depend on the order of the rules: states outlive it', () => {
  expect(homeOf([BY_USER, BY_TENANT])).toBe(homeOf([BY_TENANT, BY_USER]));
  expect(homeOf([BY_USER, BY_TENANT])).not.toBe(homeOf([BY_ADDRESS]));
});

test('it is the key strategy of all, where the policy is used with that', () => {
  expect(homeOf([BY_TENANT, BY_ADDRESS])).toBe(homeOf([BY_ADDRESS]));
  expect(homeOf([BY_ADDRESS, BY_USER, BY_TENANT])).toBe(homeOf([BY_ADDRESS]));
  expect(homeOf([BY_TENANT])).not.toBe(homeOf([BY_ADDRESS]));
});
