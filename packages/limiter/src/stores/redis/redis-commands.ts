import { openShards } from './open-topology.ts';
import { acceptOptions, type RedisStoreOptions } from './redis-options.ts';
import { rendezvous } from './rendezvous.ts';

/** Commands that are not a store's, over the same kind of connections, breakers and routing. */
export interface RedisCommands {
  /** The reply of the server that has the key; rejects within `timeoutMs`, and at once while that server is down. */
  run(key: string, name: string, args: readonly string[]): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Opens the servers of a store. Nothing runs there but what is asked for, what finds the server of a key, and `PING`.
 */
export function openRedisCommands(options: RedisStoreOptions): RedisCommands {
  const accepted = acceptOptions(options);
  const shards = openShards(options, accepted, {
    timeoutMs: () => accepted.timeoutMs,
    observe: () => undefined,
    probeKey: (key) => key,
    decides: false,
  });
  const shardOf = rendezvous(shards);
  return {
    run: (key, name, args) => shardOf(key).topology.route({ key, name, args }),
    close: async () => {
      await Promise.all(shards.map(({ topology }) => topology.close()));
    },
  };
}
