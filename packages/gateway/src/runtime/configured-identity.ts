import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/config.ts';
import { readNamedFile } from '../config/problem.ts';
import type { ApiKeyEntry, ApiKeysConfig, JwtConfig } from '../config/schema/identity.ts';
import { keyNames, type KeyNames } from '../config/schema/key-names.ts';
import { strategyParts } from '../config/schema/rate-limit.ts';
import { tlsOptions } from '../external/service/service.ts';
import { apiKeysOf, unknownPlans, withKnownPlans } from '../identity/api-keys/key-file.ts';
import { KeyRing } from '../identity/api-keys/key-ring.ts';
import { createIdentifier, type IdentifierParts } from '../identity/identifier.ts';
import type { Identifier } from '../identity/identity.ts';
import { JWKS_FILE, readKeyFile } from '../identity/jwt/jwk-set.ts';
import type { KeySource, PlacedKeys } from '../identity/jwt/key-set.ts';
import { targetOf } from '../http-client/index.ts';
import { UrlPolicy, type UrlPolicyOptions } from '../proxy/upstreams/tenant-backends.ts';
import type { Log } from '../telemetry/log.ts';
import type { TrafficListener } from '../telemetry/traffic.ts';
import { namedFiles, watchFiles } from './named-files.ts';

/** Who may prove who they are, and all that this depends on. */
export interface ConfiguredIdentity {
  readonly identifier: Identifier;
  /** Of the API keys, as they are now. */
  readonly names: KeyNames;
  readonly plan: object;
  close(): void;
}

export interface IdentityTools {
  readonly log: Log;
  /** For metrics. */
  readonly count: TrafficListener['count'];
}

/** What a configuration says about it; the given one if that says the same, with the keys and tokens that it knows. */
export async function configuredIdentity(
  config: Config,
  tools: IdentityTools,
  { current, own }: { readonly current?: ConfiguredIdentity | undefined; readonly own: UrlPolicyOptions },
): Promise<ConfiguredIdentity | undefined> {
  const { api_keys: apiKeys, jwt } = config.identity;
  if (apiKeys === undefined && jwt === undefined) return undefined;
  const plan = planOf(config, own);
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  const closing: (() => void)[] = [];
  const close = (): void => {
    for (const end of closing) end();
  };
  try {
    const watched = apiKeys === undefined ? undefined : watchedApiKeys(apiKeys, { config, tools, closing });
    const parts: IdentifierParts = {
      apiKeys: watched,
      jwt: jwt === undefined ? undefined : await tokens(jwt, { config, tools, own, closing }),
      observe: (kind, outcome) => tools.count('identifications', kind, outcome),
    };
    return { identifier: createIdentifier(parts), names: watched?.names ?? keyNames([]), plan, close };
  } catch (failure) {
    close();
    throw failure;
  }
}

interface IdentityMaking {
  readonly config: Config;
  readonly tools: IdentityTools;
  /** What has to be called at the end. */
  readonly closing: (() => void)[];
}

function planOf(config: Config, own: UrlPolicyOptions): object {
  const { api_keys: apiKeys, jwt, plans } = config.identity;
  const files = namedFiles(config)
    .filter(({ path: [section] }) => section === 'identity')
    .map(({ path, file }) => readNamedFile(path, file));
  return { apiKeys, jwt, plans, files, claims: wantedClaims(config), own: own.ownListeners };
}

/** The keys of the configuration and of its file. The file is looked at for as long as the configuration is in use. */
function watchedApiKeys(
  settings: ApiKeysConfig,
  { config, tools: { log }, closing }: IdentityMaking,
): WatchedKeys {
  const { file } = settings;
  const { plans } = config.identity;
  const ringOf = (entries: readonly ApiKeyEntry[]): KeyRing => new KeyRing(withKnownPlans(entries, plans));
  const watch = watchFiles(() => {
    try {
      const keys = apiKeysOf(config, readFileSync);
      ring = ringOf(keys);
      log.info({ file, keys: keys.length }, 'the API keys were read again');
      // Not refused as at the start: the same change may revoke a key.
      const [problem] = unknownPlans(keys, plans);
      if (problem !== undefined) {
        log.error(
          { file, problem },
          'an API key has a plan that there is not: it is accepted without a plan',
        );
      }
    } catch (failure) {
      const problem = failure instanceof Error ? failure.message : String(failure);
      log.error({ file, problem }, 'the API keys cannot be read again; those from before stay in use');
    }
  });
  closing.push(() => watch.close());
  // Before it is read for the first time: a change in between must not go unseen.
  watch.watch(file === undefined ? [] : [file]);
  let ring = ringOf(apiKeysOf(config, readFileSync));
  return {
    places: settings,
    // The wall clock: keys expire at a date.
    find: (secret) => ring.find(secret, Date.now()),
    names: { has: (name) => ring.names.has(name), ownerOf: (secret) => ring.names.ownerOf(secret) },
  };
}

