// What listens: the proxy, here or in workers, and beside it the admin server and the decision service. A reload may
// open, move or close these, and changes certificates.
import type { AddressInfo } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { GatewayControl } from '../admin/control.ts';
import type { AdminMetrics } from '../admin/endpoint.ts';
import { createGuard } from '../admin/guard.ts';
import { startAdmin, type AdminServer } from '../admin/server.ts';
import type { Config } from '../config/config.ts';
import type { FleetMember } from '../fleet/fleet-member.ts';
import type { Proxy } from '../proxy/start-proxy.ts';
import type { ServerTls } from '../proxy/tls/server-tls.ts';
import type { ServiceServer, ServiceServerOptions } from '../service/service-server.ts';
import { ConfigRefused } from './active-config.ts';
import type { ConfigRuntime } from './config-runtime.ts';
import type { GatewayOptions } from './gateway.ts';
import { NO_CHANGE, type PreparedChange, listening, MovingPort, type PortPlan } from './listen.ts';
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

interface SideServerParts {
  readonly options: Pick<GatewayOptions, 'logger' | 'version' | 'worker'>;
  readonly control: GatewayControl;
  readonly metrics: () => AdminMetrics;
  readonly moved: ServiceServerOptions['moved'];
  readonly fleet: FleetMember;
  readonly runtime: () => ConfigRuntime;
}

export class SideServers {
  readonly admin: MovingPort<AdminServer>;
  readonly service: MovingPort<ServiceServer>;
  private readonly isWorker: boolean;

  constructor({ options, control, metrics, moved, fleet, runtime }: SideServerParts) {
    const { logger: log, version, worker = false } = options;
    const config = (): Config['admin'] => control.live().config.admin;
    const guard = createGuard(config, log);
    this.isWorker = worker;
    this.admin = new MovingPort(async (address, openedUp) =>
      startAdmin({
        address,
        openedUp,
        guard,
        control,
        metrics: metrics(),
        fleet,
        config,
        log,
        version,
      }),
    );
    this.service = new MovingPort(async (address, openedUp) => {
      // Only where it is configured: gRPC alone is a fifth of all modules that a start could load.
      const { startService } = await import('../service/service-server.ts');
      return startService({
        snapshot: () => runtime().service,
        address,
        openedUp,
        secureContext: () => runtime().serviceTls?.options,
        storeProblem: async () => control.storeProblem(),
        moved,
        log,
        version,
      });
    });
  }

  async openAdmin(config: Config): Promise<void> {
    (await this.admin.prepare(adminPlan(config))).commit();
  }

  async openService(config: Config): Promise<void> {
    (await this.service.prepare(servicePlan(config))).commit();
  }

  /** 0 for one that does not listen. */
  ports(): readonly number[] {
    return [this.admin.address?.port ?? 0, this.service.address?.port ?? 0];
  }

  /** What makes them ready for another configuration; `service` is false where others offer it. */
  preparations(
    config: Config,
    ownPorts: readonly number[],
    { service }: { readonly service: boolean },
  ): readonly (() => Promise<PreparedChange>)[] {
    return [
      async () => {
        if (this.isWorker) return NO_CHANGE;
        const { address } = config.admin;
        return listening({ setting: 'admin.address', address, ownPorts }, async () =>
          this.admin.prepare(adminPlan(config)),
        );
      },
      async () => {
        if (!service) return NO_CHANGE;
        const { address = '' } = config.service ?? {};
        return listening({ setting: 'service.address', address, ownPorts }, async () =>
          this.service.prepare(servicePlan(config)),
        );
      },
    ];
  }
}

function adminPlan({ admin }: Config): PortPlan {
  return { address: admin.enabled ? admin.address : undefined, closeWithinMs: admin.write_timeout };
}

function servicePlan({ service, server }: Config): PortPlan {
  return { address: service?.address, closeWithinMs: server.drain_timeout };
}

/** What is listened to as long as it is in use: a reload may put another in its place, or keep it. */
export class Followed<Source extends object> {
  private current: Source | undefined;
  private stops: readonly (() => void)[] = [];

  /** `listen` is called where this is not the one in use, and returns what stops listening. */
  follow(source: Source | undefined, listen: () => readonly (() => void)[]): void {
    if (source === this.current) return;
    this.stop();
    this.current = source;
    this.stops = listen();
  }

  stop(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }
}

/** The certificates of a server. */
export class FollowedTls {
  private readonly followed = new Followed<ServerTls>();

  /** `changed` gets these now, and again whenever they change. Nothing happens if they are the ones in use. */
  follow(tls: ServerTls | undefined, changed: (options: TlsOptions) => void): void {
    this.followed.follow(tls, () => {
      if (tls === undefined) return [];
      changed(tls.options);
      return [tls.onChange(changed)];
    });
  }
}
