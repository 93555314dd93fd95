// What listens beside the proxy: the admin server and the decision service. A reload may open, move or close both.
import type { GatewayControl } from '../admin/control.ts';
import type { AdminMetrics } from '../admin/endpoint.ts';
import { createGuard } from '../admin/guard.ts';
import { startAdmin, type AdminServer } from '../admin/server.ts';
import type { Config } from '../config/config.ts';
import type { FleetMember } from '../fleet/fleet-member.ts';
import type { ServiceServer, ServiceServerOptions } from '../service/service-server.ts';
import type { ConfigRuntime } from './config-runtime.ts';
import type { GatewayOptions } from './gateway.ts';
import { listening, MovingPort, NO_CHANGE, type PortPlan, type PreparedChange } from './listen.ts';

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
