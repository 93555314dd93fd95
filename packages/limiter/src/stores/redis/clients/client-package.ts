import { LimiterError, show } from '../../../errors.ts';
import { oneLine } from '../../../one-line.ts';
import { isNotInstalled } from '../../../optional-package.ts';
import type { AdaptedClient, ClientFamily } from './client.ts';
import { IOREDIS } from './ioredis.ts';
import { NODE_REDIS } from './node-redis.ts';

export type PackageName = 'ioredis' | 'iovalkey' | 'redis' | '@redis/client';

const FAMILY_OF: ReadonlyMap<string, ClientFamily> = new Map<PackageName, ClientFamily>([
  ['ioredis', IOREDIS],
  ['iovalkey', IOREDIS],
  ['redis', NODE_REDIS],
  ['@redis/client', NODE_REDIS],
]);

/** Tried in this order; the first that is installed is used. */
export const PACKAGES: readonly string[] = [...FAMILY_OF.keys()];

export interface ClientPackage {
  readonly family: ClientFamily;
  readonly module: object;
}

/** The package that was asked for, or whichever the application has installed. */
export function findClientPackage(wanted: string | undefined): Promise<ClientPackage> {
  const known = searches.get(wanted);
  if (known !== undefined) return known;
  const search = searchFor(wanted);
  searches.set(wanted, search);
  return search;
}

/** At most one for each package, and one for any of them. */
const searches = new Map<string | undefined, Promise<ClientPackage>>();

/** Resolves when nobody waits for a package any more; on a busy machine loading one may take a second. */
export async function clientPackageSettled(wanted: string | undefined): Promise<void> {
  await searches.get(wanted)?.catch(() => undefined);
}

async function searchFor(wanted: string | undefined): Promise<ClientPackage> {
  const names = wanted === undefined ? PACKAGES : [wanted];
  for (const name of names) {
    const module = await importClient(name);
    const family = FAMILY_OF.get(name);
    if (module !== undefined && family !== undefined) return { family, module };
  }
  throw new LimiterError(
    'CLIENT_MISSING',
    `No Redis client is installed; the store can use ${names.join(', ')}: run npm install ${names[0]}. ` +
      'In a bundle without it, pass a client of your own: redisStore({ client: new Redis(url) }).',
  );
}

/** Undefined if the package is not installed. */
async function importClient(name: string): Promise<object | undefined> {
  try {
    // Literals, for bundlers: see `isNotInstalled`.
    if (name === 'ioredis') return await import('ioredis');
    if (name === 'iovalkey') return await import('iovalkey');
    if (name === 'redis') return await import('redis');
    return await import('@redis/client');
  } catch (error) {
    if (isNotInstalled(error, name)) return undefined;
    const reason = error instanceof Error ? error.message : show(error);
    throw new LimiterError(
      'CLIENT_MISSING',
      `The Redis client ${name} could not be loaded (${oneLine(reason)}): pass a client of your own, ` +
        'redisStore({ client: new Redis(url) }).',
      { cause: error },
    );
  }
}

/** Makes use of a client that the application has opened. */
export function adaptClient(client: unknown): AdaptedClient {
  const adapted = typeof client === 'object' && client !== null ? adaptedBy(client) : undefined;
  if (adapted !== undefined) return adapted;
  throw new LimiterError(
    'INVALID_OPTION',
    `client is ${show(client)}; expected a connected client of ioredis, iovalkey, redis or @redis/client.`,
  );
}

function adaptedBy(client: object): AdaptedClient | undefined {
  // ioredis also has a sendCommand, for command objects: it is asked first whether a client is its own.
  for (const { adapt } of new Set(FAMILY_OF.values())) {
    const adapted = adapt(client);
    if (adapted !== undefined) return adapted;
  }
  return undefined;
}
