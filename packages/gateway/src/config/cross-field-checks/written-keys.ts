// Keys that stand in the configuration and can be nobody's, or mean more than they seem to.
import { isIP } from 'node:net';
import { addressKeys } from '../schema/key.ts';
import type { KeyStrategy, RateLimitConfig } from '../schema/rate-limit.ts';
import { pathText, type Path } from '../path.ts';
import { shown } from '../shown.ts';
import { repeatedAt, warnWhen, when, type CrossFieldFinding, type CrossFieldCheck } from './finding.ts';

/** As many as the library keeps for one policy. */
const MAX_OVERRIDES = 100_000;

export const overridesMeanSomebody: CrossFieldCheck = ({ rate_limit: limits, server }) => {
  const { ipv6_prefix: prefix } = server.client_address;
  return Object.entries(limits.policies).flatMap(([name, { overrides }]) => {
    const path: Path = ['rate_limit', 'policies', name, 'overrides'];
    const strategies = strategiesOf(limits, name);
    const byAddress = strategies.some(({ type }) => type === 'clientIP');
    const keyOf = byAddress ? addressKeys(prefix) : (key: string) => key;
    const keys = overrides.map(({ key }) => keyOf(key));
    return [
      ...repeatedAt(keys).flatMap((at) => {
        const key = keys[at];
        const also = key === overrides[at]?.key ? '' : `, ${key ?? ''}`;
        return when(true, {
          paths: [[...path, at, 'key']],
          message: `${pathText(path)} has two entries for the same key${also}`,
          suggestion: 'Remove one of them.',
        });
      }),
      ...when(overrides.length * strategies.length > MAX_OVERRIDES, {
        paths: [path],
        message: `${pathText(path)} has ${overrides.length} entries for each of ${strategies.length} key strategies; expected at most ${MAX_OVERRIDES} altogether`,
        suggestion: 'Give rules with other keys a policy of their own.',
      }),
      ...(strategies.every(({ type }) => type === 'clientIP') && strategies.length > 0
        ? nobody(
            overrides.map(({ key }, at) => ({ path: [...path, at, 'key'], key })),
            prefix,
          )
        : []),
    ];
  });
};

export const listsMeanSomebody: CrossFieldCheck = ({ rate_limit: limits, server }) => {
  const { ipv6_prefix: prefix } = server.client_address;
  const common = listsOf(limits, ['rate_limit'], limits.key_strategy);
  const ofRules = limits.rules.flatMap((rule, at) =>
    listsOf(rule, ['rate_limit', 'rules', at], rule.key ?? limits.key_strategy),
  );
  return [...common, ...ofRules]
    .filter(({ key }) => key.type === 'clientIP')
    .flatMap(({ written }) => [...nobody(written, prefix), ...wholeNetwork(written, prefix)]);
};

interface Written {
  readonly path: Path;
  readonly key: string;
}

function listsOf(
  { allow, deny }: Pick<RateLimitConfig, 'allow' | 'deny'>,
  path: Path,
  key: KeyStrategy,
): readonly { readonly key: KeyStrategy; readonly written: readonly Written[] }[] {
  const written = (name: string, keys: readonly string[]): readonly Written[] =>
    keys.map((text, at) => ({ path: [...path, name, 'keys', at], key: text }));
  return [
    { key, written: written('allow', allow.keys) },
    { key, written: written('deny', deny.keys) },
  ];
}

/** The first one is enough to see what is wrong with all. */
function nobody(written: readonly Written[], prefix: number): readonly CrossFieldFinding[] {
  const keyOf = addressKeys(prefix);
  const found = written.find(({ key }) => !isClient(keyOf(key), prefix));
  return warnWhen(found !== undefined, {
    paths: [found?.path ?? []],
    message: `${pathText(found?.path ?? [])} is ${shown(found?.key)}, which matches no client: clients are counted by IPv4 address here, or by IPv6 /${prefix} network`,
    suggestion: 'Write an address; for ranges use cidrs.',
  });
}

function isClient(key: string, prefix: number): boolean {
  return isIP(key) === 4 || (key.endsWith(`/${prefix}`) && isIP(key.slice(0, key.lastIndexOf('/'))) === 6);
}

/** Whoever lists one address may not expect its neighbours to be meant. */
function wholeNetwork(written: readonly Written[], prefix: number): readonly CrossFieldFinding[] {
  const keyOf = addressKeys(prefix);
  const found = written.find(({ key }) => isIP(key) === 6 && isIP(keyOf(key)) === 0);
  return warnWhen(found !== undefined, {
    paths: [found?.path ?? []],
    message: `${pathText(found?.path ?? [])} is ${shown(found?.key)}; IPv6 clients are counted by network, so this matches all of ${keyOf(found?.key ?? '')}`,
    suggestion: 'Write the network if you mean all of it; for one address use cidrs.',
  });
}

/** The strategies that a policy is used with; those that differ only in what stands in for a missing key count apart. */
function strategiesOf({ key_strategy: usual, rules }: RateLimitConfig, name: string): readonly KeyStrategy[] {
  const found = rules.flatMap(({ key: ruleKey = usual, policies }) =>
    policies.flatMap(({ policy, key = ruleKey }) => (policy === name ? [key] : [])),
  );
  return [...new Map(found.map((key) => [JSON.stringify(key), key])).values()];
}
