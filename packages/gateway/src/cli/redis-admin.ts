// The admin API without a gateway: the same endpoints, on what Redis holds.
import { createLimiter } from 'spillgate';
import {
  AppliedSettings,
  mergeActivities,
  openRedisFleet,
  readSummary,
  SharedSettings,
  type InstanceSummary,
  type PublishedPolicy,
  type RedisFleet,
} from 'spillgate/internal';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';
import type { GatewayControl } from '../admin/control.ts';
import { NO_CALLER, type AdminParts } from '../admin/endpoint.ts';
import { createRouter } from '../admin/endpoints.ts';
import { FLEET_ENDPOINTS } from '../admin/fleet-endpoints.ts';
import { asWritten, GATEWAY_ENDPOINTS } from '../admin/gateway-endpoints.ts';
import { KEY_ENDPOINTS } from '../admin/key-endpoints.ts';
import { AdminProblem } from '../admin/problems.ts';
import { configSchema, type Config } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { UNKNOWN_KEYS, type KeyNames } from '../config/schema/key-names.ts';
import { DEFAULT_POLICY } from '../config/schema/rate-limit.ts';
import { maskedUrl } from '../config/shown.ts';
import { keyNamesOf } from '../identity/api-keys/key-file.ts';
import type { FleetView } from '../fleet/fleet-view.ts';
import { configuredOverrides, createPolicies } from '../rules/compiled-rule.ts';
import type { AdminAnswer, AdminRequest } from './admin-client.ts';
import { type Host, CommandFailure } from './host.ts';

export interface RedisOptions {
  /** `redis://user:password@host:port/database` */
  readonly redis?: string | undefined;
  /** What the names of all keys start with. */
  readonly prefix?: string | undefined;
  /** Has the policies; without it they are those that running instances publish. */
  readonly config?: string | undefined;
}

const DEADLINE_MS = 5000;

/** What makes sense without a gateway. */
const ROUTE = createRouter([
  ...GATEWAY_ENDPOINTS.filter(({ id }) => id === 'policies'),
  ...KEY_ENDPOINTS,
  ...FLEET_ENDPOINTS,
]);

/** Answers as the admin server of a gateway would. */
export async function askRedis(
  host: Host,
  options: RedisOptions & { readonly redis: string },
  { method, path, body }: AdminRequest,
): Promise<AdminAnswer> {
  const place = placeOf(options);
  const origin = maskedUrl(options.redis);
  const fleet = openRedisFleet(place);
  const store = redisStore(place);
  const limiter = createLimiter({ store, deadlineMs: DEADLINE_MS, failurePolicy: 'failClosed' });
  try {
    const summaries = await readSummaries(fleet, origin);
    const config = options.config === undefined ? configOf(summaries) : configIn(host, options.config);
    const keys = options.config === undefined ? UNKNOWN_KEYS : keyNamesOf(config, host.readFile);
    const { parts, stop } = await partsOf({ config, keys }, fleet, limiter);
    try {
      const { endpoint, parameters, query } = ROUTE(method, path);
      const reply = await endpoint.run({ parameters, query, body, caller: NO_CALLER }, parts);
      return { origin, status: reply.status, body: JSON.parse(reply.body) };
    } catch (failure) {
      if (!(failure instanceof AdminProblem)) throw failure;
      return { origin, status: failure.status, body: failure.toJSON() };
    } finally {
      stop();
    }
  } finally {
    await Promise.all([limiter.close(), fleet.close()]);
  }
}

function placeOf({ redis, prefix }: RedisOptions & { readonly redis: string }): RedisStoreOptions {
  const url = URL.canParse(redis) ? new URL(redis) : undefined;
  if (url === undefined || !/^rediss?:$/.test(url.protocol)) {
    throw new CommandFailure(
      `--redis is ${JSON.stringify(maskedUrl(redis))}; expected redis://host:port, or rediss:// for TLS.`,
    );
  }
  const timeouts = { timeoutMs: DEADLINE_MS, connectTimeoutMs: DEADLINE_MS };
  return { url: redis, clientPackage: 'ioredis', ...timeouts, ...(prefix === undefined ? {} : { prefix }) };
}

