import type { Config } from '../../config/config.ts';
import { AddressList } from '../../rules/access-list.ts';

/** Whether the service is closed for a while: what the configuration says, unless an operator has switched it. */
export class MaintenanceSwitch {
  private state: boolean | undefined;
  private readonly allowed = new WeakMap<Config, AddressList>();

  /** What an operator said; undefined where the configuration decides. */
  get switchedTo(): boolean | undefined {
    return this.state;
  }

  stateFor(config: Config): Readonly<Record<'enabled' | 'configured', boolean>> & Pick<this, 'switchedTo'> {
    const { switchedTo } = this;
    return { enabled: this.isOn(config), configured: config.maintenance.enabled, switchedTo };
  }

  switch(enabled: boolean | undefined): void {
    this.state = enabled;
  }

  private isOn({ maintenance }: Config): boolean {
    return this.state ?? maintenance.enabled;
  }

  /** Whether a client is sent away. */
  refuses(config: Config, address: string | undefined): boolean {
    return this.isOn(config) && !(address !== undefined && this.allowedBy(config).has(address));
  }

  private allowedBy(config: Config): AddressList {
    const known = this.allowed.get(config);
    if (known !== undefined) return known;
    const made = new AddressList(config.maintenance.allow);
    this.allowed.set(config, made);
    return made;
  }
}

/** What clients hear about its end. */
export function maintenanceHeaders({ maintenance: { retry_after: ms } }: Config): readonly string[] {
  return ms === undefined ? [] : ['Retry-After', String(Math.ceil(ms / 1000))];
}
