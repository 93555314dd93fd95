import { readFileSync } from 'node:fs';
import { pathText, type Path } from '../config/path.ts';
import type { Origin, Problem } from '../config/problem.ts';

/** A setting that reads well and still cannot be used, such as a file that does not exist. */
export class SettingError extends Error {
  readonly path: Path;
  readonly suggestion: string;

  constructor(path: Path, message: string, suggestion: string) {
    super(message);
    this.path = path;
    this.suggestion = suggestion;
  }

  /** As a problem of the configuration, with the place where the setting was written. */
  problem(originOf: (path: Path) => Origin): Problem {
    return {
      severity: 'error',
      origin: originOf(this.path),
      path: pathText(this.path),
      message: this.message,
      suggestion: this.suggestion,
    };
  }
}

/** The content of a file that a setting names; undefined if it names none. */
export function readNamedFile(path: Path, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (failure) {
    const code = failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown error';
    throw new SettingError(
      path,
      `${pathText(path)}: ${file} cannot be read (${code})`,
      'Correct the path, or make the file readable for the gateway.',
    );
  }
}
