import { pathText, type Path } from '../path.ts';
import type { RateLimitConfig, RuleConfig } from '../schema/rate-limit.ts';
import { warnWhen, when, type CrossFieldCheck, type CrossFieldFinding } from './finding.ts';

/** What a rule charges before and after a request has to fit together, and its policies have to bear it. */
export const costsCanBeSettled: CrossFieldCheck = ({ rate_limit: limits }) =>
  limits.rules.flatMap((rule, at) => {
    const path: Path = ['rate_limit', 'rules', at];
    return [
      ...costsFitTogether(rule, limits, path),
      ...policiesBearSettling(rule, limits, path),
      ...headersAreApart(rule, path),
    ];
  });

function costsFitTogether(
  rule: RuleConfig,
  limits: RateLimitConfig,
  path: Path,
): readonly CrossFieldFinding[] {
  const { cost, settle, policies } = rule;
  const at = (...names: readonly (string | number)[]): Path => [...path, ...names];
  const all = settle !== undefined && policies.length > 0;
  return [
    ...when(settle !== undefined && cost === 0, {
      paths: [at('cost'), at('settle')],
      message: `${pathText(at('cost'))} is 0, but with settle it is an estimate of at least 1`,
      suggestion: 'Estimate what a request costs, or remove settle.',
    }),
    ...warnWhen(all && policies.every((chosen) => isFinal(chosen, limits)), {
      paths: [at('settle')],
      message: `${pathText(at('settle'))} has no effect: every policy of the rule counts requests in flight, or has a cost of its own, which is final`,
      suggestion: 'Add a policy that is to be settled, or remove the cost of one.',
    }),
    ...warnWhen(settle !== undefined && policies.length === 0, {
      paths: [at('settle')],
      message: `${pathText(at('settle'))} has no effect: the rule has no policies`,
      suggestion: 'Add the policies that are charged, or remove it.',
    }),
    ...warnWhen(settle?.type === 'llmTokens' && cost === 1, {
      paths: [at('settle'), at('cost')],
      message: `${pathText(path)} settles tokens and charges 1 before: as long as nobody is answered, everybody is admitted`,
      suggestion: 'Set cost: { type: llmTokens }, or a number of tokens that most answers stay below.',
    }),
    ...warnWhen(typeof cost === 'object' && cost.type === 'llmTokens' && settle?.type !== 'llmTokens', {
      paths: [at('cost'), at('settle')],
      message: `${pathText(at('cost'))} estimates tokens, and nothing corrects the estimate`,
      suggestion: 'Add settle: { type: llmTokens }.',
    }),
  ];
}

/** What such a policy was charged is not settled. */
function isFinal({ policy, cost }: RuleConfig['policies'][number], { policies }: RateLimitConfig): boolean {
  return (
    cost !== undefined || (Object.hasOwn(policies, policy) && policies[policy]?.algorithm === 'concurrency')
  );
}

function policiesBearSettling(
  rule: RuleConfig,
  limits: RateLimitConfig,
  path: Path,
): readonly CrossFieldFinding[] {
  return rule.policies.flatMap(({ policy: name, cost }, index) => {
    const policy = Object.hasOwn(limits.policies, name) ? limits.policies[name] : undefined;
    const place: Path = [...path, 'policies', index];
    const drains = policy?.algorithm === 'tokenBucket' || policy?.algorithm === 'leakyBucket';
    return [
      ...warnWhen(drains && cost === undefined && rule.settle?.type === 'llmTokens', {
        paths: [place, ['rate_limit', 'policies', name, 'algorithm']],
        message: `${pathText(place)}: ${name} is a ${policy?.algorithm ?? ''}, which gives little back once it has drained what was reserved`,
        suggestion: 'For tokens use fixedWindow, slidingWindowCounter or calendarQuota.',
      }),
    ];
  });
}

function headersAreApart({ cost, settle }: RuleConfig, path: Path): readonly CrossFieldFinding[] {
  if (typeof cost !== 'object' || !('default' in cost)) return [];
  return [
    ...when(cost.default > cost.max, {
      paths: [
        [...path, 'cost', 'default'],
        [...path, 'cost', 'max'],
      ],
      message: `${pathText([...path, 'cost'])}.default is ${cost.default}, above its max of ${cost.max}`,
      suggestion: 'Lower default, or raise max.',
    }),
    ...warnWhen(cost.type === 'header' && settle?.type === 'requestBytes', {
      paths: [
        [...path, 'settle'],
        [...path, 'cost'],
      ],
      message: `${pathText(path)} charges what a header says and settles bytes: these are two different units`,
      suggestion: 'Use cost: { type: requestBytes }, or settle by a header of the response.',
    }),
  ];
}
