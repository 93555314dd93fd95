// Policies as a configuration file writes them. Which there are and what they take is the library's list; a new
// algorithm needs nothing here.
import {
  LimiterError,
  policyKinds,
  type AlgorithmName,
  type BlockOptions,
  type FailurePolicy,
  type LeaseMode,
  type Policy,
  type PolicyKind,
  type PolicyOption,
} from 'spillgate';
import { z } from 'zod';
import { duration, list, plainText } from './fields.ts';

/** Ten years, as in the library. */
const MAX_MS = 3650 * 86_400_000;
/** A year, as in the library. */
const MAX_BLOCK_MS = 365 * 86_400_000;
const MAX_CONFIGURED_OVERRIDES = 10_000;
const FAILURE_POLICIES = ['passThrough', 'failClosed', 'inMemoryFallback'] as const;
const DEFAULT_ALGORITHM: AlgorithmName = 'tokenBucket';
/** A slot is given back, not settled: it cannot turn out to cost more. */
const WITHOUT_DEBT: readonly AlgorithmName[] = ['concurrency'];

const KINDS: ReadonlyMap<string, PolicyKind> = new Map(policyKinds().map((kind) => [kind.algorithm, kind]));

export const ALGORITHM_NAMES: readonly AlgorithmName[] = [...KINDS.values()].map(
  ({ algorithm }) => algorithm,
);

/** An option of some algorithms, as a file and the admin API write it. */
export interface PolicySetting extends Pick<PolicyOption, 'kind' | 'choices' | 'fileDefault'> {
  /** `max_delay` */
  readonly setting: string;
  /** `maxDelay`, as the library has it. */
  readonly option: string;
  readonly algorithms: readonly AlgorithmName[];
}

/** The settings of all algorithms, each once. */
export const POLICY_SETTINGS: readonly PolicySetting[] = allSettings();

const SETTINGS_BY_NAME = new Map(POLICY_SETTINGS.map((each) => [each.setting, each]));
const SETTINGS_BY_OPTION = new Map(POLICY_SETTINGS.map((each) => [each.option, each]));

/** One policy of a file. Besides what every policy has, it holds the settings of its algorithm. */
export interface PolicyConfig {
  readonly algorithm: AlgorithmName;
  readonly failure_policy?: FailurePolicy | undefined;
  readonly leases?: LeaseMode | undefined;
  readonly block?: BlockOptions | undefined;
  readonly max_debt?: number | undefined;
  readonly overrides: readonly PolicyOverrideConfig[];
  readonly [setting: string]: unknown;
}

/** Other numbers for one key; what is left out stays. */
interface PolicyOverrideConfig {
  readonly key: string;
  readonly [setting: string]: unknown;
}

export function failurePolicy() {
  return z.enum(FAILURE_POLICIES);
}

export const policy: z.ZodType<PolicyConfig> = z.discriminatedUnion('algorithm', variants());

/** What the library says against a policy's numbers together, or nothing. It is the only one who knows. */
export function policyComplaint(name: string, config: PolicyConfig): string | undefined {
  try {
    toPolicy(name, config);
    return undefined;
  } catch (failure) {
    if (failure instanceof LimiterError) return failure.message.replace(/\.$/, '');
    throw failure;
  }
}

/** The library's policy, with the overrides of the configuration. */
export function toPolicy(name: string, config: PolicyConfig): Policy<Readonly<Record<string, unknown>>> {
  const { failure_policy: failure, leases: leased, block, max_debt: maxDebt, overrides } = config;
  const traits = {
    name,
    failurePolicy: failure,
    block,
    ...(leased === undefined ? {} : { leases: leased }),
    ...(maxDebt === undefined ? {} : { maxDebt }),
  };
  const made = kindOf(config).define({ ...traits, ...toOptions(config) });
  for (const override of overrides) made.override(override.key, toOptions(override));
  return made;
}

/** What makes a policy looser when it grows. */
export function policyAmounts(config: PolicyConfig): readonly number[] {
  return kindOf(config).amounts(toOptions(config));
}

/** The settings of algorithms among these, by the names of the library's options. */
export function toOptions(settings: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return renamed(settings, (name) => SETTINGS_BY_NAME.get(name)?.option);
}

/** The other way round. */
export function toSettings(options: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return renamed(options, (name) => SETTINGS_BY_OPTION.get(name)?.setting);
}

function renamed(
  values: Readonly<Record<string, unknown>>,
  nameOf: (name: string) => string | undefined,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => {
      const known = nameOf(name);
      return known === undefined ? [] : [[known, value] as const];
    }),
  );
}

function kindOf({ algorithm }: PolicyConfig): PolicyKind {
  const kind = KINDS.get(algorithm);
  if (kind === undefined) throw new RangeError(`there is no algorithm ${algorithm}`);
  return kind;
}

