import type { Limiter, Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import type { ConfigDifferences } from '../config/differences.ts';
import type { KeyNames } from '../config/schema/key-names.ts';
import type { Path } from '../config/path.ts';
import type { Origin, ConfigProblem } from '../config/problem.ts';
import type { RecentDecision, RecentQuery } from '../rules/explain/decision-history.ts';
import type { Explanation } from '../rules/explain/explanation.ts';
import type { BackendHealth } from '../telemetry/metric.ts';

/** The configuration in use. */
export interface ConfigInUse {
  readonly config: Config;
  readonly originOf: (path: Path) => Origin;
  /** Counts up with every configuration that was taken into use; 1 is the first. */
  readonly generation: number;
  readonly loadedAt: Date;
}

export type ReloadResult =
  | {
      readonly outcome: 'applied' | 'unchanged';
      readonly generation: number;
      readonly problems: readonly ConfigProblem[];
    }
  | { readonly outcome: 'refused'; readonly generation: number; readonly problems: readonly ConfigProblem[] };

/** A reload that happened; what it changed, where it changed anything. */
export type ReloadRecord = ReloadResult & {
  readonly at: Date;
  readonly differences?: ConfigDifferences | undefined;
};

/** What a configuration would do that is not in use. */
export interface ConfigCheck {
  /** Errors and warnings; with an error it would be refused. */
  readonly problems: readonly ConfigProblem[];
  /** Undefined if it would be refused. */
  readonly differences: ConfigDifferences | undefined;
}

/** Whether requests get a 503 for now. */
export interface MaintenanceState {
  readonly enabled: boolean;
  /** What the configuration says. */
  readonly configured: boolean;
  /** What an operator said; undefined where the configuration decides. */
  readonly switchedTo: boolean | undefined;
}

/** A request that nobody sends. */
export interface MadeUpRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly host?: string | undefined;
  /** The address of the connection. */
  readonly client?: string | undefined;
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
}

/** Why requests were admitted or not; with several workers, those of all of them. */
export interface RequestStories {
  /** The latest first. */
  recent(query: RecentQuery): readonly RecentDecision[] | Promise<readonly RecentDecision[]>;
  /** Undefined if nobody remembers it. */
  explainKept(id: string): Explanation | undefined | Promise<Explanation | undefined>;
  explainMadeUp(request: MadeUpRequest): Promise<Explanation>;
}

/** What operators see of a running gateway, and may do to it. */
export interface GatewayControl {
  readonly stories: RequestStories;
  readonly startedAt: Date;
  phase(): 'starting' | 'ready' | 'draining';
  live(): ConfigInUse;
  lastReload(): ReloadRecord | undefined;
  /** The latest first. */
  reloads(): readonly ReloadRecord[];
  /** What a text would change, or without one the file as it is now. Takes nothing into use. */
  checkConfig(text: string | undefined): Promise<ConfigCheck>;
  reload(): Promise<ReloadResult>;
  limiter(): Limiter;
  /** Why no decision can be made now; undefined if one can. */
  storeProblem(): Promise<string | undefined>;
  /** Every policy in use, by name. */
  policies(): ReadonlyMap<string, Policy>;
  /** Which API keys there are. */
  apiKeys(): KeyNames;
  backends(): readonly BackendHealth[];
  maintenance(): MaintenanceState;
  /** Here and in every worker; undefined: what the configuration says. */
  switchMaintenance(enabled: boolean | undefined): void;
}
