import type { Config } from '../config/config.ts';
import { DEFAULT_POLICY, defaultPolicy } from '../config/default-policy.ts';
import { foreignKey, keyReader, type KeyReader } from './key-reader.ts';

/**
 * The strategies that a policy is used with, by its name. It counts by the plain keys of the first, which is
 * `rate_limit.key_strategy` where that is among them. Keys of the others are marked, so that nobody can spend what is somebody
 * else's by sending their name in another place. The order of the rules does not matter: states outlive it.
 */
export function policyReaders({
  rate_limit: limits,
  server,
}: Config): ReadonlyMap<string, readonly KeyReader[]> {
  const { ipv6_prefix: prefix } = server.client_address;
  const usual = keyReader(limits.key_strategy, prefix);
  const byName = new Map<string, Map<string, KeyReader>>();
  const note = (name: string, reader: KeyReader): void => {
    const known = byName.get(name) ?? new Map<string, KeyReader>();
    byName.set(name, known.set(reader.id, reader));
  };
  if (defaultPolicy(limits) !== undefined) note(DEFAULT_POLICY, usual);
  for (const { key: ruleKey = limits.key_strategy, policies } of limits.rules) {
    for (const { policy, key = ruleKey } of policies) note(policy, keyReader(key, prefix));
  }
  const rank = ({ id }: KeyReader): string => (id === usual.id ? '' : id);
  return new Map(
    [...byName].map(([name, readers]) => [
      name,
      [...readers.values()].toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1)),
    ]),
  );
}

/** Whom a key of the configuration names for a policy, as they are counted: one for each strategy it is used with. */
export function countedKeys(config: Config): (policy: string, key: string) => readonly string[] {
  const byName = policyReaders(config);
  return (policy, key) => {
    const [home, ...others] = byName.get(policy) ?? [];
    if (home === undefined) return [key];
    return [home.written(key), ...others.map((reader) => foreignKey(reader, reader.written(key)))];
  };
}

/** A key as it is counted, from how an operator calls it: like the log, or, where clients are counted by address, by any of theirs. */
export function operatorsKey(config: Config, policy: string, key: string): string {
  const { server, rate_limit: limits } = config;
  const home =
    policyReaders(config).get(policy)?.[0] ??
    keyReader(limits.key_strategy, server.client_address.ipv6_prefix);
  return home.called(key);
}
