import type { Limiter, Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import type { Origin, ConfigProblem } from '../config/problem.ts';
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

/** What operators see of a running gateway, and may do to it. */
export interface GatewayControl {
  readonly startedAt: Date;
  phase(): 'starting' | 'ready' | 'draining';
  live(): ConfigInUse;
  lastReload(): (ReloadResult & { readonly at: Date }) | undefined;
  reload(): Promise<ReloadResult>;
  limiter(): Limiter;
  /** Why no decision can be made now; undefined if one can. */
  storeProblem(): Promise<string | undefined>;
  /** Every policy in use, by name. */
  policies(): ReadonlyMap<string, Policy>;
  backends(): readonly BackendHealth[];
}
