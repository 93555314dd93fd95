import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('the example prints what its README says', { timeout: 120_000 }, async () => {
  const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8');
  const expected = /```text\n([^]*?)```/.exec(readme)?.[1];
  const program = fileURLToPath(new URL('../build/llm/run.js', import.meta.url));

  const { stdout } = await promisify(execFile)(process.execPath, [program]);

  expect(stdout).toBe(expected);
});
