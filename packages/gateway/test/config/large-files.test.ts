// Files that are wrong in many places, or were never meant to be one: the work they cause is bounded, and so is what is
// said.
import { expect, test } from 'vitest';
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';

const MANY = 20_000;

function load(text: string): LoadedConfig {
  return loadConfig({ file: { path: 'a.yaml', text } });
}

function lines(count: number, line: (at: number) => string): string {
  return Array.from({ length: count }, (_, at) => `${line(at)}\n`).join('');
}

test.each([
  ['unknown settings', lines(MANY, (at) => `unknown_${at}: ${at}`)],
  ['unknown settings in a section', `server:\n${lines(MANY, (at) => `  unknown_${at}: ${at}`)}`],
  ['keys that appear twice', lines(MANY, () => 'server: {}')],
  ['wrong values', `rate_limit:\n  allow:\n    cidrs:\n${lines(MANY, (at) => `      - nonsense${at}`)}`],
  [
    'mistakes in policies',
    `rate_limit:\n  policies:\n${lines(MANY / 10, (at) => `    p${at}: { averge: 1 }`)}`,
  ],
  ['aliases', `a: &a x\nb:\n${lines(MANY, () => '  - *a')}`],
])('a file with thousands of %s is answered with a hundred problems at most', (_, text) => {
  const { ok, problems } = load(text);

  expect(ok).toBe(false);
  expect(problems.length).toBeGreaterThan(0);
  expect(problems.length).toBeLessThanOrEqual(101);
});

test('what is left out is counted', () => {
  const { problems } = load(lines(150, (at) => `unknown_${at}: 1`));

  expect(problems).toHaveLength(101);
  expect(problems.map(formatProblem).at(-1)).toBe(
    'a.yaml:100:1: error: 50 more problems are not shown. Fix these first.',
  );
});

test.each([
  ['zeros', '\0'.repeat(1000), 'a.yaml:1:1'],
  ['what was no UTF-8', `server:\n  address: "\uFFFD\u0001"\n`, 'a.yaml:2:13'],
  ['an escape sequence', 'server: \u001B[31m{}', 'a.yaml:1:9'],
])('a file with %s is one problem', (_, text, place) => {
  expect(load(text).problems.map(formatProblem)).toEqual([`${place}: error: the file is not text in UTF-8.`]);
});

test('a file in which nothing fits has a few problems, not hundreds', () => {
  const { problems } = load(lines(500, (at) => `]{ ${at} }[ : "`));

  expect(problems.length).toBeGreaterThan(0);
  expect(problems.length).toBeLessThanOrEqual(5);
});
