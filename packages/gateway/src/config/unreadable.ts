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
