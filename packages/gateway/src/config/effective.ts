import { Document, isCollection, isMap, isScalar, isSeq, type Scalar } from 'yaml';
import { z } from 'zod';
import { configSchema, type Config } from './config.ts';
import { MASK, maskedUrl } from './shown.ts';
import { isTree, pathText, type Path } from './path.ts';
import { formatOrigin, type Origin } from './problem.ts';
import { hashedKey, isSecretHeader } from './schema/key.ts';
import { calledName, keyNames, type KeyNames } from './schema/key-names.ts';
import { readsSecret, strategiesOf, type KeyStrategy, type RateLimitConfig } from './schema/rate-limit.ts';
import { SETTINGS } from './settings.ts';

const SECRETS: ReadonlySet<string> = new Set(SETTINGS.filter(({ secret }) => secret).map(({ path }) => path));

const URLS: ReadonlySet<string> = new Set(
  SETTINGS.filter(({ kind }) => kind === 'URL').map(({ path }) => path),
);

/** The configuration as a file would say it, with every default, and without secrets. */
export function maskedConfig(config: Config, names?: KeyNames): Readonly<Record<string, unknown>> {
  return maskedTree(encodedConfig(config, names));
}

/** As a file would say it, with every default and with its secrets, except the keys that are those of clients. */
export function encodedConfig(
  config: Config,
  names: KeyNames = namesIn(config),
): Readonly<Record<string, unknown>> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `readonly` is taken away, and encode() copies
  return z.encode(configSchema, withHashedKeys(config, names) as z.output<typeof configSchema>);
}

/** The same without secrets. */
export function maskedTree(encoded: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const masked = mask(encoded, '');
  return isTree(masked) ? masked : {};
}

/**
 * Keys that are secrets of clients, as the log shows them: so they can still be told apart, and a file with them means
 * the same.
 */
function withHashedKeys(config: Config, names: KeyNames): Config {
  const { rate_limit: limits } = config;
  const maybeSecret = (key: string): boolean =>
    names.has(key) === undefined && names.ownerOf(key) === undefined;
  const shownBy = (strategies: readonly KeyStrategy[]) => (key: string) =>
    strategies.some(readsSecret) || maybeSecret(key) ? hashedKey(key) : calledName(names, key);
  const hashed = <List extends KeyLists>(lists: List, key: KeyStrategy): List =>
    mayBeSecret(key)
      ? {
          ...lists,
          allow: { ...lists.allow, keys: lists.allow.keys.map(shownBy([key])) },
          deny: { ...lists.deny, keys: lists.deny.keys.map(shownBy([key])) },
        }
      : lists;
  const policies = Object.entries(limits.policies).map(([name, policy]): [string, typeof policy] => [
    name,
    strategiesOf(config, name).some(mayBeSecret)
      ? {
          ...policy,
          overrides: policy.overrides.map((one) => ({
            ...one,
            key: shownBy(strategiesOf(config, name))(one.key),
          })),
        }
      : policy,
  ]);
  return {
    ...config,
    rate_limit: {
      ...hashed(limits, limits.key_strategy),
      rules: limits.rules.map((rule) => hashed(rule, rule.key ?? limits.key_strategy)),
      policies: Object.fromEntries(policies),
    },
  };
}

/** Of the keys in the configuration itself. Where there is a file of keys, another text may be the secret of one. */
function namesIn({ identity: { api_keys: apiKeys } }: Config): KeyNames {
  const own = keyNames(apiKeys?.keys ?? []);
  if (apiKeys?.file === undefined) return own;
  return { has: (name) => own.has(name) === true || undefined, ownerOf: (secret) => own.ownerOf(secret) };
}

/** API keys may be called by their secrets. */
function mayBeSecret(key: KeyStrategy): boolean {
  return key.type === 'apiKey' || readsSecret(key);
}

type KeyLists = Pick<RateLimitConfig, 'allow' | 'deny'>;

function mask(value: unknown, path: string): unknown {
  if (URLS.has(path)) return Array.isArray(value) ? value.map(asMaskedUrl) : asMaskedUrl(value);
  if (isSecret(path)) return value === undefined ? undefined : MASK;
  if (Array.isArray(value)) return value.map((item) => mask(item, `${path}[]`));
  if (!isTree(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([name, item]) => [name, mask(item, path === '' ? name : `${path}.${name}`)]),
  );
}

const SENT_HEADER = /\.set_request_headers\.(.*)$/;

/** Also the value of a header that backends get, where its name says so: `Authorization`, `X-Api-Key`. */
function isSecret(path: string): boolean {
  const header = SENT_HEADER.exec(path)?.[1];
  return header === undefined ? SECRETS.has(path) : isSecretHeader(header.toLowerCase());
}

function asMaskedUrl(value: unknown): unknown {
  return typeof value === 'string' ? maskedUrl(value) : value;
}

/** Every secret of a configuration, so that whatever writes texts can look for them. */
export function secretsOf(config: Config): readonly string[] {
  return textsAt(config, '');
}

function textsAt(value: unknown, path: string): readonly string[] {
  if (URLS.has(path)) return (Array.isArray(value) ? value : [value]).flatMap(passwordsIn);
  if (isSecret(path)) return typeof value === 'string' ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((item) => textsAt(item, `${path}[]`));
  if (!isTree(value)) return [];
  return Object.entries(value).flatMap(([name, item]) =>
    textsAt(item, path === '' ? name : `${path}.${name}`),
  );
}

/** As it is written and as it is sent. */
function passwordsIn(url: unknown): readonly string[] {
  if (typeof url !== 'string' || !URL.canParse(url)) return [];
  const { password } = new URL(url);
  return password === '' ? [] : [...new Set([password, decoded(password)])];
}

/** A lone percent sign is meant literally. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export interface EffectiveSetting {
  readonly path: string;
  readonly value: unknown;
  readonly origin: Origin;
}

/** Every value with where it came from; lists of plain values count as one. */
export function effectiveSettings(
  config: Config,
  originOf: (path: Path) => Origin,
  names?: KeyNames,
): readonly EffectiveSetting[] {
  return leaves(maskedConfig(config, names), []).map(({ path, value }) => ({
    path: pathText(path),
    value,
    origin: originOf(path),
  }));
}

function leaves(value: unknown, path: Path): readonly { readonly path: Path; readonly value: unknown }[] {
  const entries = isTree(value) ? Object.entries(value) : isListOfTrees(value) ? [...value.entries()] : [];
  if (entries.length === 0) return [{ path, value }];
  return entries.flatMap(([part, item]) => leaves(item, [...path, part]));
}

function isListOfTrees(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.some(isTree);
}

/** The same as YAML that can be used as a file, with the origin of each value behind it. */
export function effectiveYaml(config: Config, originOf: (path: Path) => Origin, names?: KeyNames): string {
  const document = new Document(maskedConfig(config, names), { aliasDuplicateObjects: false });
  annotate(document.contents, [], originOf);
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function annotate(node: unknown, path: Path, originOf: (path: Path) => Origin): void {
  if (isMap(node) && node.items.length > 0) {
    for (const { key, value } of node.items)
      annotate(value, [...path, isScalar(key) ? String(key.value) : ''], originOf);
  } else if (isSeq(node) && node.items.some(isCollection)) {
    for (const [at, item] of node.items.entries()) annotate(item, [...path, at], originOf);
  } else if (isScalar(node) || isCollection(node)) {
    if (isCollection(node)) node.flow = true;
    const commented: Pick<Scalar, 'comment'> = node;
    commented.comment = ` ${formatOrigin(originOf(path))}`;
  }
}