function allSettings(): readonly PolicySetting[] {
  const settings = new Map<string, PolicySetting>();
  for (const { algorithm, options } of KINDS.values()) {
    for (const [option, { kind, choices, fileDefault }] of Object.entries(options)) {
      const algorithms = [...(settings.get(option)?.algorithms ?? []), algorithm];
      const setting = settingName(option);
      settings.set(option, {
        setting,
        option,
        kind,
        algorithms,
        ...(choices === undefined ? {} : { choices }),
        ...(fileDefault === undefined ? {} : { fileDefault }),
      });
    }
  }
  return [...settings.values()];
}

/** `maxDelay` is `max_delay` in a file. */
function settingName(option: string): string {
  return option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Whether policies of this algorithm take `leases`. */
export function canLease(algorithm: AlgorithmName): boolean {
  return KINDS.get(algorithm)?.hasLeases === true;
}

function leasesFor(hasLeases: boolean): Readonly<Record<string, z.ZodType>> {
  if (!hasLeases) return {};
  const leases = z
    .union([z.boolean(), z.literal('auto')])
    .optional()
    .meta({
      description:
        'Lets a gateway take some tokens of a busy key in advance and decide without asking Redis. Admits nothing extra. `auto`: only while at least half of the limit is left. Unset: `false`.',
    });
  return { leases };
}

function debtFor(algorithm: AlgorithmName): Readonly<Record<string, z.ZodType>> {
  if (WITHOUT_DEBT.includes(algorithm)) return {};
  const max_debt = z.int().min(0).optional().meta({
    description:
      'The most that a request may be charged above the limit when `settle` finds that it cost more than was reserved. Unset: as much as the limit.',
  });
  return { max_debt };
}

function blockFor() {
  return z
    .strictObject({
      after: z.int().min(1).max(1000).meta({ description: 'The denial that begins the block.' }),
      within: duration({ min: 1, max: MAX_BLOCK_MS }).meta({ description: 'For how long a denial counts.' }),
      for: duration({ min: 1, max: MAX_BLOCK_MS }).meta({
        description: 'How long the block lasts. Denials during a block do not extend it.',
      }),
    })
    .optional()
    .meta({
      description:
        'Blocks who is denied too often: all requests of the key are denied for a while. Unset: nobody is blocked.',
    });
}

type Variant = ReturnType<typeof variantOf>;

function variants(): [Variant, ...Variant[]] {
  const [first, ...others] = [...KINDS.values()].map(variantOf);
  if (first === undefined) throw new RangeError('the library has no algorithms');
  return [first, ...others];
}

function variantOf({ algorithm, options, hasLeases }: PolicyKind) {
  const named = z.literal(algorithm);
  return z.strictObject({
    algorithm:
      algorithm === DEFAULT_ALGORITHM
        ? named.default(algorithm).meta({ description: 'How it is counted.' })
        : named,
    ...fieldsFor(options, fieldFor),
    ...leasesFor(hasLeases),
    ...debtFor(algorithm),
    block: blockFor(),
    overrides: overridesOf(options),
    failure_policy: failurePolicy().optional().meta({
      description: 'What answers for this policy while Redis cannot. Unset: `rate_limit.failure_policy`.',
    }),
  });
}

function overridesOf(options: PolicyKind['options']) {
  const fieldForKey = (option: PolicyOption): z.ZodType =>
    valueFor(option).exactOptional().meta({ description: 'For this key.' });
  return list(
    z.strictObject({
      key: plainText().meta({ description: 'The key that gets these numbers.' }),
      ...fieldsFor(options, fieldForKey),
    }),
    MAX_CONFIGURED_OVERRIDES,
  )
    .default([])
    .meta({ description: 'Other numbers for single keys.' });
}

function fieldsFor(
  options: PolicyKind['options'],
  field: (option: PolicyOption) => z.ZodType,
): Readonly<Record<string, z.ZodType>> {
  return Object.fromEntries(
    Object.entries(options).map(([name, option]) => [settingName(name), field(option)]),
  );
}

function fieldFor(option: PolicyOption): z.ZodType {
  const { description, fileDefault, optional } = option;
  const value = valueFor(option);
  if (fileDefault !== undefined) return value.prefault(fileDefault).meta({ description });
  return optional === true ? value.optional().meta({ description }) : value.meta({ description });
}

function valueFor({
  kind,
  leastUs,
  choices = [],
}: PolicyOption): z.ZodType<number | string, string | number> {
  if (kind === 'count') return z.int().min(1);
  if (kind === 'choice') return z.enum(choices);
  if (kind === 'timeZone') return plainText();
  return duration({ min: leastUs === 0 ? 0 : 1, max: MAX_MS });
}
