import { parsePathPattern } from '../path-pattern.ts';
import { pathText, type Path } from '../path.ts';
import type { IdentityConfig } from '../schema/identity.ts';
import { policyComplaint, toPolicy } from '../schema/policy.ts';
import {
  DEFAULT_POLICY,
  defaultPolicy,
  type KeyStrategy,
  type RateLimitConfig,
  type RuleConfig,
} from '../schema/rate-limit.ts';
import { shown } from '../shown.ts';
import { nearest } from '../suggestion.ts';
import { repeatedAt, warnWhen, when, type CrossFieldFinding, type CrossFieldCheck } from './finding.ts';

export const defaultPolicyIsWhole: CrossFieldCheck = ({ rate_limit: limits }) => {
  const policy = defaultPolicy(limits);
  const complaint = policy === undefined ? undefined : policyComplaint(DEFAULT_POLICY, policy);
  const at = (name: string): Path => ['rate_limit', name];
  return [
    ...when(limits.burst !== undefined && limits.average === undefined && !limits.external.enabled, {
      paths: [at('burst'), at('average')],
      message: 'rate_limit.burst has no effect without rate_limit.average',
      suggestion: 'Set average, the number of requests that come back per period.',
    }),
    ...when(complaint !== undefined, {
      paths: [at('average'), at('burst'), at('period')],
      message: `rate_limit: ${complaint ?? ''}`,
      suggestion: 'Choose smaller numbers.',
    }),
    ...when(policy !== undefined && Object.hasOwn(limits.policies, DEFAULT_POLICY), {
      paths: [['rate_limit', 'policies', DEFAULT_POLICY], at('average')],
      message: `rate_limit.policies.${DEFAULT_POLICY} clashes with the policy that rate_limit.average defines`,
      suggestion: 'Give it another name.',
    }),
    ...when(policy !== undefined && usesParameter(limits.key_strategy), {
      paths: [at('key_strategy'), at('average')],
      message: 'rate_limit.key_strategy is a path parameter, but a request that no rule matches has none',
      suggestion: 'Use another key here, and pathParameter in the rules whose path has it.',
    }),
  ];
};

export const keysAreWhole: CrossFieldCheck = ({ rate_limit: limits }) => [
  ...checkKey(['rate_limit', 'key_strategy'], limits.key_strategy),
  ...limits.rules.flatMap((rule, at) => keysOf(rule, at).flatMap(({ path, key }) => checkKey(path, key))),
];

function checkKey(path: Path, key: KeyStrategy): readonly CrossFieldFinding[] {
  if (key.type !== 'composite') return [];
  const name = pathText(path);
  return [
    ...when((key.header_name === undefined) === (key.parts === undefined), {
      paths: [path],
      message: `${name} is composite, so it needs either header_name or parts`,
      suggestion: 'Write header_name: X-Tenant-Id with path_prefix: true, or a list of parts.',
    }),
    ...when(key.path_prefix && key.header_name === undefined, {
      paths: [[...path, 'path_prefix']],
      message: `${name}.path_prefix has no effect without header_name`,
      suggestion: 'Remove it.',
    }),
  ];
}

export const policiesAreWhole: CrossFieldCheck = ({ rate_limit: limits, service, identity }) =>
  Object.entries(limits.policies).flatMap(([name, policy]) => {
    const path: Path = ['rate_limit', 'policies', name];
    const complaint = policyComplaint(name, policy);
    return [
      ...when(complaint !== undefined, {
        paths: [path],
        message: `${pathText(path)}: ${complaint ?? ''}`,
        suggestion: 'Correct these numbers.',
      }),
      // Callers of the service may name every policy.
      ...warnWhen(service === undefined && !isUsed(limits, name) && !isInPlan(identity, name), {
        paths: [path, ['rate_limit', 'rules']],
        message: `${pathText(path)} is not used by any rule`,
        suggestion: 'Add it to the policies of a rule.',
      }),
    ];
  });

