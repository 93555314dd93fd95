import type { FailurePolicy, Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import type { CostConfig, SettleConfig } from '../config/schema/cost.ts';
import type { KeyNames } from '../config/schema/key-names.ts';
import { toOptions, toPolicy, type PolicyConfig } from '../config/schema/policy.ts';
import {
  DEFAULT_POLICY,
  defaultPolicy,
  matchedMethods,
  PLAN_KEY,
  type KeyStrategy,
  type RateLimitConfig,
  type RuleConfig,
} from '../config/schema/rate-limit.ts';
import type { BodyReading } from '../cost/body-fields.ts';
import type { ExternalLimits } from '../external/limits-source.ts';
import { accessList, type AccessList } from './access-list.ts';
import { foreignKey, itself, keyReader, ownKey, type KeyReader } from './key-reader.ts';
import { countedKeys, policyReaders } from './policy-readers.ts';
import { costReader, type CostReader } from './request-cost.ts';

/** A policy of a rule, and whom it counts. */
export interface Binding {
  readonly policy: Policy;
  /** The place of its key among those of the rule. */
  readonly keyAt: number;
  /** The key as this policy counts it. */
  readonly counted: (key: string) => string;
  /** The rule gives it a key of its own: then limits of the external service do not replace it. */
  readonly hasOwnKey: boolean;
  /** What a request spends here; undefined: what it costs by the rule. */
  readonly ownCost: CostReader | undefined;
}

/** A rule with everything worked out that does not depend on the request. */
export interface CompiledRule {
  /** Undefined for requests that no rule matches. */
  readonly name: string | undefined;
  /** The policies that hold. */
  readonly bindings: readonly Binding[];
  /** What holds instead for API keys, by the name of their plan; undefined where plans change nothing. */
  readonly ofPlans: ReadonlyMap<string, readonly Binding[]> | undefined;
  /** Those in shadow mode, next to the ones that hold. */
  readonly trials: readonly Binding[];
  /** What is read from a request; the first is the key of the rule. */
  readonly readers: readonly KeyReader[];
  /** What a request costs; undefined if that is 1. */
  readonly cost: CostReader | undefined;
  /** How the cost is corrected when the request has ended; undefined if it is final. */
  readonly settle: SettleConfig | undefined;
  /** What of a body has to be known before anything is decided; undefined if nothing. */
  readonly reading: BodyReading | undefined;
  readonly shadow: boolean;
  /** One of its policies refuses while the store cannot decide: no service may make that laxer. */
  readonly failsClosed: boolean;
  /** Whether the external service is asked: not for rules that limit nothing. */
  readonly external: boolean;
  /** Whom a policy of the external service counts: the tenant that it names, else the key of the rule. */
  readonly externallyCounted: (policy: string, key: string, tenantKey: string | undefined) => string;
  readonly deny: readonly AccessList[];
  /** Of the rule alone: in shadow mode they refuse nothing. */
  readonly ruleDeny: readonly AccessList[];
  readonly allow: readonly AccessList[];
}

/** The service never loosens the configuration, nor changes the failure policy of policies that are not its own. */
export function failurePolicyOf(
  { failsClosed: isClosed, bindings }: CompiledRule,
  { failurePolicy }: ExternalLimits,
): FailurePolicy | undefined {
  if (isClosed) return 'failClosed';
  return failurePolicy === 'passThrough' && bindings.some(({ hasOwnKey }) => hasOwnKey)
    ? undefined
    : failurePolicy;
}

interface CompiledRules {
  readonly rules: readonly { readonly match: RuleConfig['match']; readonly rule: CompiledRule }[];
  /** For requests that no rule matches. */
  readonly otherwise: CompiledRule;
}

export function compileRules(
  config: Config,
  policies: ReadonlyMap<string, Policy>,
  keys?: KeyNames,
): CompiledRules {
  const { rate_limit: limits, server, identity } = config;
  const homes = new Map([...policyReaders(config)].map(([name, [home]]) => [name, home?.id ?? '']));
  const { ipv6_prefix: ipv6Prefix } = server.client_address;
  const compile = (rule: RuleSource, lenient?: boolean): CompiledRule => {
    const readerOf = (key: KeyStrategy): KeyReader => keyReader(key, { ipv6Prefix, lenient, keys });
    return compileRule(rule, { limits, policies, homes, readerOf, plans: identity.plans });
  };
  const byDefault = defaultPolicy(limits) === undefined ? [] : [{ policy: DEFAULT_POLICY, shadow: false }];
  return {
    rules: limits.rules.map((rule) => ({
      match: { ...rule.match, method: matchedMethods(rule.match.method, limits) },
      rule: compile(
        { ...rule, external: limits.external.enabled && rule.policies.length > 0 },
        rule.match.lenient_path,
      ),
    })),
    otherwise: compile({
      name: undefined,
      policies: byDefault,
      cost: 1,
      settle: undefined,
      shadow: false,
      allow: NOBODY,
      deny: NOBODY,
      external: limits.external.enabled,
    }),
  };
}

const NOBODY: RuleConfig['allow'] = { cidrs: [], keys: [] };

type RuleSource = Pick<RuleConfig, 'policies' | 'key' | 'cost' | 'settle' | 'shadow' | 'allow' | 'deny'> & {
  readonly name: string | undefined;
  readonly external: boolean;
};

interface RuleCompilation {
  readonly limits: RateLimitConfig;
  readonly policies: ReadonlyMap<string, Policy>;
  /** The strategy by whose plain keys a policy counts, by its name. */
  readonly homes: ReadonlyMap<string, string>;
  readonly readerOf: (key: KeyStrategy) => KeyReader;
  readonly plans: Config['identity']['plans'];
}

function compileRule(rule: RuleSource, compilation: RuleCompilation): CompiledRule {
  const { limits, policies, homes, readerOf } = compilation;
  const usual = readerOf(limits.key_strategy);
  const common = rule.key === undefined ? usual : readerOf(rule.key);
  const readers = [common];
  const bindings: Binding[] = [];
  const trials: Binding[] = [];
  const seen = new Set<string>();
  for (const { policy: name, key, shadow, cost } of rule.policies) {
    const reader = key === undefined ? common : readerOf(key);
    // One policy for one key counts once, however often it is named.
    if (seen.has(`${name} ${reader.id}`)) continue;
    seen.add(`${name} ${reader.id}`);
    (shadow ? trials : bindings).push({
      policy: policyNamed(name, policies),
      keyAt: placeOf(reader, readers),
      counted: homes.get(name) === reader.id ? itself : (text) => foreignKey(reader, text),
      hasOwnKey: key !== undefined,
      ownCost: cost === undefined ? undefined : costReader(cost),
    });
  }
  // The common lists are about the common key, also where a rule counts by others.
  const listsKeys = limits.deny.keys.length > 0 || limits.allow.keys.length > 0;
  if (listsKeys && !readers.some(({ id }) => id === usual.id)) readers.push(usual);
  return {
    name: rule.name,
    bindings,
    ofPlans: bindingsOfPlans(rule, { bindings, readers }, compilation),
    trials,
    readers,
    cost: rule.cost === 1 ? undefined : costReader(rule.cost),
    settle: settlementOf(rule),
    reading: readingFor(rule, listsKeys, limits),
    shadow: rule.shadow,
    failsClosed: isFailClosed(bindings, limits),
    external: rule.external,
    externallyCounted: externalKeys(common, { usual: usual.id, homes }),
    deny: listOf(limits.deny, readers),
    ruleDeny: listOf(rule.deny, readers),
    // Only by the key that the list is about: otherwise the same text in another place would pass uncounted.
    allow: [
      ...listOf(limits.allow, readers, ({ id }) => id === usual.id),
      ...listOf(rule.allow, readers, ({ id }) => id === common.id),
    ],
  };
}

/** What has to be known of bodies. A rule in shadow mode refuses nobody, nor does a policy. */
function readingFor(
  rule: RuleSource,
  listsKeys: boolean,
  { key_strategy: usual }: RateLimitConfig,
): BodyReading | undefined {
  const { key: common = usual, policies, shadow } = rule;
  const keysOf = (isTrial: boolean): readonly KeyStrategy[] =>
    policies.flatMap(({ key = common, shadow: tried }) => (tried === isTrial ? [key] : []));
  const listed = listsKeys ? [usual] : [];
  const refusing = [...keysOf(false), ...(rule.external ? [common] : [])];
  return bodyReading({
    binding: shadow ? listed : [...listed, ...refusing],
    tried: [common, ...refusing, ...keysOf(true)],
    costs: [rule.cost, ...policies.map(({ cost }) => cost)],
  });
}

/** An estimate looks at so much of a body. */
const ESTIMATED_BYTES = 65_536;

/** What of a rule says something about bodies. */
interface BodyUses {
  /** How those are counted whom the rule may refuse. */
  readonly binding: readonly KeyStrategy[];
  /** The same for what refuses nobody. */
  readonly tried: readonly KeyStrategy[];
  readonly costs: readonly (CostConfig | undefined)[];
}

/** What has to be read of bodies before such a rule can decide; undefined if nothing. */
function bodyReading({ binding, tried, costs }: BodyUses): BodyReading | undefined {
  const [refusing, others] = [fieldsOf(binding), fieldsOf(tried)];
  const fields = [...refusing, ...others];
  const estimates = costs.some((cost) => typeof cost === 'object' && cost.type === 'llmTokens');
  if (fields.length === 0 && !estimates) return undefined;
  return {
    names: [...new Set(fields.map(({ name }) => name))],
    binding: new Set(refusing.map(({ name }) => name)),
    maxBytes: Math.max(estimates ? ESTIMATED_BYTES : 0, ...fields.map(({ max_bytes: bytes }) => bytes)),
  };
}

function fieldsOf(keys: readonly KeyStrategy[]) {
  const parts = keys.flatMap((key): readonly KeyStrategy[] =>
    key.type === 'composite' ? (key.parts ?? []) : [key],
  );
  return parts.filter((part) => part.type === 'bodyField');
}

/** A body whose length is not known is charged by its bytes when they have passed. */
function settlementOf({ cost, settle }: RuleSource): SettleConfig | undefined {
  const countsBytes = (config: CostConfig): boolean =>
    typeof config === 'object' && config.type === 'requestBytes';
  return settle ?? (countsBytes(cost) ? { type: 'requestBytes', within: BODY_WITHIN_MS } : undefined);
}

const BODY_WITHIN_MS = 600_000;

/**
 * The policies of a plan hold instead of those of a rule without a key of their own. A rule that limits nothing limits
 * nobody.
 */
function bindingsOfPlans(
  rule: RuleSource,
  { bindings, readers }: { readonly bindings: readonly Binding[]; readonly readers: KeyReader[] },
  { plans, policies, homes, readerOf }: RuleCompilation,
): CompiledRule['ofPlans'] {
  const limitsNothing = rule.name !== undefined && rule.policies.length === 0;
  if (limitsNothing || Object.keys(plans).length === 0) return undefined;
  const byName = readerOf(PLAN_KEY);
  const keyAt = placeOf(byName, readers);
  const kept = bindings.filter(({ hasOwnKey }) => hasOwnKey);
  return new Map(
    Object.entries(plans).map(([name, plan]) => [
      name,
      [
        ...plan.policies.map((policy): Binding => ({
          policy: policyNamed(policy, policies),
          keyAt,
          counted: homes.get(policy) === byName.id ? itself : (text) => foreignKey(byName, text),
          hasOwnKey: false,
          ownCost: undefined,
        })),
        ...kept,
      ],
    ]),
  );
}

/** Keeps tenants apart from keys, for policies whose plain keys belong to others. */
const TENANT = { id: 'tenant' };

/**
 * A service may name a policy as the configuration does: then it counts in the same states, and nobody's key is
 * another's.
 */
function externalKeys(
  common: KeyReader,
  { usual, homes }: { readonly usual: string; readonly homes: RuleCompilation['homes'] },
): CompiledRule['externallyCounted'] {
  return (policy, key, tenantKey) => {
    const home = homes.get(policy) ?? usual;
    if (tenantKey !== undefined) return home === usual ? ownKey(tenantKey) : foreignKey(TENANT, tenantKey);
    return home === common.id ? key : foreignKey(common, key);
  };
}

function isFailClosed(bindings: readonly Binding[], { failure_policy: byDefault }: RateLimitConfig): boolean {
  if (bindings.length === 0) return byDefault === 'failClosed';
  return bindings.some(({ policy }) => (policy.failurePolicy ?? byDefault) === 'failClosed');
}

function policyNamed(name: string, policies: ReadonlyMap<string, Policy>): Policy {
  const policy = policies.get(name);
  if (policy === undefined) throw new Error(`the policy ${name} is in no configuration`);
  return policy;
}

/** Strategies may differ in what stands in for a missing key, so the same reader is meant, not the same id. */
function placeOf(reader: KeyReader, readers: KeyReader[]): number {
  const known = readers.indexOf(reader);
  return known === -1 ? readers.push(reader) - 1 : known;
}

/** A list as the readers of a rule read its keys, or those of them that it is about. */
function listOf(
  list: RuleConfig['allow'],
  readers: readonly KeyReader[],
  isMeant: (reader: KeyReader) => boolean = () => true,
): readonly AccessList[] {
  const found = accessList(list, readers, isMeant);
  return found === undefined ? [] : [found];
}

/** Every policy of a configuration by its name, `default` included, with its overrides. */
export function createPolicies(config: Config, keys?: KeyNames): ReadonlyMap<string, Policy> {
  const { rate_limit: limits } = config;
  const counted = countedKeys(config, keys);
  // Now, with the same keys: what operators are shown is what holds.
  configuredOverrides(config, keys);
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

/** What the configuration gives to single keys, as they are counted, by policy: options of the library. */
export function configuredOverrides(config: Config, keys?: KeyNames): ConfiguredOverrides {
  const known = overridesOf.get(config);
  if (known !== undefined) return known;
  const counted = countedKeys(config, keys);
  const made = new Map(
    Object.entries(config.rate_limit.policies).map(([name, { overrides }]) => {
      const byKey = overrides.flatMap((override) =>
        counted(name, override.key).map((key) => [key, toOptions(override)] as const),
      );
      return [name, new Map(byKey)] as const;
    }),
  );
  overridesOf.set(config, made);
  return made;
}

type ConfiguredOverrides = ReadonlyMap<string, ReadonlyMap<string, Readonly<Record<string, unknown>>>>;

const overridesOf = new WeakMap<Config, ConfiguredOverrides>();

/** The same policy; its overrides name keys as they are counted. */
function withKeys(config: PolicyConfig, counted: (key: string) => readonly string[]): PolicyConfig {
  const overrides = config.overrides.flatMap((override) =>
    counted(override.key).map((key) => ({ ...override, key })),
  );
  return { ...config, overrides };
}
