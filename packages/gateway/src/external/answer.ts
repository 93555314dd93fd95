import type { FailurePolicy } from 'spillgate';
import { z } from 'zod';
import { duration } from '../config/schema/fields.ts';
import { policy, POLICY_SETTINGS, type PolicyConfig, policyAmounts } from '../config/schema/policy.ts';
import { name } from '../config/schema/rule.ts';
import type { CacheFields } from './freshness.ts';
import { ServiceFailure } from './service/service.ts';
import { MESSAGES, POLICY_FIELDS } from './wire/definition.ts';
import { isRecord } from './wire/descriptors.ts';

/** One policy of an answer. Without a name it is the policy that the gateway's own average and burst make. */
export interface AnsweredPolicy {
  readonly name: string | undefined;
  readonly config: PolicyConfig;
}

/** An answer of the service that keeps the contract. */
export interface LimitsAnswer extends CacheFields {
  /** All have to be met; none is unlimited. */
  readonly policies: readonly AnsweredPolicy[];
  readonly tenantKey: string | undefined;
  readonly failurePolicy: FailurePolicy | undefined;
  readonly failureCode: number | undefined;
  readonly backendUrl: string | undefined;
  readonly cost: number | undefined;
  readonly requestTimeoutMs: number | undefined;
}

/** As many as the library decides at once. */
const MAX_POLICIES = 32;
const MAX_COST = 1_000_000;
const MAX_URL_LENGTH = 2048;
const TENANT_KEY = /^[A-Za-z0-9\-_.:]{1,256}$/;

/** A map: an object would know a failure policy called `constructor`. */
const FAILURE_POLICIES: ReadonlyMap<string, FailurePolicy> = new Map([
  ['passthrough', 'passThrough'],
  ['failclosed', 'failClosed'],
  ['inmemoryfallback', 'inMemoryFallback'],
]);

/**
 * `passthrough`, `failClosed`, `FAILURE_POLICY_IN_MEMORY_FALLBACK`: every spelling that the reference or protobuf uses.
 */
const failurePolicy = z.string().transform((text, context) => {
  const spelled = text.replace(/^FAILURE_POLICY_/, '').replaceAll('_', '');
  const found = FAILURE_POLICIES.get(spelled.toLowerCase());
  if (found !== undefined) return found;
  context.issues.push({ code: 'custom', input: text, message: 'names no failure policy' });
  return z.NEVER;
});

const answerFields = z.looseObject({
  tenant_key: z.string().regex(TENANT_KEY).optional(),
  failure_policy: failurePolicy.optional(),
  failure_code: z.int().min(400).max(599).optional(),
  backend_url: z
    .string()
    .min(1)
    .max(MAX_URL_LENGTH)
    // Nothing that two parsers could read differently: no controls, no spaces, no backslashes.
    .regex(/^[\u0021-\u005B\u005D-\u007E]+$/)
    .optional(),
  cache_max_age_seconds: z.int().min(0).optional(),
  cache_no_store: z.boolean().optional(),
  cost: z.int().min(0).max(MAX_COST).optional(),
  request_timeout: duration({ min: 1 }).optional(),
  policies: z
    .array(z.looseObject({ name: name() }))
    .min(1)
    .max(MAX_POLICIES)
    .optional(),
});

const unlimitedFields = z.strictObject({
  algorithm: z.literal('tokenBucket').optional(),
  average: z.literal(0),
  burst: z.int().min(0).optional(),
  period: z.string().optional(),
});

/** Reads an answer as a whole: one wrong field, and nothing of it is used. Throws a `ServiceFailure`. */
export function parseAnswer(value: unknown): LimitsAnswer {
  if (!isRecord(value)) throw invalid('is not an object');
  const confused = confusedName(value);
  if (confused !== undefined) throw invalid(confused);
  const fields = checked(answerFields, value);
  return {
    policies: fields.policies === undefined ? singlePolicy(value) : severalPolicies(value, fields.policies),
    tenantKey: fields.tenant_key,
    failurePolicy: fields.failure_policy,
    failureCode: fields.failure_code,
    backendUrl: fields.backend_url,
    cost: fields.cost,
    requestTimeoutMs: fields.request_timeout,
    cacheMaxAgeSeconds: fields.cache_max_age_seconds,
    cacheNoStore: fields.cache_no_store ?? false,
  };
}

