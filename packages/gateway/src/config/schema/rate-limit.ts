import { z } from 'zod';
import { external } from './external.ts';
import { duration, list, type DeepReadonly } from './fields.ts';
import type { IdentityConfig } from './identity.ts';
import { isSecretHeader, keyStrategy } from './key.ts';
import { failurePolicy, policy, type PolicyConfig } from './policy.ts';
import { keyList, name, rule } from './rule.ts';

const MAX_RULES = 1000;

export const rateLimit = z.strictObject({
  average: z.int().min(0).optional().meta({
    description:
      'Requests per `period` in the policy `default`, a token bucket for requests that no rule matches. Unset or 0: these are not limited.',
  }),
  burst: z
    .int()
    .min(1)
    .optional()
    .meta({ description: 'Requests at once in the policy `default`. Unset: `average`.' }),
  period: duration({ min: 1, max: 3650 * 86_400_000 })
    .prefault('1s')
    .meta({ description: 'The time in which `average` requests are allowed.' }),
  key_strategy: keyStrategy()
    .prefault('clientIP')
    .meta({ kind: 'key', description: 'Who is counted, unless a rule says otherwise.' }),
  failure_policy: failurePolicy().default('inMemoryFallback').meta({
    description:
      'What answers while Redis cannot: `passThrough` admits, `failClosed` refuses, `inMemoryFallback` decides locally.',
  }),
  failure_code: z
    .int()
    .min(400)
    .max(599)
    .default(429)
    .meta({ description: 'The status of requests that `failClosed` refuses.' }),
  instances: z.int().min(1).max(10_000).default(1).meta({
    description: 'How many gateways share Redis: `inMemoryFallback` gives each its share.',
  }),
  deadline: duration({ min: 1, max: 60_000 }).prefault('50ms').meta({
    description: 'How long a decision waits for Redis before the failure policy answers.',
  }),
  max_keys: z.int().min(1).max(100_000_000).default(1_000_000).meta({
    description: 'Keys that are counted separately in memory; further ones share one state per policy.',
  }),
  headers: list(z.enum(['draft', 'legacy', 'github', 'none']), 4)
    .default(['draft', 'legacy'])
    .meta({
      description:
        "What responses say about limits: `RateLimit`, `X-RateLimit-*`, GitHub's variant, or nothing.",
    }),
  head_matches_get: z
    .boolean()
    .default(true)
    .meta({ description: 'Rules for GET also match HEAD, which costs a backend about the same.' }),
  allow: keyList().prefault({}).meta({ description: 'Who passes without being counted, whatever the rule.' }),
  deny: keyList()
    .prefault({})
    .meta({ description: 'Who gets a 403, whatever the rule. Stronger than `allow`.' }),
  policies: z.record(name(), policy).default({}).meta({ description: 'Policies by name.' }),
  rules: list(rule, MAX_RULES)
    .default([])
    .meta({ description: 'Which policies apply to which requests. The first rule that matches decides.' }),
  external: external.prefault({}).meta({ description: 'Limits from a service of your own.' }),
});

export type RateLimitConfig = DeepReadonly<z.output<typeof rateLimit>>;
export type RuleConfig = RateLimitConfig['rules'][number];
export type RuleMatch = RuleConfig['match'];
export type KeyStrategy = RateLimitConfig['key_strategy'];

/** Whether keys of a strategy are secrets, which are shown as their hash. */
export function readsSecret(strategy: KeyStrategy): boolean {
  switch (strategy.type) {
    case 'header':
      return isSecretHeader(strategy.header_name.toLowerCase());
    case 'queryParameter':
      return isSecretHeader(strategy.name.toLowerCase());
    default:
      return strategy.type === 'cookie';
  }
}

/** Who is counted by the policies of a plan. */
export const PLAN_KEY: KeyStrategy = { type: 'apiKey', on_missing: 'reject' };

/**
 * The strategies that a policy is used with, by rules or by plans; those that differ only in what stands in for a
 * missing key count apart.
 */
export function strategiesOf(
  {
    rate_limit: { key_strategy: usual, rules },
    identity: { plans },
  }: { readonly rate_limit: RateLimitConfig; readonly identity: Pick<IdentityConfig, 'plans'> },
  policyName: string,
): readonly KeyStrategy[] {
  const ofRules = rules.flatMap(({ key: ruleKey = usual, policies }) =>
    policies.flatMap(({ policy: chosen, key = ruleKey }) => (chosen === policyName ? [key] : [])),
  );
  const inPlan = Object.values(plans).some(({ policies }) => policies.includes(policyName));
  const found = inPlan ? [...ofRules, PLAN_KEY] : ofRules;
  return [...new Map(found.map((key) => [JSON.stringify(key), key])).values()];
}

/** Everything that clients are counted by, the parts of composite keys instead of these. */
export function strategyParts({ key_strategy: usual, rules }: RateLimitConfig): readonly KeyStrategy[] {
  const all = [
    usual,
    ...rules.flatMap(({ key, policies }) => [key, ...policies.map((chosen) => chosen.key)]),
  ];
  return all.flatMap((key): readonly KeyStrategy[] => {
    if (key === undefined) return [];
    return key.type === 'composite' ? (key.parts ?? []) : [key];
  });
}

/** The methods that a rule matches; undefined for all. */
export function matchedMethods(
  methods: RuleMatch['method'],
  { head_matches_get: withHead }: Pick<RateLimitConfig, 'head_matches_get'>,
): RuleMatch['method'] {
  const addsHead = withHead && methods?.includes('GET') === true && !methods.includes('HEAD');
  return addsHead ? [...methods, 'HEAD'] : methods;
}

/** The name of the policy that `rate_limit.average`, `burst` and `period` make. */
export const DEFAULT_POLICY = 'default';

/** The policy of requests that no rule matches; undefined if these are not limited. */
export function defaultPolicy({ average, burst, period }: RateLimitConfig): PolicyConfig | undefined {
  if (average === undefined || average === 0) return undefined;
  return { algorithm: 'tokenBucket', average, burst, period, overrides: [] };
}
