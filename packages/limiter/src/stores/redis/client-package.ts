import { LimiterError } from '../../errors.ts';

/** Tried in this order; the first that is installed is used. */
const PACKAGES = ['ioredis', 'iovalkey', 'redis', '@redis/client'] as const;
type PackageName = (typeof PACKAGES)[number];

export interface ClientPackage {
  readonly family: 'ioredis' | 'node-redis';
  readonly module: object;
}

/** Whichever client package the application has installed. */
export function findClientPackage(): Promise<ClientPackage> {
  found ??= search();
  return found;
}

let found: Promise<ClientPackage> | undefined;

/** Resolves when nobody waits for a package any more; on a busy machine loading one may take a second. */
export async function clientPackageSettled(): Promise<void> {
  await found?.catch(() => undefined);
}

async function search(): Promise<ClientPackage> {
  for (const name of PACKAGES) {
    const module = await importIfInstalled(name);
    if (module === undefined) continue;
    return { family: name === 'ioredis' || name === 'iovalkey' ? 'ioredis' : 'node-redis', module };
  }
  throw new LimiterError(
    'CLIENT_MISSING',
    `No Redis client is installed; the store can use one of ${PACKAGES.join(', ')}: run npm install ioredis.`,
  );
}

async function importIfInstalled(name: PackageName): Promise<object | undefined> {
  try {
    const module: unknown = await import(name);
    return typeof module === 'object' && module !== null ? module : undefined;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    if (missing && error.message.includes(`'${name}'`)) return undefined;
    throw error;
  }
}

/** A foreign module, of which only running it shows more: the caller says what it expects of the export. */
export function exportedBy({ module }: ClientPackage, names: readonly string[]): unknown {
  const value = names
    .map((name): unknown => Reflect.get(module, name))
    .find((candidate) => typeof candidate === 'function');
  if (value !== undefined) return value;
  throw new LimiterError(
    'CLIENT_MISSING',
    `The installed Redis client has no ${names[0] ?? 'export'}: update it.`,
  );
}
