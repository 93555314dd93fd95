import { LimiterError, type Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { POLICY_SETTINGS, toOptions } from '../config/schema/policy.ts';
import { shown } from '../config/shown.ts';
import { countedKeys } from '../rules/key-reader.ts';
import { AdminProblem } from './problems.ts';

/** Numbers for one key, named and written as in a configuration file. */
export type OverrideNumbers = Readonly<Record<string, unknown>>;

export interface Override {
  readonly policy: string;
  readonly key: string;
  readonly numbers: OverrideNumbers;
}

const MAX_RUNTIME_OVERRIDES = 10_000;

/** What operators gave to single keys while the gateway runs. It outlives reloads, and not the process. */
export interface Overrides {
  set(override: Override): void;
  /** Gives the key back what the configuration says; false if it had no override. */
  remove(policy: string, key: string): boolean;
  find(policy: string, key: string): OverrideNumbers | undefined;
  count(policy: string): number;
  all(): readonly Override[];
  /** After a reload: puts all overrides on the new policies; returns those that fit no more, which are dropped. */
  reapply(): readonly Override[];
}

/** What overrides are put on. */
export interface OverridableGateway {
  live(): { readonly config: Config };
  policies(): ReadonlyMap<string, Policy>;
}

export function createOverrides(gateway: OverridableGateway): Overrides {
  const byPolicy = new Map<string, Map<string, OverrideNumbers>>();
  const all = (): readonly Override[] =>
    [...byPolicy].flatMap(([policy, byKey]) =>
      [...byKey].map(([key, numbers]) => ({ policy, key, numbers })),
    );
  const total = (): number => [...byPolicy.values()].reduce((sum, { size }) => sum + size, 0);
  const drop = (policy: string, key: string): boolean => byPolicy.get(policy)?.delete(key) ?? false;

  return {
    set({ policy, key, numbers }) {
      const known = byPolicy.get(policy) ?? new Map<string, OverrideNumbers>();
      if (!known.has(key) && total() >= MAX_RUNTIME_OVERRIDES) throw tooMany();
      put(gateway, { policy, key, numbers });
      byPolicy.set(policy, known.set(key, numbers));
    },
    remove(policy, key) {
      if (!drop(policy, key)) return false;
      policyOf(gateway, policy).override(key, configuredNumbers(gateway.live().config, policy, key));
      return true;
    },
    find: (policy, key) => byPolicy.get(policy)?.get(key),
    count: (policy) => byPolicy.get(policy)?.size ?? 0,
    all,
    reapply: () =>
      all().filter((override) => {
        if (fits(gateway, override)) return false;
        return drop(override.policy, override.key);
      }),
  };
}

export function policyOf({ policies }: Pick<OverridableGateway, 'policies'>, name: string): Policy {
  const known = policies();
  const policy = known.get(name);
  if (policy !== undefined) return policy;
  throw new AdminProblem(
    'UNKNOWN_POLICY',
    `The policy is ${shown(name)}; expected one of ${namesOf([...known.keys()])}.`,
  );
}

const SHOWN_NAMES = 20;

function namesOf(names: readonly string[]): string {
  if (names.length === 0) return 'those of the configuration, which has none';
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : '';
  return names.slice(0, SHOWN_NAMES).join(', ') + more;
}

/** The library knows what fits a policy. */
function put(gateway: OverridableGateway, { policy, key, numbers }: Override): void {
  try {
    policyOf(gateway, policy).override(key, toOptions(numbers));
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
    if (failure.code === 'TOO_MANY_OVERRIDES') throw tooMany();
    throw new AdminProblem('INVALID_NUMBERS', inOurWords(failure.message));
  }
}

/** The library names its own options; numbers without unit are not taken here. */
function inOurWords(message: string): string {
  return POLICY_SETTINGS.reduce(
    (text, { option, setting }) => text.replaceAll(option, setting),
    message,
  ).replace(', or as a number of milliseconds', '');
}

function fits(gateway: OverridableGateway, override: Override): boolean {
  try {
    put(gateway, override);
    return true;
  } catch (failure) {
    if (failure instanceof AdminProblem) return false;
    throw failure;
  }
}

function tooMany(): AdminProblem {
  return new AdminProblem(
    'TOO_MANY_OVERRIDES',
    `There are ${MAX_RUNTIME_OVERRIDES} overrides, the most that are kept: remove some, or write them into the configuration.`,
  );
}

/**
 * What the file says about a key as it is counted; null if nothing. The file names secrets themselves, not their
 * hashes.
 */
function configuredNumbers(config: Config, policy: string, key: string): object | null {
  const counted = countedKeys(config);
  const written = config.rate_limit.policies[policy]?.overrides.find((override) =>
    counted(policy, override.key).includes(key),
  );
  return written === undefined ? null : toOptions(written);
}
