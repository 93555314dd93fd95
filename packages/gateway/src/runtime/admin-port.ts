import type { AddressInfo } from 'node:net';
import type { AdminServer } from '../admin/server.ts';
import type { Config } from '../config/config.ts';
import { NO_CHANGE, type PreparedChange } from './change.ts';

/** Listens at an address, and answers from `openedUp` on. */
type OpenAdmin = (address: string, openedUp: Promise<void>) => Promise<AdminServer>;

/** The admin server, which may come, move and go while the gateway runs. */
export class AdminPort {
  private readonly open: OpenAdmin;
  private server: AdminServer | undefined;
  private configured: string | undefined;

  /** `open` rejects with what to say about an address that cannot be listened on. */
  constructor(open: OpenAdmin) {
    this.open = open;
  }

  get address(): AddressInfo | undefined {
    return this.server?.address;
  }

  /**
   * Listens at once, because that may fail. Requests there wait until the change is in use: what the old configuration allows on
   * loopback must not hold anywhere else for a moment.
   */
  async prepare({ admin }: Pick<Config, 'admin'>): Promise<PreparedChange> {
    const { server: old } = this;
    const configured = admin.enabled ? admin.address : undefined;
    if (configured === this.configured) {
      return { ...NO_CHANGE, commit: () => old?.follow() };
    }
    let openUp: () => void = () => undefined;
    const openedUp = new Promise<void>((resolve) => {
      openUp = resolve;
    });
    const server = configured === undefined ? undefined : await this.open(configured, openedUp);
    return {
      commit: () => {
        openUp();
        this.server = server;
        this.configured = configured;
        server?.follow();
        // The request that asked for this change still gets its answer: responses have their own time limit.
        void old?.close({ withinMs: admin.write_timeout });
      },
      abort: () => void server?.close({ withinMs: 0 }),
    };
  }

  async close(): Promise<void> {
    await this.server?.close();
  }
}
