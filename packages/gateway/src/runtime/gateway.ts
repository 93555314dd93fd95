import type { AddressInfo } from 'node:net';
import type { GatewayControl } from '../admin/control.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import type { ConfigProblem } from '../config/problem.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';
import type { ProcessActivity } from '../fleet/fleet-member.ts';
import type { SettingsMessage } from './instance-settings.ts';

/** Reads the file and the environment; with a text, that instead of the file. */
export type ReadConfigAgain = (text?: string) => Promise<LoadedConfig>;

export interface GatewayOptions {
  /** Reads the file and the environment at the start. */
  readonly readConfig: () => LoadedConfig;
  /** The same for every reload, while requests wait for this process. Default: `readConfig`. */
  readonly readConfigAgain?: ReadConfigAgain | undefined;
  /** Looked at for changes, together with the files that the configuration names. */
  readonly configFile?: string | undefined;
  readonly logger: Logger;
  readonly version: string;
  /**
   * One of several processes that share the port: the primary one has the admin server and looks at the files. Default:
   * false.
   */
  readonly worker?: boolean | undefined;
  /** What a worker knows of settings of single keys before it takes requests. */
  readonly settings?: SettingsMessage | undefined;
  /** The decision service without the proxy. Default: false. */
  readonly serveOnly?: boolean | undefined;
}

/** A gateway that takes requests. */
export interface Gateway extends GatewayControl {
  /** Where clients connect; where only the service is offered, its address. */
  address(): AddressInfo;
  /** Undefined if this process offers no decision service. */
  serviceAddress(): AddressInfo | undefined;
  /** Undefined if there is no admin server. */
  adminAddress(): AddressInfo | undefined;
  /** Gives single keys other numbers, or blocks them, as the primary process says. */
  useSettings(settings: SettingsMessage): void;
  /** What this process has decided. */
  processActivity(): ProcessActivity;
  /** Does of a reload all that can go wrong, and answers with what does. */
  prepareReload(): Promise<readonly ConfigProblem[]>;
  /** What was prepared is not wanted. */
  abortReload(): Promise<void>;
  /** The metrics of this process, to be summed up with those of others. */
  metricsJson(): ReturnType<Metrics['registry']['getMetricsAsJSON']>;
  summary(): TrafficSummary;
  /** Takes no new connections; those that are open go on. */
  closePort(): Promise<void>;
  /** Says that it is not ready, takes no new connections, finishes what is in flight, and closes. Never rejects. */
  drain(): Promise<void>;
}

/** Where it listens, for the log. */
export function addressesOf(
  gateway: Pick<Gateway, 'address' | 'adminAddress' | 'serviceAddress'>,
): Readonly<Record<string, unknown>> {
  const { address, port } = gateway.address();
  const admin = gateway.adminAddress();
  return {
    address,
    port,
    adminAddress: admin?.address,
    adminPort: admin?.port,
    servicePort: gateway.serviceAddress()?.port,
  };
}

/** The file of the configuration, if this process looks at it. */
export function configFiles({ configFile, worker = false }: GatewayOptions): readonly string[] {
  return configFile === undefined || worker ? [] : [configFile];
}
