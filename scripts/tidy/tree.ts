import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RepositoryFile {
  /** Relative to the repository, with forward slashes. */
  readonly path: string;
  /** Empty for a binary file. */
  readonly text: string;
}

/** Answers one line per violation, each starting with the path of the file it is about. */
export type Check = (files: readonly RepositoryFile[]) => string[];

/** `.git` is a file in a second working tree. */
const SKIPPED: ReadonlySet<string> = new Set(['.git', 'node_modules', 'build', 'dist', 'coverage']);

/** Reads every file below `root` that could be committed. */
export function readTree(root: string, folder = ''): RepositoryFile[] {
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  return entries.flatMap((entry) => {
    if (SKIPPED.has(entry.name)) return [];
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return readTree(root, path);
    return entry.isFile() ? [{ path, text: readText(join(root, path)) }] : [];
  });
}

/** Applies `pattern` to every line and reports `path:line problem: match`. */
export function findInLines(file: RepositoryFile, pattern: RegExp, problem: string): string[] {
  return file.text.split('\n').flatMap((line, index) => {
    const match = pattern.exec(line);
    return match === null ? [] : [`${file.path}:${index + 1} ${problem}: ${match[0].trim()}`];
  });
}

function readText(path: string): string {
  const bytes = readFileSync(path);
  return bytes.includes(0) ? '' : bytes.toString('utf8');
}
