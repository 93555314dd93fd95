import { networkInterfaces } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import { readNamedFile } from '../config/problem.ts';
import type { LimitsSourceObserver, ObservedLimitsSource } from '../external/limits-source.ts';
import { UrlPolicy, type UrlPolicyOptions } from '../proxy/upstreams/url-policy.ts';
import type { Log } from '../telemetry/log.ts';
import { namedFiles } from './named-files.ts';

/** The external service, and all that it depends on. */
export interface ConfiguredLimitsSource {
  readonly source: ObservedLimitsSource;
  readonly plan: object;
}

export interface LimitsSourceTools {
  readonly log: Log;
  /** Hears what the source does, for metrics. */
  readonly limitsObserver: LimitsSourceObserver;
}

/** The service that a configuration names; the given one if that is it, with the answers that it knows. */
export async function configuredLimitsSource(
  config: Config,
  { log, limitsObserver }: LimitsSourceTools,
  current?: ConfiguredLimitsSource,
): Promise<ConfiguredLimitsSource | undefined> {
  if (!config.rate_limit.external.enabled) return undefined;
  const plan = planOf(config);
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  // Half of the time that a gateway takes to start would be for its clients, which most gateways do not need.
  const { createLimitsSource } = await import('../external/create-limits-source.ts');
  const urls = new UrlPolicy(config.backend.url_policy, ownListeners(config));
  const source = createLimitsSource({
    config,
    log,
    observer: limitsObserver,
    backendUrlComplaint: (url) => {
      const checked = urls.check(url);
      return checked.refused === undefined ? undefined : `${checked.refused}: ${checked.detail}`;
    },
  });
  return { source, plan };
}

function planOf(config: Config): object {
  const { rate_limit: limits, redis, cache_redis: cache, backend } = config;
  const { external, failure_policy: failurePolicy } = limits;
  const files = namedFiles(config)
    .filter(({ path: [section] }) => section !== 'backend')
    .map(({ path, file }) => readNamedFile(path, file));
  const { ownListeners: listeners } = ownListeners(config);
  return { external, failurePolicy, redis, cache, urls: backend.url_policy, listeners, files };
}

/** Where requests must not be sent: they would come back. */
export function ownListeners({ server, admin }: Config): UrlPolicyOptions {
  const addresses = admin.enabled ? [server.address, admin.address] : [server.address];
  return {
    ownListeners: addresses.map((address) => {
      const { host, port } = splitHostPort(address);
      return { host: host === '' ? '::' : host, port };
    }),
    ownAddresses: Object.values(networkInterfaces()).flatMap((found = []) =>
      found.map(({ address }) => address),
    ),
  };
}