function singlePolicy(value: Readonly<Record<string, unknown>>): readonly AnsweredPolicy[] {
  const numbers = numbersOf(value);
  if (numbers['average'] === 0) {
    checked(unlimitedFields, numbers);
    return [];
  }
  return [{ name: undefined, config: policyOf(numbers) }];
}

function severalPolicies(
  value: Readonly<Record<string, unknown>>,
  policies: readonly (Readonly<Record<string, unknown>> & { readonly name: string })[],
): readonly AnsweredPolicy[] {
  const beside = Object.keys(numbersOf(value))[0];
  if (beside !== undefined) throw invalid(`has both policies and ${beside}`);
  const names = new Set(policies.map(({ name: policyName }) => policyName));
  if (names.size < policies.length) throw invalid('has two policies of one name');
  return policies.map((each) => ({ name: each.name, config: policyOf(numbersOf(each)) }));
}

function policyOf(numbers: Readonly<Record<string, unknown>>): PolicyConfig {
  const config = checked(policy, { algorithm: 'tokenBucket', ...numbers });
  // A file may leave the period out; an answer that does so is more likely cut short.
  const cut = POLICY_SETTINGS.find(
    ({ setting, fileDefault, algorithms }) =>
      fileDefault !== undefined && algorithms.includes(config.algorithm) && numbers[setting] === undefined,
  );
  if (cut !== undefined) throw invalid(`has no ${cut.setting}`);
  return config;
}

function numbersOf(value: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    POLICY_FIELDS.filter((field) => value[field] !== undefined).map((field) => [field, value[field]]),
  );
}

const KNOWN_NAMES: ReadonlyMap<string, string> = new Map(
  MESSAGES.filter(({ name: message }) => message === 'GetLimitsResponse')
    .flatMap(({ fields }) => fields)
    .map(({ name: field }) => [plain(field), field]),
);

/** Fields of others are left alone, but `tenantKey` for `tenant_key` would be ignored without a word. */
function confusedName(value: Readonly<Record<string, unknown>>): string | undefined {
  for (const given of Object.keys(value)) {
    const known = KNOWN_NAMES.get(plain(given));
    if (known !== undefined && known !== given)
      return `has a field ${given.slice(0, 64)}, which is spelled ${known}`;
  }
  return undefined;
}

function plain(field: string): string {
  return field.replaceAll(/[_-]/g, '').toLowerCase();
}

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw invalid(`is wrong at ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`);
}

function invalid(problem: string): ServiceFailure {
  return new ServiceFailure('invalid', `the answer ${problem}`);
}

type LimitsChange = 'same' | 'lower' | 'higher' | 'other';

const MIN_HOLD_MS = 10_000;
const MAX_HOLD_MS = 300_000;
const LIFETIMES_HELD = 2;

/** How a new answer's limits compare. `lower`: at least one number got tighter, so waiting would admit too much. */
export function compareLimits(before: LimitsAnswer, after: LimitsAnswer): LimitsChange {
  const one = before.policies.map(comparable);
  const other = after.policies.map(comparable);
  const isLower = other.some((now) => {
    const was = one.find(({ id }) => id === now.id);
    return was === undefined || now.amounts.some((amount, at) => amount < (was.amounts[at] ?? 0));
  });
  if (isLower) return 'lower';
  if (JSON.stringify(one) !== JSON.stringify(other)) return 'higher';
  return meaning(before) === meaning(after) ? 'same' : 'other';
}

/**
 * Whether a raise has to wait: limits that were lowered a moment ago and go up again are a service whose copies
 * disagree, and following each of them would give a tenant a different limit with every answer.
 */
export function holdsRaise(loweredAtMs: number, freshMs: number, nowMs: number): boolean {
  return nowMs - loweredAtMs < Math.min(MAX_HOLD_MS, Math.max(MIN_HOLD_MS, freshMs * LIFETIMES_HELD));
}

/** Everything that a larger number of makes looser. */
function comparable(answered: AnsweredPolicy): { readonly id: string; readonly amounts: readonly number[] } {
  const { config } = answered;
  return { id: `${answered.name ?? ''}/${config.algorithm}`, amounts: policyAmounts(config) };
}

function meaning(answer: LimitsAnswer): string {
  const { tenantKey, failureCode, backendUrl, requestTimeoutMs } = answer;
  return JSON.stringify([
    tenantKey,
    answer.failurePolicy,
    failureCode,
    backendUrl,
    answer.cost,
    requestTimeoutMs,
  ]);
}
