// Keys that stand in the configuration and can be nobody's, or mean more than they seem to.
import { isIP } from 'node:net';
import { addressKeys, compositeParts, hashedKey } from '../schema/key.ts';
import type { Config } from '../config.ts';
import {
  DEFAULT_POLICY,
  readsSecret,
  strategiesOf,
  type KeyStrategy,
  type RateLimitConfig,
} from '../schema/rate-limit.ts';
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
      ...matchesNobody(
        overrides.map(({ key }, at) => ({ path: [...path, at, 'key'], key })),
        strategies,
        prefix,
      ),
    ];
  });
};

export const listsMeanSomebody: CrossFieldCheck = ({ rate_limit: limits, server }) => {
  const { ipv6_prefix: prefix } = server.client_address;
  const common = listsOf(limits, ['rate_limit'], limits.key_strategy);
  const ofRules = limits.rules.flatMap((rule, at) =>
    listsOf(rule, ['rate_limit', 'rules', at], rule.key ?? limits.key_strategy),
  );
  return [...common, ...ofRules].flatMap(({ key, written }) => [
    ...matchesNobody(written, [key], prefix),
    ...(key.type === 'clientIP' ? wholeNetwork(written, prefix) : []),
  ]);
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

/** Why no request can be counted under a key as an operator calls it; undefined if one can. */
export function namesNobody(
  { rate_limit: limits, server }: Config,
  policy: string,
  key: string,
): string | undefined {
  // Marked by the gateway itself: of another key strategy, or an address in place of a key.
  if (key.startsWith('@')) return undefined;
  const strategies = policy === DEFAULT_POLICY ? [limits.key_strategy] : strategiesOf(limits, policy);
  const { ipv6_prefix: prefix } = server.client_address;
  const reasons = strategies.map((strategy) => nobody(key, strategy, prefix));
  return reasons.includes(undefined) ? undefined : reasons[0]?.why;
}

interface Nobody {
  readonly why: string;
  readonly advice: string;
}

/** The first one is enough to see what is wrong with all. A key that one of the strategies can read is someone's. */
function matchesNobody(
  written: readonly Written[],
  strategies: readonly KeyStrategy[],
  prefix: number,
): readonly CrossFieldFinding[] {
  const [strategy] = strategies;
  if (strategy === undefined) return [];
  const found = written.find(({ key }) => strategies.every((one) => nobody(key, one, prefix) !== undefined));
  const reason = found === undefined ? undefined : nobody(found.key, strategy, prefix);
  if (found === undefined || reason === undefined) return [];
  const key = strategies.some(readsSecret) ? '' : `is ${shown(found.key)}, which `;
  return warnWhen(true, {
    paths: [found.path],
    message: `${pathText(found.path)} ${key}matches no client: ${reason.why}`,
    suggestion: reason.advice,
  });
}

/** Why no request can have such a key; undefined if one can. */
function nobody(key: string, strategy: KeyStrategy, prefix: number): Nobody | undefined {
  switch (strategy.type) {
    case 'clientIP':
      return isClient(addressKeys(prefix)(key), prefix) ? undefined : noAddress(prefix);
    case 'global':
      return key === strategy.global_key ? undefined : onlyOneKey(strategy.global_key);
    case 'pathParameter':
      return SEGMENT.test(key) ? undefined : NO_SEGMENT;
    case 'composite':
      return compositeParts(key)?.length === (strategy.parts?.length ?? (strategy.path_prefix ? 2 : 1))
        ? undefined
        : NO_PARTS;
    case 'jwtClaim':
    case 'bodyField':
    case 'apiKey':
      return key.startsWith('@') ? MARKED : undefined;
    case 'clientCertificate':
      return strategy.field === 'subject' || FINGERPRINT.test(key) ? undefined : NO_FINGERPRINT;
    case 'queryParameter':
    case 'cookie':
      return readsSecret(strategy) ? noHash(key) : key.startsWith('@') ? MARKED : undefined;
    default:
      if (readsSecret(strategy)) return noHash(key);
      if (key.startsWith('@')) return MARKED;
      return key.trim() === key ? undefined : SPACES;
  }
}

function noHash(key: string): Nobody | undefined {
  return key.startsWith('sha256:') && hashedKey(key) !== key ? NO_HASH : undefined;
}

/** As `openssl x509 -fingerprint -sha256` writes it, or as the log does. */
const FINGERPRINT = /^(?:[\da-f]{64}|(?:[\da-f]{2}:){31}[\da-f]{2})$/i;

/** Paths are compared in their normal spelling. */
const SEGMENT = /^(?:[\w.~!$&'()*+,;=:@-]|%[\dA-F]{2})+$/;

const noAddress = (prefix: number): Nobody => ({
  why: `clients are counted by IPv4 address here, or by IPv6 /${prefix} network`,
  advice: 'Write an address; for ranges use cidrs.',
});
const onlyOneKey = (key: string): Nobody => ({
  why: `all requests are counted under ${shown(key)} here`,
  advice: 'Remove it, or use another key strategy.',
});
const NO_SEGMENT: Nobody = {
  why: 'it is not one segment of a path',
  advice: 'Write the segment as it stands in a URL, without slashes.',
};
const NO_PARTS: Nobody = {
  why: 'the parts of a composite key are written with their lengths',
  advice: 'Write 4:acme,3:api for acme and api, as the log shows it.',
};
const NO_HASH: Nobody = {
  why: 'after "sha256:" it needs the 32 digits that the log shows',
  advice: 'Copy the key from the log, or write the secret itself.',
};
const NO_FINGERPRINT: Nobody = {
  why: 'a fingerprint is the SHA-256 of a certificate, 64 hexadecimal digits',
  advice: 'Copy it from openssl x509 -noout -fingerprint -sha256.',
};
const MARKED: Nobody = {
  why: 'a key that begins with "@" stands for an address or for another key strategy',
  advice: 'For addresses use cidrs.',
};
const SPACES: Nobody = {
  why: 'the value of a header has no spaces around it',
  advice: 'Remove the spaces.',
};

function isClient(key: string, prefix: number): boolean {
  return isIP(key) === 4 || (key.endsWith(`/${prefix}`) && isIP(key.slice(0, key.lastIndexOf('/'))) === 6);
}

/** Someone who lists one address may not expect its neighbours to match too. */
function wholeNetwork(written: readonly Written[], prefix: number): readonly CrossFieldFinding[] {
  const keyOf = addressKeys(prefix);
  const found = written.find(({ key }) => isIP(key) === 6 && isIP(keyOf(key)) === 0);
  return warnWhen(found !== undefined, {
    paths: [found?.path ?? []],
    message: `${pathText(found?.path ?? [])} is ${shown(found?.key)}; IPv6 clients are counted by network, so this matches all of ${keyOf(found?.key ?? '')}`,
    suggestion: 'Write the network if you mean all of it; for one address use cidrs.',
  });
}
