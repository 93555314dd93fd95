import type { Check, RepositoryFile } from '../tidy/tree.ts';

/** A small repository with a violation in it. */
export interface PlantedTree {
  readonly violation: string;
  readonly check: Check;
  readonly files: readonly RepositoryFile[];
  /** What the check must answer, in full. */
  readonly reports: readonly string[];
}

export function file(path: string, text = ''): RepositoryFile {
  return { path, text };
}
