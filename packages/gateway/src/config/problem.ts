/** Where a value was written: a place in the file, or an environment variable. */
export type Origin =
  | { readonly from: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly from: 'env'; readonly name: string }
  | { readonly from: 'default' };

export interface Problem {
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
export function formatProblem({ severity, origin, message, suggestion }: Problem): string {
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
export function sortProblems(problems: readonly Problem[]): readonly Problem[] {
  const byText = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...byText.values()].toSorted(
    (a, b) => line(a) - line(b) || column(a) - column(b) || compare(formatProblem(a), formatProblem(b)),
  );
}

function line({ origin }: Problem): number {
  return origin.from === 'file' ? origin.line : Number.MAX_SAFE_INTEGER;
}

function column({ origin }: Problem): number {
  return origin.from === 'file' ? origin.column : 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
