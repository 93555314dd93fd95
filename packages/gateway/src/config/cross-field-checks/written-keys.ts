// Keys that stand in the configuration and can be nobody's, or mean more than they seem to.
import { isIP } from 'node:net';
import { addressKeys, compositeParts, hashedKey } from '../schema/key.ts';
import {
  calledName,
  isSecretOf,
  keyNames,
  looksSecret,
  UNKNOWN_KEYS,
  type KeyNames,
} from '../schema/key-names.ts';
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

export const overridesMeanSomebody: CrossFieldCheck = (config) =>
  overrideFindings(config, writtenNames(config));

export const listsMeanSomebody: CrossFieldCheck = (config) => listFindings(config, writtenNames(config));

/** The same where the keys of the file are known, too. */
export function writtenKeyFindings(config: Config, keys: KeyNames): readonly CrossFieldFinding[] {
  return [...overrideFindings(config, keys), ...listFindings(config, keys)];
}

/** The keys that stand in the configuration; a file of keys may have others. */
function writtenNames({ identity: { api_keys: apiKeys } }: Config): KeyNames {
  return apiKeys?.file === undefined ? keyNames(apiKeys?.keys ?? []) : UNKNOWN_KEYS;
}

function overrideFindings(config: Config, names: KeyNames): readonly CrossFieldFinding[] {
  const { rate_limit: limits, server } = config;
  const counting: Counting = { prefix: server.client_address.ipv6_prefix, keys: names };
  return Object.entries(limits.policies).flatMap(([name, { overrides }]) => {
    const path: Path = ['rate_limit', 'policies', name, 'overrides'];
    const strategies = strategiesOf(config, name);
    const keyOf = spelling(strategies, counting);
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
        counting,
      ),
    ];
  });
}

/** One spelling for everything that means the same client. */
function spelling(strategies: readonly KeyStrategy[], { prefix, keys }: Counting): (key: string) => string {
  if (strategies.some(({ type }) => type === 'clientIP')) return addressKeys(prefix);
  return strategies.some(({ type }) => type === 'apiKey') ? (key) => calledName(keys, key) : (key) => key;
}

function listFindings(config: Config, names: KeyNames): readonly CrossFieldFinding[] {
  const { rate_limit: limits, server } = config;
  const { ipv6_prefix: prefix } = server.client_address;
  const counting: Counting = { prefix, keys: names };
  const common = listsOf(limits, ['rate_limit'], limits.key_strategy);
  const ofRules = limits.rules.flatMap((rule, at) =>
    listsOf(rule, ['rate_limit', 'rules', at], rule.key ?? limits.key_strategy),
  );
  return [...common, ...ofRules].flatMap(({ key, written }) => [
    ...matchesNobody(written, [key], counting),
    ...(key.type === 'clientIP' ? wholeNetwork(written, prefix) : []),
  ]);
}

/** How clients are counted, whatever the strategy. */
interface Counting {
  readonly prefix: number;
  readonly keys: KeyNames;
}

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
  config: Config,
  policy: string,
  key: string,
  keys: KeyNames = UNKNOWN_KEYS,
): string | undefined {
  // Marked by the gateway itself: of another key strategy, or an address in place of a key.
  if (key.startsWith('@')) return undefined;
  const { rate_limit: limits, server } = config;
  const strategies = policy === DEFAULT_POLICY ? [limits.key_strategy] : strategiesOf(config, policy);
  const counting: Counting = { prefix: server.client_address.ipv6_prefix, keys };
  const byName = strategies.some(({ type }) => type === 'apiKey');
  if (byName && keys.has(key) === undefined && looksSecret(key)) return WHOSE_SECRET;
  const reasons = strategies.map((strategy) => nobody(key, strategy, counting));
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
  counting: Counting,
): readonly CrossFieldFinding[] {
  const [strategy] = strategies;
  if (strategy === undefined) return [];
  const named = strategies.some(({ type }) => type === 'apiKey') ? secretNames(written, counting) : [];
  const found = written.find(({ key }) =>
    strategies.every((one) => nobody(key, one, counting) !== undefined),
  );
  const reason = found === undefined ? undefined : nobody(found.key, strategy, counting);
  if (found === undefined || reason === undefined) return named;
  const mayBeSecret = strategies.some(
    (one) => readsSecret(one) || (one.type === 'apiKey' && looksSecret(found.key)),
  );
  const key = mayBeSecret ? '' : `is ${shown(found.key)}, which `;
  return [
    ...named,
    ...warnWhen(true, {
      paths: [found.path],
      message: `${pathText(found.path)} ${key}matches no client: ${reason.why}`,
      suggestion: reason.advice,
    }),
  ];
}

/** They mean somebody, until the key is rotated; and a configuration is read by many. */
function secretNames(written: readonly Written[], { keys }: Counting): readonly CrossFieldFinding[] {
  const found = written.find(({ key }) => isSecretOf(keys, key));
  const name = found === undefined ? '' : calledName(keys, found.key);
  return warnWhen(found !== undefined, {
    paths: [found?.path ?? []],
    message: `${pathText(found?.path ?? [])} is the secret of the API key ${name} or its hash, and means nobody as soon as the key is rotated`,
    suggestion: `Write ${name}.`,
  });
}

/** Why no request can have such a key; undefined if one can. */
function nobody(key: string, strategy: KeyStrategy, counting: Counting): Nobody | undefined {
  const { prefix } = counting;
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
    case 'apiKey':
      return key.startsWith('@') ? MARKED : noApiKey(key, counting);
    case 'jwtClaim':
    case 'bodyField':
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

function noApiKey(key: string, { keys }: Counting): Nobody | undefined {
  const name = calledName(keys, key);
  if (keys.has(name) !== false) return undefined;
  return looksSecret(name) ? NO_SUCH_SECRET : NO_SUCH_NAME;
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
const NO_SUCH_NAME: Nobody = {
  why: 'no API key has this name',
  advice: 'spillgate api-keys list shows those that there are.',
};
const NO_SUCH_SECRET: Nobody = {
  why: 'it is the secret of no API key',
  advice: 'Write the name of the key; spillgate api-keys list shows those that there are.',
};
const WHOSE_SECRET =
  'API keys are counted by their names, and whose secret this is only their file tells: give the name, or the configuration with --config';
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
