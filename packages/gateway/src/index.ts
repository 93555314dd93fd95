export type { Config } from './config/config.ts';
export { loadConfig, type ConfigSource, type LoadedConfig } from './config/load-config.ts';
export { formatProblem, type Origin, type ConfigProblem } from './config/problem.ts';
export { jsonSchema } from './config/settings.ts';
export type {
  ActiveKeys,
  CheckedConfigText,
  ConfigShown,
  FleetInstances,
  KeyState,
  KeyStates,
  PolicyList,
} from './admin/schemas.ts';
export type { SessionState } from './admin/dashboard-endpoints.ts';
export type { RecentDecisions } from './admin/explain-endpoints.ts';
export type { Explanation } from './rules/explain/explanation.ts';
export type { LiveSample } from './admin/live/live-sample.ts';
