import type { Caller } from '../store.ts';
import { clientPackageSettled } from './clients/client-package.ts';
import type { Shard } from './composed-check.ts';
import type { AddressDefaults } from './server-address.ts';

/**
 * What a process asks while it starts. It waits for the first connections, and no deadline runs until a shard has
 * answered for the first time: a process that starts stands still again and again. Servers that cannot be reached must
 * not hold it up for long: all of this is over after `connectTimeoutMs`.
 */
export class FirstCalls {
  /** Of the shards that have not answered yet. */
  private readonly connections = new Map<Shard, Promise<unknown>>();
  private readonly over: Promise<void>;
  private finish: () => void = () => undefined;

  constructor(shards: readonly Shard[], { clientPackage, connectTimeoutMs }: AddressDefaults) {
    const loaded = clientPackageSettled(clientPackage);
    this.over = new Promise((resolve) => {
      this.finish = () => {
        this.connections.clear();
        return resolve();
      };
      void loaded.then(() => setTimeout(this.finish, connectTimeoutMs).unref());
    });
    for (const shard of shards) {
      this.connections.set(
        shard,
        loaded.then(() => Promise.race([shard.topology.opening, this.over])),
      );
    }
  }

  get areOver(): boolean {
    return this.connections.size === 0;
  }

  async ask<Reply>(
    shards: readonly Shard[],
    caller: Caller | undefined,
    call: () => Promise<Reply>,
  ): Promise<Reply> {
    const waits = shards.flatMap((shard) => this.connections.get(shard) ?? []);
    if (waits.length === 0) return call();
    caller?.pauseDeadline();
    void this.over.then(() => caller?.resumeDeadline());
    try {
      await Promise.all(waits);
      return await call();
    } finally {
      for (const shard of shards) this.connections.delete(shard);
    }
  }

  /** The servers are known to answer, or nobody asks any more. */
  end(): void {
    this.finish();
  }
}
