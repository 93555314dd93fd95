import type { Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { DEFAULT_POLICY, defaultPolicy } from '../config/default-policy.ts';
import { toPolicy, type PolicyConfig } from '../config/schema/policy.ts';
import { homeReaders } from './compiled-rule.ts';

/** Every policy of a configuration by its name, `default` included, with its overrides. */
export function createPolicies({ rate_limit: limits }: Config): ReadonlyMap<string, Policy> {
  const homes = homeReaders(limits);
  const byDefault = defaultPolicy(limits);
  const configs: readonly (readonly [string, PolicyConfig])[] = [
    ...(byDefault === undefined ? [] : [[DEFAULT_POLICY, byDefault] as const]),
    ...Object.entries(limits.policies),
  ];
  return new Map(
    configs.map(([name, config]): [string, Policy] => {
      const written = homes.get(name)?.written ?? ((key: string) => key);
      return [name, toPolicy(name, withKeys(config, written))];
    }),
  );
}

/** The same policy; its overrides name keys as they are counted. */
function withKeys(config: PolicyConfig, written: (key: string) => string): PolicyConfig {
  const renamed = <Override extends { readonly key: string }>(override: Override): Override => ({
    ...override,
    key: written(override.key),
  });
  switch (config.algorithm) {
    case 'tokenBucket':
      return { ...config, overrides: config.overrides.map(renamed) };
    case 'leakyBucket':
      return { ...config, overrides: config.overrides.map(renamed) };
    case 'fixedWindow':
      return { ...config, overrides: config.overrides.map(renamed) };
    default:
      return { ...config, overrides: config.overrides.map(renamed) };
  }
}
