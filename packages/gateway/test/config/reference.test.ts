import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { jsonSchema, SETTINGS } from '../../src/config/settings.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { STARTER_FILE } from '../../src/config/starter.ts';

const page = readFileSync(new URL('../../../../docs/gateway-configuration.md', import.meta.url), 'utf8');

describe('the reference page', () => {
  test.each(SETTINGS.map((setting) => [setting.path, setting] as const))(
    'tells everything about %s',
    (_, setting) => {
      const section = setting.path.split('.')[0] ?? '';
      const below = setting.path === section ? section : setting.path.slice(section.length + 1);
      const row = page
        .slice(page.indexOf(`\n## ${section}\n`))
        .split('\n')
        .find((line) => line.startsWith(`| \`${below}\` |`));

      expect(row).toContain(`| ${setting.kind} |`);
      expect(setting.description).not.toBe('');
      expect(row).toContain(setting.description);
      if (setting.env !== undefined) expect(row).toContain(`\`${setting.env}\``);
      if (setting.secret) expect(row).toContain(`\`${setting.env ?? ''}_FILE\``);
      const { fallback } = setting;
      if (fallback !== undefined) {
        expect(row).toContain(`\`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``);
      }
    },
  );

  test('no two settings share a variable', () => {
    const names = SETTINGS.flatMap(({ env, secret }) =>
      env === undefined ? [] : secret ? [env, `${env}_FILE`] : [env],
    );

    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^SPILLGATE_[A-Z0-9_]+$/.test(name))).toEqual([]);
  });
});

test('the starter file is valid, without a warning', () => {
  expect(loadConfig({ file: { path: 'starter.yaml', text: STARTER_FILE } })).toMatchObject({
    ok: true,
    problems: [],
  });
});

test('the JSON Schema describes every section, forbids others, and holds no notes of ours', () => {
  const text = JSON.stringify(jsonSchema());

  expect(jsonSchema()).toMatchObject({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    additionalProperties: false,
    properties: {
      redis: {
        properties: { password: { writeOnly: true }, mode: { enum: expect.arrayContaining(['cluster']) } },
      },
      rate_limit: {
        properties: { failure_code: { type: 'integer', minimum: 400, maximum: 599, default: 429 } },
      },
    },
  });
  expect(text).not.toMatch(/"(?:kind|secret)":/);
});
