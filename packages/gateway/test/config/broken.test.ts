// Each file in `broken/` is a configuration with mistakes; the text beside it is what is said about them.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { formatProblem } from '../../src/config/problem.ts';

const FOLDER = new URL('broken/', import.meta.url);
const names = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => name.replace('.yaml', ''));

test('there are enough broken files to learn from, and each has its messages', () => {
  const messages = readdirSync(FOLDER).filter((name) => name.endsWith('.txt'));

  expect(names.length).toBeGreaterThanOrEqual(30);
  expect(messages).toEqual(names.map((name) => `${name}.txt`));
});

test.each(names)('%s is refused with exactly these messages', async (name) => {
  const path = `${name}.yaml`;

  const loaded = loadConfig({ file: { path, text: readFileSync(new URL(path, FOLDER), 'utf8') } });

  expect(loaded.ok).toBe(false);
  const text = loaded.problems.map((problem) => `${formatProblem(problem)}\n`).join('');
  expect(text).not.toContain('hunter2');
  await expect(text).toMatchFileSnapshot(`broken/${name}.txt`);
});
