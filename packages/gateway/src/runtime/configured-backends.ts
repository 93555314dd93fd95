import { networkInterfaces } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../config/config.ts';
import type { Path } from '../config/path.ts';
import { createUpstreams, type ConfiguredUpstreams } from '../proxy/upstreams/configured-upstreams.ts';
import type { UrlPolicyOptions } from '../proxy/upstreams/tenant-backends.ts';
import type { Log } from '../telemetry/log.ts';
import type { BackendHealth } from '../telemetry/metric.ts';

/** The services behind the gateway: `backend`, and `backends` by name. */
export interface ConfiguredBackends {
  readonly upstreams: ConfiguredUpstreams;
  readonly backends: ReadonlyMap<string, ConfiguredUpstreams>;
}

/** What a configuration names; of the backends in use, those that fit are kept, with their connections. */
export function configuredBackends(
  config: Config,
  log: Log,
  current?: ConfiguredBackends & { readonly config: Config },
): ConfiguredBackends {
  const options = { log, ...ownListeners(config) };
  // They also know where this gateway listens: requests must not come back.
  const before = current === undefined ? undefined : ownListeners(current.config).ownListeners;
  const mayKeep = isDeepStrictEqual(before, options.ownListeners);
  const { url_policy } = config.backend;
  const open = (
    backend: Config['backends'][string],
    section: Path,
    inUse: ConfiguredUpstreams | undefined,
  ): ConfiguredUpstreams => {
    const plan = { ...backend, url_policy };
    return mayKeep && inUse?.fits(plan) === true ? inUse : createUpstreams(plan, options, section);
  };
  const opened: ConfiguredUpstreams[] = [];
  try {
    const upstreams = open(config.backend, ['backend'], current?.upstreams);
    opened.push(upstreams);
    const backends = new Map<string, ConfiguredUpstreams>();
    for (const [name, backend] of Object.entries(config.backends)) {
      const named = open(backend, ['backends', name], current?.backends.get(name));
      opened.push(named);
      backends.set(name, named);
    }
    return { upstreams, backends };
  } catch (failure) {
    const inUse = current === undefined ? [] : allBackends(current);
    for (const one of opened) if (!inUse.includes(one)) void one.close({ force: true });
    throw failure;
  }
}

export function allBackends({ upstreams, backends }: ConfiguredBackends): readonly ConfiguredUpstreams[] {
  return [upstreams, ...backends.values()];
}

/** Every server once, also if several backends have it. */
export function backendHealth(backends: ConfiguredBackends): readonly BackendHealth[] {
  const byOrigin = new Map<string, BackendHealth>();
  for (const health of allBackends(backends).flatMap((one) => one.health())) {
    const known = byOrigin.get(health.origin);
    byOrigin.set(health.origin, known === undefined ? health : merged(known, health));
  }
  return [...byOrigin.values()];
}

function merged(one: BackendHealth, other: BackendHealth): BackendHealth {
  return {
    origin: one.origin,
    healthy: one.healthy && other.healthy,
    inFlight: one.inFlight + other.inFlight,
    lastError: one.lastError ?? other.lastError,
  };
}

/** Where requests must not be sent: they would come back, or reach what is not meant for clients. */
export function ownListeners({ server, admin, service }: Config): UrlPolicyOptions {
  const addresses = [
    server.address,
    ...(admin.enabled ? [admin.address] : []),
    ...(service === undefined ? [] : [service.address]),
  ];
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
