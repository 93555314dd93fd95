export type { Config } from './config/config.ts';
export { loadConfig, type ConfigSource, type LoadedConfig } from './config/load-config.ts';
export { formatProblem, type Origin, type ConfigProblem } from './config/problem.ts';
export { jsonSchema } from './config/json-schema.ts';
