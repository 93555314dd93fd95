import { LimiterError } from '../../errors.ts';
import { importIfInstalled } from '../../optional-package.ts';

/** Tried in this order; the first that is installed is used. */
export const PACKAGES = ['ioredis', 'iovalkey', 'redis', '@redis/client'] as const;
export type PackageName = (typeof PACKAGES)[number];

export interface ClientPackage {
  readonly family: 'ioredis' | 'node-redis';
  readonly module: object;
}

/** The package that was asked for, or whichever the application has installed. */
export function findClientPackage(wanted: PackageName | undefined): Promise<ClientPackage> {
  const known = searches.get(wanted);
  if (known !== undefined) return known;
  const search = searchFor(wanted);
  searches.set(wanted, search);
  return search;
}

/** At most one for each package, and one for any of them. */
const searches = new Map<PackageName | undefined, Promise<ClientPackage>>();

/** Resolves when nobody waits for a package any more; on a busy machine loading one may take a second. */
export async function clientPackageSettled(wanted: PackageName | undefined): Promise<void> {
  await searches.get(wanted)?.catch(() => undefined);
}

async function searchFor(wanted: PackageName | undefined): Promise<ClientPackage> {
  const names = wanted === undefined ? PACKAGES : [wanted];
  for (const name of names) {
    const module = await importIfInstalled(name);
    if (module === undefined) continue;
    return { family: name === 'ioredis' || name === 'iovalkey' ? 'ioredis' : 'node-redis', module };
  }
  throw new LimiterError(
    'CLIENT_MISSING',
    `No Redis client is installed; the store can use ${names.join(', ')}: run npm install ${names[0]}.`,
  );
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
