import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { Proxy } from '../proxy/start-proxy.ts';
import type { Change } from './change.ts';
import { listening } from './listen-problem.ts';
import { ConfigRefused } from './live-setup.ts';
import type { Setup } from './setup.ts';
import type { WorkerFleet } from './worker-fleet.ts';

/** Who takes the requests: this process, or its workers. */
export interface Entrance {
  address(): AddressInfo;
  useSecureContext(options: TlsOptions): void;
  /** Rejects with what is wrong with the setup; then nothing has changed. */
  prepare(next: Setup, ownPorts: readonly number[]): Promise<Change>;
  /** After a reload: workers are told. */
  follow(setup: Setup): Promise<void>;
  closePort(): Promise<void>;
  drain(withinMs: number): Promise<void>;
}

export function ownEntrance(proxy: Proxy): Entrance {
  return {
    address: () => proxy.address(),
    useSecureContext: (options) => proxy.useSecureContext(options),
    prepare: async ({ config, serverTls }, ownPorts) =>
      listening({ setting: 'server.address', address: config.server.address, ownPorts }, async () =>
        proxy.prepare(config, serverTls?.options),
      ),
    follow: async () => Promise.resolve(),
    closePort: async () => proxy.stopAccepting(),
    drain: async (withinMs) => proxy.drain(withinMs),
  };
}

/** Workers read certificates themselves, and listen themselves. */
export function fleetEntrance(fleet: WorkerFleet): Entrance {
  return {
    address: () => fleet.address(),
    useSecureContext: () => undefined,
    prepare: async ({ read }) => {
      const problems = await fleet.prepare(read.fileText);
      if (problems.length > 0) throw new ConfigRefused(problems);
      // They take it into use behind the primary process, when they are told to reload.
      return { commit: () => undefined, abort: () => void fleet.abort() };
    },
    follow: async ({ config: { server } }) => {
      await fleet.reload();
      await fleet.resize(server.workers, server.drain_timeout);
    },
    closePort: async () => fleet.closePort(),
    drain: async (withinMs) => fleet.drain(withinMs),
  };
}
