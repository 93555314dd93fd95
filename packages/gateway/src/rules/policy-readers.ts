import type { Config } from '../config/config.ts';
import { isSecretOf, UNKNOWN_KEYS, type KeyNames } from '../config/schema/key-names.ts';
import { hashedKey } from '../config/schema/key.ts';
import {
  DEFAULT_POLICY,
  defaultPolicy,
  PLAN_KEY,
  strategiesOf,
  type KeyStrategy,
} from '../config/schema/rate-limit.ts';
import { API_KEY, foreignKey, keyReader, type KeyReader } from './key-reader.ts';

/**
 * The strategies that a policy is used with, by its name. It counts by the plain keys of the first, which is
 * `rate_limit.key_strategy` where that is among them. Keys of the others are marked, so that nobody can spend what is
 * someone else's by sending their name in another place. The order of the rules does not matter: states outlive it.
 */
export function policyReaders(
  { rate_limit: limits, server, identity }: Config,
  keys?: KeyNames,
): ReadonlyMap<string, readonly KeyReader[]> {
  const options = { ipv6Prefix: server.client_address.ipv6_prefix, keys };
  const usual = keyReader(limits.key_strategy, options);
  const byName = new Map<string, Map<string, KeyReader>>();
  const note = (name: string, used: KeyReader): void => {
    const known = byName.get(name) ?? new Map<string, KeyReader>();
    byName.set(name, known.set(used.id, used));
  };
  if (defaultPolicy(limits) !== undefined) note(DEFAULT_POLICY, usual);
  for (const { key: ruleKey = limits.key_strategy, policies } of limits.rules) {
    for (const { policy, key = ruleKey } of policies) note(policy, keyReader(key, options));
  }
  for (const { policies } of Object.values(identity.plans)) {
    for (const policy of policies) note(policy, keyReader(PLAN_KEY, options));
  }
  const rank = ({ id }: KeyReader): string => (id === usual.id ? '' : id);
  return new Map(
    [...byName].map(([name, readers]) => [
      name,
      [...readers.values()].toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1)),
    ]),
  );
}

/** How the policy reads the plain keys that it counts by; undefined if no rule uses it. */
export function homeStrategy(config: Config, policy: string): KeyStrategy | undefined {
  const { rate_limit: limits, server } = config;
  const home = policyReaders(config).get(policy)?.[0]?.id;
  const { ipv6_prefix: ipv6Prefix } = server.client_address;
  return [limits.key_strategy, ...strategiesOf(config, policy)].find(
    (strategy) => keyReader(strategy, { ipv6Prefix }).id === home,
  );
}

/** Whom a key of the configuration names for a policy, as they are counted: one for each strategy it is used with. */
export function countedKeys(
  config: Config,
  keys?: KeyNames,
): (policy: string, key: string) => readonly string[] {
  const byName = policyReaders(config, keys);
  return (policy, key) => {
    const [home, ...others] = byName.get(policy) ?? [];
    if (home === undefined) return [key];
    return [home.written(key), ...others.map((other) => foreignKey(other, other.written(key)))];
  };
}

/**
 * A key as it is counted, from how an operator calls it: like the log, or, where clients are counted by address, by any
 * of theirs. The secret of an API key is never the answer, whatever the policy counts by.
 */
export function operatorsKey(
  config: Config,
  policy: string,
  key: string,
  keys: KeyNames = UNKNOWN_KEYS,
): string {
  const { server, rate_limit: limits } = config;
  const options = { ipv6Prefix: server.client_address.ipv6_prefix, keys };
  const [home, ...others] = policyReaders(config, keys).get(policy) ?? [
    keyReader(limits.key_strategy, options),
  ];
  const called = home?.called(key) ?? key;
  if (called !== key || !isSecretOf(keys, key)) return called;
  const byName = others.find(({ id }) => id === API_KEY);
  return byName === undefined ? hashedKey(key) : foreignKey(byName, byName.called(key));
}
