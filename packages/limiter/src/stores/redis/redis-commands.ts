import { openTopology } from './open-topology.ts';
import { acceptOptions, type RedisStoreOptions } from './redis-options.ts';

/** Commands that are not a store's, over the same kind of connections, breakers and routing. */
export interface RedisCommands {
  /** The reply of the server that has the key; rejects within `timeoutMs`, and at once while that server is down. */
  run(key: string, name: string, args: readonly string[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Opens one server, a master behind sentinels, or a cluster. Nothing runs there but what is asked for, and `PING`. */
export function openRedisCommands(options: Omit<RedisStoreOptions, 'shards'>): RedisCommands {
  const accepted = acceptOptions(options);
  const topology = openTopology(options, accepted, {
    timeoutMs: () => accepted.timeoutMs,
    observe: () => undefined,
    probeKey: (key) => key,
    decides: false,
  });
  return {
    run: (key, name, args) => topology.route({ key, name, args }),
    close: () => topology.close(),
  };
}