type WatchedKeys = NonNullable<IdentifierParts['apiKeys']> & Pick<ConfiguredIdentity, 'names'>;

interface TokenMaking extends IdentityMaking {
  readonly own: UrlPolicyOptions;
}

async function tokens(jwt: JwtConfig, making: TokenMaking): Promise<IdentifierParts['jwt']> {
  // Gateways without tokens do not load what checks them.
  const { TokenVerifier } = await import('../identity/jwt/token-verifier.ts');
  const keys = jwt.jwks.url === undefined ? await keysOfFile(jwt, making) : await keysOfUrl(jwt, making);
  making.closing.push(() => keys.close());
  const verifier = new TokenVerifier({ settings: jwt, keys, claims: wantedClaims(making.config) });
  return { places: jwt, onInvalid: jwt.on_invalid, verify: (token) => verifier.verify(token) };
}

/** The claims that a key strategy or a backend asks for. */
function wantedClaims({ rate_limit: limits }: Config): readonly string[] {
  const claims = strategyParts(limits).flatMap((key) =>
    key.type === 'jwtClaim' && key.verified ? [key.claim] : [],
  );
  return [...new Set(['sub', ...claims])].toSorted();
}

async function keysOfUrl(
  { jwks }: JwtConfig,
  { tools: { log, count }, own }: TokenMaking,
): Promise<KeySource> {
  const [{ FetchedKeys }, { fetchKeySet }] = await Promise.all([
    import('../identity/jwt/fetched-keys.ts'),
    import('../identity/jwt/fetched-keys.ts'),
  ]);
  const { url = '', timeout: timeoutMs } = jwks;
  const { hostname: host, port } = targetOf(new URL(url).origin);
  const addresses = new UrlPolicy({ ...ANY_URL, deny_private_networks: !jwks.allow_private_network }, own);
  const request = {
    url,
    timeoutMs,
    tls: tlsOptions(jwks.tls),
    refusesAddress: (address: string) => addresses.refusesAddress({ host, port }, address),
  };
  return new FetchedKeys({
    fetch: async (signal) => fetchKeySet(request, signal),
    refreshMs: jwks.refresh,
    cooldownMs: jwks.cooldown,
    waitMs: jwks.wait,
    timeoutMs,
    maxStaleMs: jwks.max_stale,
    log,
    observe: (outcome) => count('tokenKeyFetches', outcome),
  });
}

/** The operator names the URL; what it leads to is checked where it is dialled. */
const ANY_URL = { allowed_schemes: ['http', 'https'] as const, allowed_hosts: [], allowed_ports: [] };

async function keysOfFile(
  { jwks: { file = '' } }: JwtConfig,
  { tools: { log }, closing }: TokenMaking,
): Promise<KeySource> {
  const { PlacedKeys: Keys } = await import('../identity/jwt/key-set.ts');
  const watch = watchFiles(() => {
    try {
      keys.replace(readFileSync(file, 'utf8'));
      log.info({ file }, 'the keys for tokens were read again');
    } catch (failure) {
      const problem = failure instanceof Error ? failure.message : String(failure);
      log.error({ file, problem }, 'the keys for tokens cannot be read again; those from before stay in use');
    }
  });
  closing.push(() => watch.close());
  watch.watch([file]);
  const text = readNamedFile(JWKS_FILE, file) ?? '';
  const keys: PlacedKeys = readKeyFile({ file, text }, () => new Keys(text));
  return keys;
}
