import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { Proxy } from '../proxy/start-proxy.ts';
import { NO_CHANGE, type PreparedChange, listening } from './listen.ts';
import { ConfigRefused } from './active-config.ts';
import type { ConfigRuntime } from './config-runtime.ts';
import type { WorkerFleet } from './worker-fleet.ts';

/** Who takes the requests: this process, or its workers. */
export interface Serving {
  address(): AddressInfo;
  useSecureContext(options: TlsOptions): void;
  /** Rejects with what is wrong with the runtime; then nothing has changed. */
  prepare(next: ConfigRuntime, ownPorts: readonly number[]): Promise<PreparedChange>;
  /** After a reload: workers are told. */
  follow(runtime: ConfigRuntime): Promise<void>;
  closePort(): Promise<void>;
  drain(withinMs: number): Promise<void>;
}

export function servingHere(proxy: Proxy): Serving {
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

/** Only the decision service is offered, and it looks after itself. */
export function servingNothing(serviceAddress: () => AddressInfo | undefined): Serving {
  return {
    address: () => {
      const address = serviceAddress();
      if (address === undefined) throw new Error('the service does not listen yet');
      return address;
    },
    useSecureContext: () => undefined,
    prepare: async () => Promise.resolve(NO_CHANGE),
    follow: async () => Promise.resolve(),
    closePort: async () => Promise.resolve(),
    drain: async () => Promise.resolve(),
  };
}

/** Workers read certificates themselves, and listen themselves. */
export function servingByWorkers(fleet: WorkerFleet): Serving {
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
