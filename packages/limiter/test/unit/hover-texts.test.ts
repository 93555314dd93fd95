import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const SOURCE = join(import.meta.dirname, '../../src');
/** The numbers of policies. */
const NUMBERS = /export interface (\w+Numbers)\b[^{]*\{\n([\s\S]*?)\n\}/g;
/** Not for people: what a policy is compiled to. */
const INTERNAL = /^(?:Any|Compiled)/;

test('an editor has a text for every number of a policy', () => {
  const silent = readdirSync(join(SOURCE, 'algorithms'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => withoutText(readFileSync(join(SOURCE, 'algorithms', name), 'utf8')));

  expect(silent).toEqual([]);
});

function withoutText(text: string): string[] {
  return [...text.matchAll(NUMBERS)].flatMap(([, name = '', body = '']) => {
    if (INTERNAL.test(name)) return [];
    const lines = body.split('\n');
    return lines
      .filter((line, at) => /^ {2}readonly \w+/.test(line) && !(lines[at - 1] ?? '').trimEnd().endsWith('*/'))
      .map((line) => `${name}: ${line.trim()}`);
  });
}
