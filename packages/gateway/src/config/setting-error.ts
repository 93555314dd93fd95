import { readFileSync } from 'node:fs';
import { pathText, type Path } from './path.ts';
import type { Origin, Problem } from './problem.ts';

/** A setting that reads well and still cannot be used, such as a file that does not exist. */
export class SettingError extends Error {
  readonly path: Path;
  readonly suggestion: string;

  constructor(path: Path, message: string, suggestion: string, options?: ErrorOptions) {
    super(message, options);
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
    throw unreadableFile(path, file, failure);
  }
}

export function unreadableFile(path: Path, file: string, cause: unknown): SettingError {
  return new SettingError(
    path,
    `${pathText(path)}: ${file} cannot be read (${errorCode(cause)})`,
    'Correct the path, or make the file readable for the gateway.',
    { cause },
  );
}

function errorCode(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown error';
}
