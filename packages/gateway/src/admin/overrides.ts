import { LimiterError, type Policy } from 'spillgate';
import type { KeySetting } from 'spillgate/internal';
import { POLICY_SETTINGS, toOptions, toSettings } from '../config/schema/policy.ts';
import { inSettings } from '../config/problem.ts';
import { shown } from '../config/shown.ts';
import type { AdminParts } from './endpoint.ts';
import { AdminProblem } from './problems.ts';

/** Numbers for one key, named and written as in a configuration file. */
export type OverrideNumbers = Readonly<Record<string, unknown>>;

export function policyOf(
  { policies }: { readonly policies: () => ReadonlyMap<string, Policy> },
  name: string,
): Policy {
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

/** The numbers as the library takes them. Throws what it says against them: it alone knows what fits a policy. */
export function acceptNumbers(policy: Policy, numbers: OverrideNumbers): KeySetting['numbers'] {
  const options = Object.fromEntries(
    Object.entries(toOptions(numbers)).flatMap(([name, value]) =>
      typeof value === 'number' || typeof value === 'string' ? [[name, value] as const] : [],
    ),
  );
  try {
    policy.with(options);
    return options;
  } catch (failure) {
    if (!(failure instanceof LimiterError)) throw failure;
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

/** Keeps a setting for all who share the store. */
export async function keepSetting({ fleet }: Pick<AdminParts, 'fleet'>, setting: KeySetting): Promise<void> {
  await orProblem(async () => fleet.set(setting));
}

/** Idempotent. */
export async function dropSetting(
  { fleet }: Pick<AdminParts, 'fleet'>,
  id: Pick<KeySetting, 'kind' | 'policy' | 'key'>,
): Promise<void> {
  await orProblem(async () => fleet.remove(id));
}

async function orProblem(change: () => Promise<unknown>): Promise<void> {
  try {
    await change();
  } catch (failure) {
    if (failure instanceof LimiterError && failure.code === 'TOO_MANY_OVERRIDES') {
      throw new AdminProblem('TOO_MANY_OVERRIDES', failure.message);
    }
    throw notKept(failure);
  }
}

function notKept(failure: unknown): AdminProblem {
  const why = failure instanceof LimiterError ? inSettings(failure.message) : reasonOf(failure);
  return new AdminProblem(
    'STORE_UNAVAILABLE',
    `The change could not be kept: ${why} Nothing is certain about it: try again.`,
  );
}

function reasonOf(failure: unknown): string {
  return failure instanceof Error && 'code' in failure ? `${String(failure.code)}.` : 'the store failed.';
}

/** A setting as the admin API shows it. */
export function shownSetting({ policy, key, numbers, setAt, expiresAt, by, note }: KeySetting): object {
  const about = { policy, key, setAt, expiresAt, by, note };
  return numbers === undefined ? about : { ...about, numbers: toSettings(numbers) };
}
