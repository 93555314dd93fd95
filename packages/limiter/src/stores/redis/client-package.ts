import { LimiterError } from '../../errors.ts';
import { importIfInstalled } from '../../optional-package.ts';

/** Tried in this order; the first that is installed is used. */
const PACKAGES = ['ioredis', 'iovalkey', 'redis', '@redis/client'] as const;

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
