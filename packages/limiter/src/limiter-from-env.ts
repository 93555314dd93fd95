import type { Clock } from './clock.ts';
import { createLimiter } from './create-limiter.ts';
import type { DistributedStoreSettings } from './distributed-settings.ts';
import { parseDuration } from './duration.ts';
import { LimiterError, show } from './errors.ts';
import type { Limiter } from './limiter.ts';
import type { Policy } from './limit.ts';
import { requireOptionNames } from './options.ts';
import { processWarning } from './process-warning.ts';
import type { WindowNumbers } from './algorithms/window.ts';
import { slidingWindowLog } from './policy.ts';
import type { Store } from './stores/store.ts';

export interface LimiterFromEnvOptions {
  /** Makes the store when `DISTRIBUTED_RATE_LIMIT_ENABLED` is true; without it limits are per instance. */
  readonly createStore?: ((settings: DistributedStoreSettings) => Store) | undefined;
  readonly clock?: Clock | undefined;
}

export interface LimiterFromEnv {
  readonly limiter: Limiter;
  /**
   * `DISTRIBUTED_RATE_LIMIT_MAX` in any `DISTRIBUTED_RATE_LIMIT_WINDOW`; give single tokens other numbers with
   * `override`.
   */
  readonly policy: Policy<WindowNumbers>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * A limiter and its policy from environment variables.
 *
 * @example
 * const { limiter, policy } = limiterFromEnv(process.env);
 * const decision = await limiter.check(policy.for(apiToken));
 */
export function limiterFromEnv(env: Environment | null, options: LimiterFromEnvOptions = {}): LimiterFromEnv {
  requireOptionNames('The options of limiterFromEnv()', options, ['createStore', 'clock']);
  if (typeof env !== 'object' || env === null) {
    throw new LimiterError(
      'INVALID_ENVIRONMENT',
      `The environment is ${show(env)}; expected an object of texts: pass process.env.`,
    );
  }
  const { createStore } = options;
  if (createStore !== undefined && typeof createStore !== 'function') {
    throw new LimiterError(
      'INVALID_OPTION',
      `createStore is ${show(createStore)}; expected a function that takes the settings and returns a store, such as ({ address }) => redisStore({ url: \`redis://\${address}\` }).`,
    );
  }
  const enabled = readBoolean(env, 'DISTRIBUTED_RATE_LIMIT_ENABLED', false);
  const fallback = readBoolean(env, 'DISTRIBUTED_RATE_LIMIT_FALLBACK', true);
  const settings = readStoreSettings(env, enabled);
  warnOfUnknown(env);
  const policy = slidingWindowLog({
    name: 'token',
    quota: readInteger(env, 'DISTRIBUTED_RATE_LIMIT_MAX', { min: 1, max: 1_000_000_000, absent: 60 }),
    window: readWindowMs(env),
  });
  const limiter = createLimiter({
    store: enabled ? distributedStore(settings, options) : undefined,
    failurePolicy: fallback ? 'inMemoryFallback' : 'failClosed',
    clock: options.clock,
  });
  return { limiter, policy };
}

function distributedStore(settings: DistributedStoreSettings, { createStore }: LimiterFromEnvOptions): Store {
  if (createStore !== undefined) return createStore(settings);
  throw new LimiterError(
    'STORE_REQUIRED',
    `DISTRIBUTED_RATE_LIMIT_ENABLED is "true", but no store was supplied for ${settings.addresses.join(', ')}: ` +
      'pass createStore to limiterFromEnv(), or set the variable to "false" for limits per instance.',
  );
}

function readStoreSettings(env: Environment, enabled: boolean): DistributedStoreSettings {
  // Often another program's: of no interest while nothing is to be reached.
  const url = enabled ? readUrl(env) : undefined;
  return {
    addresses: url === undefined ? readAddresses(env) : [addressIn(url)],
    url,
    database: readInteger(env, 'REDIS_DB', { min: 0, max: 65_535, absent: 0 }),
    username: read(env, 'REDIS_USERNAME'),
    password: read(env, 'REDIS_PASSWORD'),
    prefix: readPrefix(env),
  };
}

/** Platforms set it by themselves: addresses that somebody chose go first. */
function readUrl(env: Environment): string | undefined {
  const value = read(env, 'REDIS_URL');
  if (value === undefined) return undefined;
  const chosen = ['REDIS_ADDRS', 'REDIS_ADDR'].find((name) => read(env, name) !== undefined);
  if (chosen !== undefined) {
    warnOfUnused('REDIS_URL', `${chosen} names the servers`);
    return undefined;
  }
  if (/^rediss?:\/\/./.test(value) && URL.canParse(value)) return value;
  // It may be a password.
  throw new LimiterError(
    'INVALID_ENVIRONMENT',
    'REDIS_URL is not the URL of a Redis server; expected redis://host:port or rediss://host:port, or unset it.',
  );
}

const DEFAULT_PORT = 6379;

function addressIn(url: string): string {
  const { hostname, port } = new URL(url);
  return `${hostname}:${port === '' ? DEFAULT_PORT : port}`;
}

function warnOfUnused(name: string, why: string): void {
  processWarning(`${name} is set, but not used: ${why}.`, 'SPILLGATE_UNUSED_VARIABLE');
}

const PREFIX = 'DISTRIBUTED_RATE_LIMIT_';
const KNOWN: ReadonlySet<string> = new Set(
  ['ENABLED', 'MAX', 'WINDOW', 'FALLBACK', 'PREFIX'].map((name) => PREFIX + name),
);
/** Of more than that somebody else is the author. */
const MAX_UNKNOWN = 5;

/** A variable that is misspelled has no effect, and nobody would notice. */
function warnOfUnknown(env: Environment): void {
  const unknown = Object.keys(env).filter((name) => name.startsWith(PREFIX) && !KNOWN.has(name));
  for (const name of unknown.slice(0, MAX_UNKNOWN)) {
    warnOfUnused(name, `the variables of this name are ${[...KNOWN].join(', ')}`);
  }
}

function read(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value === '' ? undefined : value;
}

function readBoolean(env: Environment, name: string, absent: boolean): boolean {
  const value = read(env, name);
  if (value === undefined) return absent;
  if (['true', '1', 'yes', 'on'].includes(value.toLowerCase())) return true;
  if (['false', '0', 'no', 'off'].includes(value.toLowerCase())) return false;
  return invalid(name, value, 'expected true or false');
}

interface IntegerBounds {
  readonly min: number;
  readonly max: number;
  readonly absent: number;
}

function readInteger(env: Environment, name: string, { min, max, absent }: IntegerBounds): number {
  const value = read(env, name);
  if (value === undefined) return absent;
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  return number >= min && number <= max
    ? number
    : invalid(name, value, `expected an integer from ${min} to ${max}`);
}

function readWindowMs(env: Environment): number {
  const name = 'DISTRIBUTED_RATE_LIMIT_WINDOW';
  const value = read(env, name) ?? '1m';
  try {
    return parseDuration(value, { name, minUs: 1000, maxUs: 366 * 86_400_000_000 }) / 1000;
  } catch {
    return invalid(name, value, "expected 1ms to 366d with its unit, such as '30s', '1m' or '1h30m'");
  }
}

const MAX_ADDRESSES = 256;

function readAddresses(env: Environment): readonly string[] {
  const single = requireAddress('REDIS_ADDR', read(env, 'REDIS_ADDR') ?? 'localhost:6379');
  const name = 'REDIS_ADDRS';
  const value = read(env, name);
  if (value === undefined) return [single];
  const addresses = value.split(',').map((address) => requireAddress(name, address.trim()));
  if (addresses.length > MAX_ADDRESSES || new Set(addresses).size < addresses.length) {
    invalid(name, value, `expected up to ${MAX_ADDRESSES} different addresses with commas between them`);
  }
  return addresses;
}

function requireAddress(name: string, value: string): string {
  const port = /^(?:\[[\da-fA-F:.]+\]|[^\s:/@]+):(\d{1,5})$/.exec(value)?.[1];
  const valid = port !== undefined && Number(port) >= 1 && Number(port) <= 65_535;
  return valid
    ? value
    : invalid(
        name,
        withoutCredentials(value),
        'expected host:port with a port from 1 to 65535, such as localhost:6379',
      );
}

/** Nobody's password belongs into an error message. */
function withoutCredentials(address: string): string {
  return address.replace(/^.*@/s, '***@');
}

function readPrefix(env: Environment): string {
  const value = read(env, 'DISTRIBUTED_RATE_LIMIT_PREFIX') ?? 'ratelimit:';
  return /^[\w.:-]{1,64}$/.test(value)
    ? value
    : invalid(
        'DISTRIBUTED_RATE_LIMIT_PREFIX',
        value,
        "expected 1 to 64 letters, digits, '_', '-', '.' or ':'",
      );
}

function invalid(name: string, value: string, expected: string): never {
  throw new LimiterError(
    'INVALID_ENVIRONMENT',
    `${name} is ${show(value)}; ${expected}, or unset it for its default.`,
  );
}
