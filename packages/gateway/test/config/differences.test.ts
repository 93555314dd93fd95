import { describe, expect, test } from 'vitest';
import { configDifferences } from '../../src/config/differences.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load-config.ts';

function configOf(text: string): Config {
  const loaded = loadConfig({ file: { path: 'gateway.yaml', text } });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

function between(before: string, after: string): ReturnType<typeof configDifferences> {
  return configDifferences(configOf(before), configOf(after));
}

const RULES = `
rate_limit:
  average: 10
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules:
    - { name: first, match: { path: /a }, policies: [login] }
    - { name: second, match: { path: /b }, policies: [login] }
`;

describe('the differences of two configurations', () => {
  test('are none between a file and itself', () => {
    expect(between(RULES, RULES)).toEqual({ total: 0, items: [] });
  });

  test('name settings as a file would', () => {
    expect(
      between(RULES, RULES.replace('quota: 2', 'quota: 5').replace('window: 1h', 'window: 30m')),
    ).toEqual({
      total: 2,
      items: [
        { path: 'rate_limit.policies.login.quota', before: 2, after: 5 },
        { path: 'rate_limit.policies.login.window', before: '1h', after: '30m' },
      ],
    });
  });

  test('of a rule in the middle are about that rule alone', () => {
    const more = RULES.replace(
      '    - { name: second',
      '    - { name: between, match: { path: /c }, policies: [login] }\n    - { name: second',
    );
    const { items } = between(RULES, more);

    expect(items.map(({ path }) => path).filter((path) => !path.includes('between'))).toEqual([
      'rate_limit.rules in order',
    ]);
    expect(items).toContainEqual({ path: 'rate_limit.rules.between.match.path', after: '/c' });
  });

  test('tell another order of rules', () => {
    const turned = `
rate_limit:
  average: 10
  policies: { login: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules:
    - { name: second, match: { path: /b }, policies: [login] }
    - { name: first, match: { path: /a }, policies: [login] }
`;

    expect(between(RULES, turned).items).toEqual([
      { path: 'rate_limit.rules in order', before: ['first', 'second'], after: ['second', 'first'] },
    ]);
  });

  test('tell that a secret changed, and never the secret', () => {
    const differences = between(
      'admin: { token: the-first-secret-token }\nredis: { url: "redis://:old-word@127.0.0.1" }',
      'admin: { token: the-second-secret-token }\nredis: { url: "redis://:new-word@127.0.0.1" }',
    );

    expect(differences.items.map(({ path }) => path).toSorted()).toEqual(['admin.token', 'redis.url']);
    expect(JSON.stringify(differences)).not.toMatch(/secret-token|old-word|new-word/);
  });

  test('are bounded, and counted', () => {
    const many = Array.from({ length: 300 }, (_, at) => `    p${at}: { average: 1 }`).join('\n');

    const { total, items } = between(
      'rate_limit: { average: 1 }',
      `rate_limit:\n  average: 1\n  policies:\n${many}`,
    );

    expect(total).toBeGreaterThanOrEqual(300);
    expect(items.length).toBe(200);
  });
});
