// Names that every object has: they are names like any other, and nothing is found under them that nobody wrote.
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';

const NAMES = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__defineGetter__'];

function load(text: string): { readonly ok: boolean; readonly said: string } {
  const { ok, problems } = loadConfig({ file: { path: 'a.yaml', text } });
  return { ok, said: problems.map(formatProblem).join('\n') };
}

describe.each(NAMES)('%s', (name) => {
  test('is a policy only where it is defined', () => {
    const rules = `rules: [{ name: a, policies: [${name}] }]`;

    expect(load(`rate_limit: { ${rules} }`)).toEqual({
      ok: false,
      said: expect.stringContaining(`there is no policy named ${name}`),
    });
    expect(load(`rate_limit: { policies: { ${name}: { average: 1 } }, ${rules} }`)).toEqual({
      ok: true,
      said: '',
    });
  });

  test.each([
    ['a section', `${name}: {}`],
    ['a setting', `server: { ${name}: 1 }`],
    ['a failure policy', `rate_limit: { failure_policy: ${name} }`],
    ['a topology', `redis: { mode: ${name} }`],
    ['a type of key', `rate_limit: { key_strategy: { type: ${name} } }`],
    ['an algorithm', `rate_limit: { policies: { p: { algorithm: ${name} } } }`],
    ['a size', `server: { max_uri_bytes: ${name} }`],
    ['a duration', `server: { idle_timeout: ${name} }`],
    ['a level', `logging: { level: ${name} }`],
  ])('is not %s', (_, text) => {
    expect(load(text).ok).toBe(false);
  });

  test('is not a variable', () => {
    expect(loadConfig({ env: { [`SPILLGATE_${name}`]: '1' } }).ok).toBe(false);
    expect(loadConfig({ env: { SPILLGATE_REDIS_MODE: name } }).ok).toBe(false);
  });
});
