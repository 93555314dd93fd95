import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { z } from 'zod';
import { configSchema } from '../../src/config/config.ts';
import { effectiveYaml, maskedConfig } from '../../src/config/effective.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem, type ConfigProblem } from '../../src/config/problem.ts';
import { randomConfig } from './random-config.ts';

const RUNS = { numRuns: 60 };
const CHANGES = { numRuns: 400 };
/** For a machine that is busy with something else. */
const DEADLINE_MS = 120_000;

test(
  'a valid configuration means the same after it was written and read again',
  () => {
    fc.assert(
      fc.property(randomConfig, (written) => {
        const first = loadConfig({ file: { path: 'a.yaml', text: stringify(written) } });
        if (!first.ok) throw new Error(first.problems.map(formatProblem).join('\n'));

        const again = z.encode(configSchema, configSchema.parse(written));
        const second = loadConfig({ file: { path: 'b.yaml', text: JSON.stringify(again) } });

        expect(second.ok && second.config).toEqual(first.config);
      }),
      RUNS,
    );
  },
  DEADLINE_MS,
);

test(
  'what is shown as the configuration in effect is a configuration, and the same one',
  () => {
    fc.assert(
      fc.property(randomConfig, (written) => {
        const first = loadConfig({ file: { path: 'a.yaml', text: stringify(written) } });
        if (!first.ok) throw new Error(first.problems.map(formatProblem).join('\n'));

        const shown = effectiveYaml(first.config, first.originOf);
        const second = loadConfig({ file: { path: 'b.yaml', text: shown } });

        expect(second.ok && maskedConfig(second.config)).toEqual(maskedConfig(first.config));
      }),
      RUNS,
    );
  },
  DEADLINE_MS,
);

test(
  'a random change of the text never crashes, and every problem has its line and column',
  () => {
    fc.assert(
      fc.property(randomConfig, fc.nat(), fc.nat(8), SCRAP, (written, seed, length, scrap) => {
        const text = stringify(written);
        const at = seed % (text.length + 1);
        const changed = text.slice(0, at) + scrap + text.slice(at + length);

        const loaded = loadConfig({ file: { path: 'a.yaml', text: changed } });

        expect(withoutPlace(loaded.problems, changed)).toEqual([]);
      }),
      CHANGES,
    );
  },
  DEADLINE_MS,
);

const SCRAP = fc.oneof(
  fc.constantFrom(
    '',
    '\n',
    '\t',
    ':',
    '- ',
    '[',
    '}',
    '"',
    "'",
    '&a ',
    '*a',
    '!x ',
    '|',
    '>',
    '%',
    '@',
    '#',
    '?',
    '---\n',
  ),
  fc.constantFrom(
    'null',
    '~',
    '-1',
    '1e400',
    '.nan',
    '.inf',
    '0x10',
    '__proto__: 1\n',
    '<<: {}',
    'constructor',
  ),
  fc.string({ maxLength: 12, unit: 'binary' }),
);

test(
  'any value in any place never crashes, and every problem has its line and column',
  () => {
    fc.assert(
      fc.property(randomConfig, fc.nat(), fc.jsonValue({ maxDepth: 2 }), (written, seed, value) => {
        const tree: unknown = structuredClone(written);
        replaceSomewhere(tree, seed, value);
        const text = stringify(tree);

        const loaded = loadConfig({ file: { path: 'a.yaml', text } });

        expect(withoutPlace(loaded.problems, text)).toEqual([]);
      }),
      CHANGES,
    );
  },
  DEADLINE_MS,
);

test.each([
  ['a hundred thousand brackets', '['.repeat(100_000)],
  ['a hundred thousand levels', 'a: {'.repeat(50_000)],
  ['sections nested too deeply', `a: ${'{a: '.repeat(40)}1${'}'.repeat(40)}`],
  ['a file that is too long', `# ${'x'.repeat(2 ** 20)}`],
  ['an alias of itself', 'a: &a [*a]'],
  ['a text with a NUL', 'server: "\\0"'],
  ['nothing at all', ''],
])('%s is refused at once, with a place', (_, text) => {
  const loaded = loadConfig({ file: { path: 'a.yaml', text } });

  expect(loaded.ok).toBe(false);
  expect(withoutPlace(loaded.problems, text)).toEqual([]);
});

/** The problems that do not say where in the text they are. */
function withoutPlace(problems: readonly ConfigProblem[], text: string): readonly string[] {
  const lines = text.split(/\r\n|\n|\r/).length + 1;
  return problems.map(formatProblem).filter((message) => {
    const [, line, column] = /^a\.yaml:(\d+):(\d+): (?:error|warning): .+[.?]$/.exec(message) ?? [];
    return !(Number(line) >= 1 && Number(line) <= lines && Number(column) >= 1);
  });
}

/** Puts a value where `seed` leads: at every level either here or further down. */
function replaceSomewhere(tree: unknown, seed: number, value: unknown): void {
  if (typeof tree !== 'object' || tree === null) return;
  const keys = Object.keys(tree);
  const key = keys[seed % keys.length];
  if (key === undefined) return;
  const next: unknown = Reflect.get(tree, key);
  const rest = Math.floor(seed / keys.length);
  if (typeof next === 'object' && next !== null && rest % 4 > 0)
    replaceSomewhere(next, Math.floor(rest / 4), value);
  else Reflect.set(tree, key, value);
}
