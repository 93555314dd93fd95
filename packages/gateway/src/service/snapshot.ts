import type { Limit, Limiter, Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { policyReaders } from '../rules/key-reader.ts';
import type { RuleEngine } from '../rules/rule-outcome.ts';

/** What belongs to one configuration. A call keeps the one it started with. */
export interface ServiceSnapshot {
  readonly config: Config;
  readonly limiter: Limiter;
  /** Every policy in use, by name. */
  readonly policies: ReadonlyMap<string, Policy>;
  readonly ruleEngine: RuleEngine;
}

/** Binds a policy to a key as applications and operators know it; undefined if there is no such policy. */
export type BindLimit = (policy: string, key: string) => Limit | undefined;

const known = new WeakMap<ServiceSnapshot, BindLimit>();

/** The key is what the rules of the gateway would read: an address stands for its network, a secret for its hash. */
export function limitBinder(snapshot: ServiceSnapshot): BindLimit {
  const found = known.get(snapshot);
  if (found !== undefined) return found;
  const made = makeBinder(snapshot);
  known.set(snapshot, made);
  return made;
}

function makeBinder({ config, policies }: ServiceSnapshot): BindLimit {
  const readers = policyReaders(config);
  const bound = new Map(
    [...policies].map(([name, policy]) => {
      // A policy that no rule uses counts the key as it is given.
      const { written } = readers.get(name)?.[0] ?? AS_GIVEN;
      return [name, { policy, written }] as const;
    }),
  );
  return (name, key) => {
    const found = bound.get(name);
    return found?.policy.for(found.written(key));
  };
}

const AS_GIVEN = { written: (key: string): string => key };
