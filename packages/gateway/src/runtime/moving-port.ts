import type { AddressInfo } from 'node:net';
import type { Config } from '../config/config.ts';
import { NO_CHANGE, type PreparedChange } from './change.ts';

/** A server that listens at one address. */
interface PortServer {
  readonly address: AddressInfo;
  /** The configuration has changed. */
  follow(): void;
  close(options?: { readonly withinMs: number }): Promise<void>;
}

/** Listens at an address, and answers from `openedUp` on. */
type OpenPort<Server> = (address: string, openedUp: Promise<void>) => Promise<Server>;

/** Where a server has to be. */
interface PortPlan {
  /** Undefined: nowhere. */
  readonly address: string | undefined;
  /** How long the server at the old place may take to finish. */
  readonly closeWithinMs: number;
}

/** A server that may come, move and go while the gateway runs. */
export class MovingPort<Server extends PortServer> {
  private readonly open: OpenPort<Server>;
  private server: Server | undefined;
  private configured: string | undefined;

  /** `open` rejects with what to say about an address that cannot be listened on. */
  constructor(open: OpenPort<Server>) {
    this.open = open;
  }

  get address(): AddressInfo | undefined {
    return this.server?.address;
  }

  /**
   * Listens at once, because that may fail. Requests there wait until the change is in use: what the old configuration
   * allows on loopback must not hold anywhere else for a moment.
   */
  async prepare({ address, closeWithinMs }: PortPlan): Promise<PreparedChange> {
    const { server: old } = this;
    if (address === this.configured) {
      return { ...NO_CHANGE, commit: () => old?.follow() };
    }
    let openUp: () => void = () => undefined;
    const openedUp = new Promise<void>((resolve) => {
      openUp = resolve;
    });
    const server = address === undefined ? undefined : await this.open(address, openedUp);
    return {
      commit: () => {
        openUp();
        this.server = server;
        this.configured = address;
        server?.follow();
        // The request that asked for this change still gets its answer: responses have their own time limit.
        void old?.close({ withinMs: closeWithinMs });
      },
      abort: () => void server?.close({ withinMs: 0 }),
    };
  }

  /** What the server reads from the configuration is not the same any more. */
  follow(): void {
    this.server?.follow();
  }

  async close(withinMs?: number): Promise<void> {
    await this.server?.close(withinMs === undefined ? undefined : { withinMs });
  }
}

export function adminPlan({ admin }: Config): PortPlan {
  return { address: admin.enabled ? admin.address : undefined, closeWithinMs: admin.write_timeout };
}

export function servicePlan({ service, server }: Config): PortPlan {
  return { address: service?.address, closeWithinMs: server.drain_timeout };
}
