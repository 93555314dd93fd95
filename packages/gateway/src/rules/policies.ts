import type { Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { DEFAULT_POLICY, defaultPolicy } from '../config/schema/rate-limit.ts';
import { toPolicy, type PolicyConfig } from '../config/schema/policy.ts';
import { countedKeys } from './key-reader.ts';

/** Every policy of a configuration by its name, `default` included, with its overrides. */
export function createPolicies(config: Config): ReadonlyMap<string, Policy> {
  const { rate_limit: limits } = config;
  const counted = countedKeys(config);
  const byDefault = defaultPolicy(limits);
  const configs: readonly (readonly [string, PolicyConfig])[] = [
    ...(byDefault === undefined ? [] : [[DEFAULT_POLICY, byDefault] as const]),
    ...Object.entries(limits.policies),
  ];
  return new Map(
    configs.map(([name, numbers]): [string, Policy] => [
      name,
      toPolicy(
        name,
        withKeys(numbers, (key) => counted(name, key)),
      ),
    ]),
  );
}

/** The same policy; its overrides name keys as they are counted. */
function withKeys(config: PolicyConfig, counted: (key: string) => readonly string[]): PolicyConfig {
  const overrides = config.overrides.flatMap((override) =>
    counted(override.key).map((key) => ({ ...override, key })),
  );
  return { ...config, overrides };
}