export const rulesHaveTheirNames: CrossFieldCheck = ({ rate_limit: { rules } }) =>
  repeatedAt(rules.map(({ name }) => name)).flatMap((at) =>
    when(true, {
      paths: [['rate_limit', 'rules', at, 'name']],
      message: `rate_limit.rules has two rules named ${rules[at]?.name ?? ''}`,
      suggestion: 'Give each a name of its own.',
    }),
  );

function isInPlan({ plans }: IdentityConfig, name: string): boolean {
  return Object.values(plans).some(({ policies }) => policies.includes(name));
}

function isUsed({ rules }: RateLimitConfig, name: string): boolean {
  return rules.some(({ policies }) => policies.some(({ policy }) => policy === name));
}

export const rulesNameTheirPolicies: CrossFieldCheck = ({ rate_limit: limits }) =>
  limits.rules.flatMap((rule, at) =>
    rule.policies.flatMap((chosen, index) => {
      const path: Path = ['rate_limit', 'rules', at, 'policies', index];
      const earlier = rule.policies.slice(0, index);
      const same = earlier.some(
        (other) => other.policy === chosen.policy && JSON.stringify(other.key) === JSON.stringify(chosen.key),
      );
      return [
        ...policyExists(limits, path, chosen.policy),
        ...when(same, {
          paths: [path],
          message: `${pathText(path)}: ${chosen.policy} appears twice in this rule with the same key`,
          suggestion: 'Raise the cost instead, or give them different keys.',
        }),
        ...costFits(limits, rule, { path, chosen, at }),
      ];
    }),
  );

export const descriptorsNameTheirPolicies: CrossFieldCheck = ({ rate_limit: limits, service }) =>
  (service?.rls.descriptors ?? []).flatMap(({ policies }, at) =>
    policies.flatMap((name, index) => {
      const path = ['service', 'rls', 'descriptors', at, 'policies', index];
      return [
        ...policyExists(limits, path, name),
        ...when(Object.hasOwn(limits.policies, name) && limits.policies[name]?.algorithm === 'concurrency', {
          paths: [path, ['rate_limit', 'policies', name]],
          message: `${pathText(path)}: ${name} limits concurrency, and Envoy does not tell when a request has ended`,
          suggestion: 'Name a policy that counts requests, and limit what is in flight in the gateway.',
        }),
      ];
    }),
  );

function policyExists(limits: RateLimitConfig, path: Path, name: string): readonly CrossFieldFinding[] {
  const names = [
    ...Object.keys(limits.policies),
    ...(defaultPolicy(limits) === undefined ? [] : [DEFAULT_POLICY]),
  ];
  const meant = nearest(name, names);
  const known = names.length === 0 ? 'Define it in rate_limit.policies.' : `Policies: ${names.join(', ')}.`;
  return when(!names.includes(name), {
    paths: [path, ['rate_limit', 'policies', name]],
    message: `${pathText(path)}: there is no policy named ${name}`,
    suggestion: meant === undefined ? known : `Did you mean ${meant}?`,
  });
}

type ChosenPolicy = RuleConfig['policies'][number];

/** A cost above what a policy can ever admit is a rule that refuses everything. */
function costFits(
  limits: RateLimitConfig,
  rule: RuleConfig,
  { path, chosen, at }: { readonly path: Path; readonly chosen: ChosenPolicy; readonly at: number },
): readonly CrossFieldFinding[] {
  const { policy: name } = chosen;
  const named = Object.hasOwn(limits.policies, name) ? limits.policies[name] : undefined;
  const policy = named ?? (name === DEFAULT_POLICY ? defaultPolicy(limits) : undefined);
  if (policy === undefined || policyComplaint(name, policy) !== undefined) return [];
  const { limit } = toPolicy(name, policy);
  const own = chosen.cost;
  // A request whose cost is settled holds one slot.
  const holdsOne = policy.algorithm === 'concurrency' && rule.settle !== undefined;
  const cost = own ?? (holdsOne ? 1 : rule.cost);
  const costPath: Path = own === undefined ? ['rate_limit', 'rules', at, 'cost'] : [...path, 'cost'];
  return when(typeof cost === 'number' && cost > limit, {
    paths: [costPath, path, ['rate_limit', 'policies', name]],
    message: `${pathText(costPath)} is ${shown(cost)}, but ${name} never admits more than ${limit} at once`,
    suggestion: 'Lower the cost, or raise the numbers of the policy.',
  });
}

