/** A package that the application may have installed; undefined if it has not. */
export async function importIfInstalled(name: string): Promise<object | undefined> {
  try {
    const module: unknown = await import(name);
    return typeof module === 'object' && module !== null ? module : undefined;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    if (missing && error.message.includes(`'${name}'`)) return undefined;
    throw error;
  }
}
