import { posix } from 'node:path';
import { parseSync } from 'oxc-parser';
import type { RepositoryFile } from './tree.ts';

export interface Import {
  readonly line: number;
  /** As written in the source. */
  readonly specifier: string;
  /** For a relative specifier the path from the repository's root, else the specifier itself. */
  readonly target: string;
  readonly typeOnly: boolean;
}

/** Every import and re-export of a file, types included. */
export function importsOf(file: RepositoryFile): Import[] {
  const { errors, module } = parseSync(file.path, file.text, { sourceType: 'module' });
  const [error] = errors;
  if (error !== undefined) throw new Error(`${file.path}: ${error.message}`);

  const requests = [
    ...module.staticImports.map(({ moduleRequest, entries }) => ({
      ...moduleRequest,
      typeOnly: entries.length > 0 && entries.every(({ isType }) => isType),
    })),
    ...module.staticExports
      .flatMap(({ entries }) => entries)
      .flatMap(({ moduleRequest, isType }) =>
        moduleRequest ? [{ ...moduleRequest, typeOnly: isType }] : [],
      ),
    ...module.dynamicImports.map(({ moduleRequest }) => ({ ...moduleRequest, typeOnly: false })),
  ];
  return requests.map(({ start, end, typeOnly }) => {
    const specifier = file.text.slice(start, end).replaceAll(/^['"`]|['"`]$/g, '');
    return {
      line: file.text.slice(0, start).split('\n').length,
      specifier,
      target: specifier.startsWith('.') ? posix.join(posix.dirname(file.path), specifier) : specifier,
      typeOnly,
    };
  });
}
