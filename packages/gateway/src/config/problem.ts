import { readFileSync } from 'node:fs';
import { LimiterError } from 'spillgate';
import { pathText, type Path } from './path.ts';

/** Where a value was written: a place in the file, or an environment variable. */
export type Origin =
  | { readonly from: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly from: 'env'; readonly name: string }
  | { readonly from: 'default' };

export interface ConfigProblem {
  /** A warning does not keep a configuration from being used. */
  readonly severity: 'error' | 'warning';
  readonly origin: Origin;
  /** The setting it is about, such as `server.address`; empty when it is about the whole file. */
  readonly path: string;
  /** What is wrong, as a sentence without its full stop. */
  readonly message: string;
  /** What to do about it. */
  readonly suggestion: string | undefined;
}

/** `gateway.yaml:3:5: error: ...`: the form that editors and terminals turn into a link. */
export function formatProblem({ severity, origin, message, suggestion }: ConfigProblem): string {
  const advice = suggestion === undefined ? '' : ` ${suggestion}`;
  return `${formatOrigin(origin)}: ${severity}: ${message}.${advice}`;
}

export function formatOrigin(origin: Origin): string {
  switch (origin.from) {
    case 'file':
      return `${origin.file}:${origin.line}:${origin.column}`;
    case 'env':
      return origin.name;
    default:
      return 'default';
  }
}

/** By place in the file, then variables by name; equal lines once. */
export function sortProblems(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const byText = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...byText.values()].toSorted(
    (a, b) => line(a) - line(b) || column(a) - column(b) || compare(formatProblem(a), formatProblem(b)),
  );
}

function line({ origin }: ConfigProblem): number {
  return origin.from === 'file' ? origin.line : Number.MAX_SAFE_INTEGER;
}

function column({ origin }: ConfigProblem): number {
  return origin.from === 'file' ? origin.column : 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

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
  problem(originOf: (path: Path) => Origin): ConfigProblem {
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
    `${pathText(path)}: ${file} ${whyUnreadable(cause)}`,
    'Correct the path, or make the file readable for the gateway.',
    { cause },
  );
}

/** What the library advises, and what to set here for it. */
const IN_SETTINGS: readonly (readonly [text: string, here: string])[] = [
  ['deadlineMs', 'rate_limit.deadline'],
  [
    'give the store the username and password of the server',
    'set redis.password, and redis.username if it has users, or SPILLGATE_REDIS_PASSWORD',
  ],
  ['name it with `cluster: { urls }`', 'set redis.mode: cluster'],
  ['give the store a database that the server has', 'set redis.db to a database that the server has'],
  [
    'the server and the store have to agree on TLS: rediss:// or redis://',
    'set redis.tls.enabled as the server has it',
  ],
  [
    'give the store the CA that signed the certificate of the server, and the name in it',
    'set redis.tls.ca_file to the CA that signed the certificate of the server, and name the server as the certificate does',
  ],
];

/** What the library says, with the names of settings where it names options of its own. */
export function inSettings(message: string): string {
  return IN_SETTINGS.reduce((text, [theirs, here]) => text.replaceAll(theirs, here), message);
}

/** A failure of the store for a log line: what is known by its code needs no stack. */
export function storeFailure(failure: unknown): object {
  if (!(failure instanceof LimiterError)) return { err: failure };
  return { code: failure.code, detail: inSettings(failure.message) };
}

/** What is wrong with a file that could not be read, after its name: "does not exist". */
export function whyUnreadable(failure: unknown): string {
  const code = failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown error';
  return REASONS.get(code) ?? `cannot be read (${code})`;
}

const FORBIDDEN = 'may not be read by this user';
const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'does not exist'],
  ['ENOTDIR', 'does not exist'],
  ['EISDIR', 'is a directory'],
  ['EACCES', FORBIDDEN],
  ['EPERM', FORBIDDEN],
]);
