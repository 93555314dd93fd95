// A request with the rule that matched it: what the rule asks of the limiter, and what is told of the outcome.
import type { Decision, Limit, Policy } from 'spillgate';
import type { SettleConfig } from '../config/schema/cost.ts';
import type { Identity } from '../identity/identity.ts';
import type { Binding, CompiledRule } from './compiled-rule.ts';
import { foreignKey, ownKey, standIn, type KeyProblem, type PathParameters } from './key-reader.ts';
import type { RequestFacts } from './request-facts.ts';
import type { DelayListener, OutcomeDetail } from './rule-outcome.ts';

export interface MatchedRequest {
  readonly request: RequestFacts;
  readonly rule: CompiledRule;
  readonly parameters: PathParameters;
  /** As the readers of the rule read them. */
  readonly keys: readonly (string | KeyProblem)[];
  readonly waiter: DelayListener | undefined;
}

/** The policies that hold for whoever is asking. */
export function bindingsFor(
  { bindings, ofPlans }: CompiledRule,
  identity: Identity | undefined,
): readonly Binding[] {
  const plan = identity?.apiKey?.plan;
  return (plan === undefined ? undefined : ofPlans?.get(plan)) ?? bindings;
}

/** As the readers of the rule read them: nearly every rule has one. */
export function keysOf(
  { readers }: CompiledRule,
  request: RequestFacts,
  parameters: PathParameters,
): MatchedRequest['keys'] {
  const [first] = readers;
  return readers.length === 1 && first !== undefined
    ? [first.read(request, parameters)]
    : readers.map((reader) => reader.read(request, parameters));
}

/** Or why there is no key to count by. */
type LimitsOrProblem = readonly Limit[] | KeyProblem | undefined;

/** What the policies of a rule have to admit, or why one of them has no key. */
export function limitsOf(bindings: readonly Binding[], found: MatchedRequest): LimitsOrProblem {
  const [first] = bindings;
  if (first === undefined) return [];
  const limit = limitOf(first, found);
  if (!isLimit(limit)) return limit;
  // Nearly every rule has one policy, and a list that grows takes room for many.
  const limits = [limit];
  for (let at = 1; at < bindings.length; at += 1) {
    const binding = bindings[at];
    const another = binding === undefined ? undefined : limitOf(binding, found);
    if (!isLimit(another)) return another;
    limits.push(another);
  }
  return limits;
}

export function hasSlots({ policy }: Limit): boolean {
  return policy.algorithm === 'concurrency';
}

/**
 * Where costs are settled they are of another kind, such as tokens: a request holds one slot, unless the rule says how
 * many.
 */
export function withOneSlot(limits: readonly Limit[], settle: SettleConfig | undefined): readonly Limit[] {
  if (settle === undefined || !limits.some(hasSlots)) return limits;
  return limits.map((limit) => (hasSlots(limit) && limit.cost === undefined ? limit.withCost(1) : limit));
}

function limitOf(
  { policy, keyAt, counted, ownCost }: Binding,
  { keys, request }: MatchedRequest,
): Limit | KeyProblem | undefined {
  const key = keys[keyAt];
  if (typeof key !== 'string') return key;
  const limit = policy.for(counted(key));
  const own = ownCost?.(request);
  if (typeof own === 'object') return { ...own, invalidCost: true };
  return own === undefined ? limit : limit.withCost(own);
}

function isLimit(found: Limit | KeyProblem | undefined): found is Limit {
  return found !== undefined && !('detail' in found);
}

/** What the request spends by its rule, undefined if that is 1; or what is wrong with what it says about that. */
export function costOf({
  rule,
  request,
}: MatchedRequest): { readonly cost: number } | KeyProblem | undefined {
  const cost = rule.cost?.(request);
  if (cost === undefined) return undefined;
  return typeof cost === 'number' ? { cost } : { ...cost, invalidCost: true };
}

export function isProblem(found: ReturnType<typeof costOf>): found is KeyProblem {
  return found !== undefined && 'detail' in found;
}

/** The same for the policies that a service names. Those that the rule gives a key of their own hold too. */
export function externalLimitsOf(
  found: MatchedRequest,
  policies: readonly Policy[],
  tenantKey: string | undefined,
): LimitsOrProblem {
  const { rule } = found;
  const [extracted] = found.keys;
  if (typeof extracted !== 'string') return extracted;
  const limits = policies.map((policy) =>
    policy.for(rule.externallyCounted(policy.name, extracted, tenantKey)),
  );
  for (const binding of rule.bindings) {
    if (!binding.hasOwnKey) continue;
    const limit = limitOf(binding, found);
    if (!isLimit(limit)) return limit;
    const isSame = ({ key, policy: { name } }: Limit): boolean =>
      key === limit.key && name === limit.policy.name;
    if (!limits.some(isSame)) limits.push(limit);
  }
  return limits;
}

export function isLimits(found: LimitsOrProblem): found is readonly Limit[] {
  return Array.isArray(found);
}

/** What the limiter was asked. */
interface QuestionAsked {
  readonly limits: readonly Limit[];
  readonly cost: number;
}

export function detailOf(
  { rule, keys }: MatchedRequest,
  reason: OutcomeDetail['reason'],
  decision?: Decision,
  asked?: QuestionAsked,
): OutcomeDetail {
  return {
    rule: rule.name,
    keys: decision === undefined ? keys.filter((key) => typeof key === 'string') : countedBy(decision, asked),
    decision,
    shadow: rule.shadow,
    cost: asked?.cost,
    ownCosts: ownCostsOf(asked?.limits),
    reason,
  };
}

/** Of one limit the decision itself says it; verdicts are made for whoever asks. */
function countedBy(decision: Decision, asked: QuestionAsked | undefined): readonly string[] {
  return asked?.limits.length === 1 ? [decision.key] : decision.verdicts.map(({ key }) => key);
}

function ownCostsOf(limits: readonly Limit[] | undefined): OutcomeDetail['ownCosts'] {
  if (limits === undefined) return undefined;
  let own: Map<string, number> | undefined;
  for (const { policy, cost } of limits) {
    if (cost !== undefined) own = (own ?? new Map<string, number>()).set(policy.name, cost);
  }
  return own;
}

/** The key that open tunnels are counted under; without one the address: leaving out a header frees nobody. */
export function tunnelKey(
  { request, rule, keys }: MatchedRequest,
  tenantKey: string | undefined,
): string | undefined {
  if (tenantKey !== undefined) return ownKey(tenantKey);
  const [key] = keys;
  const [reader] = rule.readers;
  return typeof key === 'string' && reader !== undefined ? foreignKey(reader, key) : standIn(request);
}
