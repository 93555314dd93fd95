import type { AddressInfo } from 'node:net';
import type { GatewayControl } from '../admin/control.ts';
import type { OverrideNumbers } from '../admin/overrides.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import type { ConfigProblem } from '../config/problem.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';

export interface GatewayOptions {
  /** Reads the file and the environment at the start. */
  readonly readConfig: () => LoadedConfig;
  /** The same for every reload, while requests wait for this process. Default: `readConfig`. */
  readonly readConfigAgain?: (() => Promise<LoadedConfig>) | undefined;
  /** Looked at for changes, together with the files that the configuration names. */
  readonly configFile?: string | undefined;
  readonly logger: Logger;
  readonly version: string;
  /**
   * One of several processes that share the port: the primary one has the admin server and looks at the files. Default:
   * false.
   */
  readonly worker?: boolean | undefined;
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
  /** Gives a key other numbers, or with undefined those of the configuration. */
  override(policy: string, key: string, numbers: OverrideNumbers | undefined): void;
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
