import type { Config } from '../config/config.ts';
import { AddressList } from '../rules/access-list.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import { refuseEarly, type EarlyReason, type Refusal } from '../rules/rule-outcome.ts';
import type { AnswerText, GatewayErrorCode } from './gateway-errors.ts';

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

/** Hears of what was refused before the rules, so that it can be explained later. */
export type EarlyRefusalListener = (facts: RequestFacts, refusal: Refusal, config: Config) => void;

/** An answer of our own; without a ruling, it was given before any rule was asked. */
interface SentAnswer {
  readonly name: string;
  readonly standard: Pick<AnswerText, 'status'>;
  readonly ruling: object | undefined;
  readonly request: { readonly facts: RequestFacts } | undefined;
}

const REASONS: ReadonlyMap<string, EarlyReason> = new Map<GatewayErrorCode | 'authorization', EarlyReason>([
  ['MAINTENANCE', 'maintenance'],
  ['AUTHORIZATION_UNAVAILABLE', 'authorizationUnavailable'],
  ['authorization', 'authorization'],
  ['CORS_NOT_ALLOWED', 'preflightRefused'],
]);

/** Other answers are no refusals, or about requests that cannot be understood: there is nothing to explain. */
export function tellEarlyRefusal(
  { onEarlyRefusal }: { readonly onEarlyRefusal: EarlyRefusalListener },
  { name, standard, ruling, request }: SentAnswer,
  config: Config,
): void {
  const reason = ruling === undefined ? REASONS.get(name) : undefined;
  if (reason === undefined || request === undefined) return;
  onEarlyRefusal(request.facts, refuseEarly(reason, standard.status), config);
}
