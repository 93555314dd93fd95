/**
 * Whether importing a package failed because the application has not installed it. Write the import as a literal inside
 * a `try` block: bundlers follow only literals, and only there do they accept a package that is missing.
 */
export function isNotInstalled(error: unknown, name: string): boolean {
  if (typeof error !== 'object' || error === null || !('code' in error) || !('message' in error))
    return false;
  const isMissing = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND';
  // Another package may be missing inside one that is installed.
  return isMissing && String(error.message).includes(`'${name}'`);
}
