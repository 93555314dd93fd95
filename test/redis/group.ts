import type { RedisServer } from './redis-server.ts';

/** Waits for all; if one did not start, stops the others and rejects with its reason. */
export async function allStarted(launches: readonly Promise<RedisServer>[]): Promise<readonly RedisServer[]> {
  const results = await Promise.allSettled(launches);
  const servers = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure === undefined) return servers;
  await stopAll(servers);
  throw failure.reason;
}

/** Runs steps that start servers or connect them; if one fails, none of those in `servers` by then stays behind. */
export async function orStopAll<T>(servers: readonly RedisServer[], steps: () => Promise<T>): Promise<T> {
  try {
    return await steps();
  } catch (error) {
    await stopAll(servers);
    throw error;
  }
}

export async function stopAll(servers: readonly RedisServer[]): Promise<void> {
  await Promise.all(servers.map(async (server) => server.stop()));
}