async function readSummaries(fleet: RedisFleet, origin: string): Promise<readonly InstanceSummary[]> {
  try {
    return (await fleet.summaries()).flatMap((text) => readSummary(text) ?? []);
  } catch (failure) {
    const why = failure instanceof Error ? failure.message : 'it failed';
    throw new CommandFailure(`${origin} cannot be asked: ${why}`);
  }
}

interface OperatedParts {
  readonly parts: AdminParts;
  readonly stop: () => void;
}

async function partsOf(
  { config, keys }: { readonly config: Config; readonly keys: KeyNames },
  fleet: RedisFleet,
  limiter: ReturnType<typeof createLimiter>,
): Promise<OperatedParts> {
  const policies = createPolicies(config, keys);
  const applied = new AppliedSettings({
    policies: () => policies,
    configured: (policy, key) => configuredOverrides(config).get(policy)?.get(key) ?? null,
    // It is listed all the same.
    rejected: () => undefined,
  });
  const shared = new SharedSettings({ store: fleet, applied });
  await shared.start();
  const instances: FleetView['instances'] = async () =>
    (await fleet.summaries()).flatMap((text) => readSummary(text) ?? []);
  const view: FleetView = {
    id: undefined,
    keptIn: () => 'redis',
    settings: () => applied.all(),
    find: (id) => applied.find(id),
    set: async (setting) => shared.set(setting),
    remove: async (id) => shared.remove(id),
    instances,
    activity: async (most) => {
      const found = await instances();
      const activities = found.map(({ activity }) => activity);
      return { instances: found.length, activity: mergeActivities(activities, most) };
    },
  };
  const control: Pick<GatewayControl, 'live' | 'policies' | 'apiKeys' | 'limiter'> = {
    live: () => ({ config, originOf: () => ({ from: 'default' }), generation: 1, loadedAt: new Date() }),
    policies: () => policies,
    apiKeys: () => keys,
    limiter: () => limiter,
  };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the endpoints above read nothing else of a gateway
  return { parts: { control, fleet: view, version: '' } as unknown as AdminParts, stop: () => shared.stop() };
}

/** Of the file that `--config` names. */
export function configIn({ readFile, env }: Host, path: string): Config {
  let text: string;
  try {
    text = readFile(path);
  } catch {
    throw new CommandFailure(`--config names ${path}, which cannot be read.`);
  }
  const loaded = loadConfig({ file: { path, text }, env, readFile });
  if (loaded.ok) return loaded.config;
  throw new CommandFailure(`--config names ${path}, which has problems: see spillgate check ${path}.`);
}

/** The policies that running instances publish, as a configuration that has nothing else. */
function configOf(summaries: readonly InstanceSummary[]): Config {
  const policies = new Map(
    summaries.flatMap((summary) => summary.policies.map((policy) => [policy.name, policy] as const)),
  );
  if (policies.size === 0) {
    throw new CommandFailure(
      'No instance that runs publishes its policies in this Redis: name a configuration with --config, or another --prefix.',
    );
  }
  const parsed = configSchema.safeParse(writtenConfig([...policies.values()]));
  if (parsed.success) return parsed.data;
  throw new CommandFailure(
    'The policies in this Redis are of another version of the gateway: name a configuration with --config.',
  );
}

function writtenConfig(policies: readonly PublishedPolicy[]): object {
  const usual = policies.find(({ name }) => name === DEFAULT_POLICY);
  const named = policies.filter(({ name }) => name !== DEFAULT_POLICY);
  return {
    rate_limit: {
      ...(usual === undefined ? {} : asWritten(usual.numbers)),
      ...(usual?.key === undefined ? {} : { key_strategy: usual.key }),
      policies: Object.fromEntries(
        named.map(({ name, algorithm, numbers }) => [name, { algorithm, ...asWritten(numbers) }]),
      ),
      rules: named
        .filter(({ key }) => key !== undefined)
        .map(({ name, key }) => ({ name, match: {}, policies: [{ policy: name, key }] })),
    },
  };
}
