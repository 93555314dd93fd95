// Usage: house.js [--walks] [tree ...]. How easy it is to find one's way: prints one column of figures per tree, by
// default for the tree one stands in. With --walks also what one request runs through; then every tree has to be built.
import { basename, resolve } from 'node:path';
import { countsOf, type Counted } from './survey/counts.ts';
import { type Walk, walksOf } from './survey/walks.ts';
import { readTree } from './tidy/tree.ts';

const given = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const trees = (given.length === 0 ? ['.'] : given).map((path) => resolve(path));
const columns: (readonly Counted[])[] = [];
for (const tree of trees) {
  const walks = process.argv.includes('--walks') ? await walksOf(tree) : [];
  columns.push([...walks.flatMap(rowsOf), ...countsOf(readTree(tree))]);
}
const names = [...new Set(columns.flatMap((column) => column.map(([what]) => what)))];
print([
  ['', ...trees.map((tree) => basename(tree))],
  ...names.map((name) => [
    name,
    ...columns.map((column) => `${column.find(([what]) => what === name)?.[1] ?? '-'}`),
  ]),
]);

function rowsOf({ name, files, functions, classes, sharedMethodNames }: Walk): Counted[] {
  return [
    [`${name}: files`, files.length],
    [`${name}: functions`, functions],
    [`${name}: classes`, classes.length],
    [`${name}: method names in several classes`, sharedMethodNames.join(' ') || 'none'],
  ];
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of rows) {
    console.log(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}
