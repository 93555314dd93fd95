import { posix } from 'node:path';
import { importsOf } from '../tidy/imports.ts';
import type { RepositoryFile } from '../tidy/tree.ts';
import { classesOf, declaredTwice } from './declarations.ts';
import { grouped } from './grouped.ts';

export type Counted = readonly [what: string, value: string | number];

const SMALL = 40;
const LONG = 120;

/** Figures about one tree that follow from its text alone. */
export function countsOf(files: readonly RepositoryFile[]): Counted[] {
  const sources = files.filter(({ path }) => isSource(path));
  const gateway = sources.filter(({ path }) => path.startsWith('packages/gateway/'));
  const library = sources.filter(({ path }) => path.startsWith('packages/limiter/'));
  return [
    ['names of types declared more than once', declaredTwice(sources).size],
    ...[gateway, library].flatMap((part): Counted[] => {
      const name = part === gateway ? 'gateway' : 'library';
      const importers = importersIn(part);
      const once = part.filter(({ path }) => importers.get(path)?.size === 1).length;
      return [
        [`${name}: files`, part.length],
        [`${name}: files imported by exactly one other`, once],
        [`${name}: files with at most ${SMALL} lines`, part.filter((file) => lines(file) <= SMALL).length],
      ];
    }),
    ...['HttpLimiter', 'StoreLimiter'].map((name): Counted => [
      `methods of ${name}`,
      methodsOf(sources, name),
    ]),
    [
      'files with #private members',
      sources.filter(({ text }) => /(?:this\.|^\s+(?:readonly )?)#\w/m.test(text)).length,
    ],
    ['files with private members', sources.filter(({ text }) => /^\s+private /m.test(text)).length],
    [
      'longest line',
      Math.max(...sources.flatMap(({ text }) => text.split('\n').map(({ length }) => length))),
    ],
    [
      `lines over ${LONG} columns`,
      sources.reduce(
        (sum, { text }) => sum + text.split('\n').filter(({ length }) => length > LONG).length,
        0,
      ),
    ],
    ['files and folders of one name side by side', sideBySide(sources).length],
    ...linesPerFolder(sources),
  ];
}

/** Files whose name without its ending is also that of a folder beside them. */
function sideBySide(files: readonly RepositoryFile[]): string[] {
  const folders = new Set(files.flatMap(({ path }) => parents(path)));
  return files.map(({ path }) => path).filter((path) => folders.has(path.replace(/(?:\.\w+)+$/, '')));
}

function isSource(path: string): boolean {
  return /^packages\/[^/]+\/src\/.*\.ts$/.test(path) && !/\.(?:test|generated)\.ts$/.test(path);
}

function linesPerFolder(files: readonly RepositoryFile[]): Counted[] {
  const folders = grouped(files, ({ path }) => {
    const [, name = '', , ...rest] = path.split('/');
    return `${name}/${rest.length > 1 ? (rest[0] ?? '') : ''}`;
  });
  return [...folders]
    .map(([folder, inside]): Counted => [`lines: ${folder}`, total(inside)])
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .concat([['lines: all', total(files)]]);
}

function importersIn(files: readonly RepositoryFile[]): Map<string, Set<string>> {
  const importers = new Map<string, Set<string>>();
  for (const file of files) {
    for (const { target } of importsOf(file)) {
      importers.set(target, (importers.get(target) ?? new Set()).add(file.path));
    }
  }
  return importers;
}

function methodsOf(files: readonly RepositoryFile[], name: string): number | string {
  const found = files.flatMap(classesOf).filter((one) => one.name === name);
  return found.length === 0 ? '-' : found.reduce((sum, { methods }) => sum + methods, 0);
}

function parents(path: string): string[] {
  const parent = posix.dirname(path);
  return parent === '.' ? [] : [parent, ...parents(parent)];
}

function total(files: readonly RepositoryFile[]): number {
  return files.reduce((sum, file) => sum + lines(file), 0);
}

function lines({ text }: RepositoryFile): number {
  return text.replace(/\n$/, '').split('\n').length;
}
