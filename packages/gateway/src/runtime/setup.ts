import { isDeepStrictEqual } from 'node:util';
import type { Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { hasBackend } from '../config/missing-backend.ts';
import type { Path } from '../config/path.ts';
import type { Origin } from '../config/problem.ts';
import { loadServerTls, type ServerTls } from '../proxy/tls/server-tls.ts';
import { createUpstreams, type ConfiguredUpstreams } from '../proxy/upstreams/configured-upstreams.ts';
import { createGate } from '../rules/create-gate.ts';
import type { DecisionListener } from '../rules/decision-record.ts';
import { createPolicies } from '../rules/policies.ts';
import type { Log } from '../telemetry/log.ts';
import { configuredLimiter, type ConfiguredLimiter } from './configured-limiter.ts';
import {
  configuredLimitsSource,
  ownListeners,
  type ConfiguredLimitsSource,
  type LimitsSourceTools,
} from './configured-limits-source.ts';
import { WaitingGate } from './waiting-gate.ts';

/** A configuration that was read without an error. */
export interface ReadConfig {
  readonly config: Config;
  readonly originOf: (path: Path) => Origin;
  readonly fileText: string | undefined;
}

/** Everything that belongs to one configuration. */
export interface Setup {
  readonly read: ReadConfig;
  readonly config: Config;
  readonly limiter: ConfiguredLimiter;
  readonly policies: ReadonlyMap<string, Policy>;
  readonly limitsSource: ConfiguredLimitsSource | undefined;
  /** Undefined without TLS. */
  readonly serverTls: ServerTls | undefined;
  readonly upstreams: ConfiguredUpstreams;
  readonly gate: WaitingGate;
}

/** What setups are made with, whatever the configuration says. */
export interface SetupTools extends LimitsSourceTools {
  readonly onDecision: DecisionListener;
  /** Where requests go while the configuration names no backend. */
  readonly demoOrigin: () => string;
}

/** Builds what a configuration asks for, and keeps of the current setup what fits. Throws before anything has changed. */
export function buildSetup(read: ReadConfig, tools: SetupTools, current?: Setup): Setup {
  const { config } = read;
  const opened: (() => unknown)[] = [];
  try {
    const serverTls = serverTlsOf(config, tools.log, current);
    if (serverTls !== current?.serverTls) opened.push(() => serverTls?.close());
    const limiter = configuredLimiter(config, current?.limiter);
    if (limiter !== current?.limiter) opened.push(async () => limiter.limiter.close());
    const backend = backendOf(config, tools.demoOrigin);
    const kept = current?.upstreams.fits(backend) === true ? current.upstreams : undefined;
    const upstreams = kept ?? createUpstreams(backend, { log: tools.log, ...ownListeners(config) });
    if (kept === undefined) opened.push(async () => upstreams.close({ force: true }));
    const limitsSource = configuredLimitsSource(config, tools, current?.limitsSource);
    if (limitsSource !== current?.limitsSource) opened.push(async () => limitsSource?.source.close());
    const policies = createPolicies(config);
    const gate = createGate(config, {
      limiter: limiter.limiter,
      policies,
      limitsSource: limitsSource?.source,
      log: tools.log,
      onDecision: tools.onDecision,
    });
    return {
      read,
      config,
      limiter,
      policies,
      limitsSource,
      serverTls,
      upstreams,
      gate: new WaitingGate(gate),
    };
  } catch (failure) {
    for (const close of opened) close();
    throw failure;
  }
}

/** Time for a request that has just passed the old gate to take its connection. */
const HANDOVER_MS = 1000;

/** Lets go of what the next setup does not use, as soon as no request needs it: nobody waits at this gate or an older one. */
export async function retireSetup(old: Setup, next: Setup, idle: Promise<unknown>): Promise<void> {
  await idle;
  await new Promise((resolve) => {
    setTimeout(resolve, HANDOVER_MS).unref();
  });
  if (old.serverTls !== next.serverTls) old.serverTls?.close();
  await Promise.all([
    old.upstreams === next.upstreams ? undefined : old.upstreams.close(),
    old.limitsSource === next.limitsSource ? undefined : old.limitsSource?.source.close(),
    old.limiter === next.limiter ? undefined : old.limiter.limiter.close(),
  ]);
}

/** At the end, when no request is left. */
export async function closeSetup({ serverTls, upstreams, limitsSource, limiter }: Setup): Promise<void> {
  serverTls?.close();
  await Promise.all([
    upstreams.close({ force: true }),
    limitsSource?.source.close(),
    limiter.limiter.close(),
  ]);
}

function serverTlsOf({ server: { tls } }: Config, log: Log, current?: Setup): ServerTls | undefined {
  if (!tls.enabled) return undefined;
  return current?.serverTls !== undefined && isDeepStrictEqual(current.config.server.tls, tls)
    ? current.serverTls
    : loadServerTls(tls, { log });
}

function backendOf(config: Config, demoOrigin: () => string): Config['backend'] {
  return hasBackend(config) ? config.backend : { ...config.backend, url: demoOrigin() };
}