export const parametersExist: CrossFieldCheck = ({ rate_limit: limits }) =>
  limits.rules.flatMap((rule, at) => {
    const patterns = rule.match.path ?? [];
    const own = keysOf(rule, at);
    const inherits = rule.key === undefined && rule.policies.some(({ key }) => key === undefined);
    const keys = inherits
      ? [...own, { path: ['rate_limit', 'rules', at] as const, key: limits.key_strategy }]
      : own;
    return keys.flatMap(({ path, key }) =>
      parametersOf(key)
        .filter((name) => patterns.length === 0 || !patterns.every((pattern) => hasParameter(pattern, name)))
        .flatMap((name) =>
          when(true, {
            paths: [path, ['rate_limit', 'rules', at, 'match', 'path']],
            message: `${pathText(path)} counts by the path parameter ${name}, which is not in the path of the rule`,
            suggestion: `Add it to every path of the rule, as in /t/{${name}}.`,
          }),
        ),
    );
  });

function hasParameter(pattern: string, name: string): boolean {
  return parsePathPattern(pattern).some((segment) => segment.kind === 'parameter' && segment.name === name);
}

function keysOf(rule: RuleConfig, at: number): readonly { readonly path: Path; readonly key: KeyStrategy }[] {
  const path: Path = ['rate_limit', 'rules', at];
  return [
    ...(rule.key === undefined ? [] : [{ path: [...path, 'key'], key: rule.key }]),
    ...rule.policies.flatMap(({ key }, index) =>
      key === undefined ? [] : [{ path: [...path, 'policies', index, 'key'], key }],
    ),
  ];
}

function parametersOf(key: KeyStrategy): readonly string[] {
  if (key.type === 'pathParameter') return [key.name];
  return key.type === 'composite' ? (key.parts ?? []).flatMap(parametersOf) : [];
}

function usesParameter(key: KeyStrategy): boolean {
  return parametersOf(key).length > 0;
}

export const externalService: CrossFieldCheck = ({ rate_limit: { external } }) => {
  const at = (name: string): Path => ['rate_limit', 'external', name];
  return [
    ...when(external.enabled && external.http === undefined && external.grpc === undefined, {
      paths: [at('enabled'), at('http'), at('grpc')],
      message: 'rate_limit.external.enabled needs rate_limit.external.http or rate_limit.external.grpc',
      suggestion: 'Say where the service is: http.url or grpc.address.',
    }),
    ...when(external.http !== undefined && external.grpc !== undefined, {
      paths: [at('grpc'), at('http')],
      message: 'rate_limit.external has both http and grpc',
      suggestion: 'Keep the one your service speaks.',
    }),
  ];
};

export const headersAgree: CrossFieldCheck = ({ rate_limit: { headers } }) => [
  ...when(headers.includes('none') && headers.length > 1, {
    paths: [['rate_limit', 'headers']],
    message: 'rate_limit.headers combines none with other values',
    suggestion: 'Use none alone, or remove it.',
  }),
  ...when(headers.includes('github') && headers.includes('legacy'), {
    paths: [['rate_limit', 'headers']],
    message:
      'rate_limit.headers has both github and legacy, which use the same header names for different things',
    suggestion: 'Keep one of them.',
  }),
];

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
