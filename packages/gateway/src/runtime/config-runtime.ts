import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { keyNames, type KeyNames } from '../config/schema/key-names.ts';
import { hasBackend } from '../config/load-config.ts';
import type { Path } from '../config/path.ts';
import { type Origin, readNamedFile } from '../config/problem.ts';
import type { LimitsSourceObserver, ObservedLimitsSource } from '../external/limits-source.ts';
import { loadServerTls, type ServerTls } from '../proxy/tls/server-tls.ts';
import { configuredFleetStore, type ConfiguredFleetStore } from '../fleet/settings-store.ts';
import { UrlPolicy } from '../proxy/upstreams/tenant-backends.ts';
import { createPolicies } from '../rules/compiled-rule.ts';
import type { DecisionHistory } from '../rules/explain/decision-history.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import { createRuleEngine } from '../rules/rule-engine.ts';
import type { DecisionListener, RuleEngine, RuleOutcome, DelayListener } from '../rules/rule-outcome.ts';
import { readDescriptorFiles, type DescriptorFiles } from '../service/rls/descriptor-directory.ts';
import { serviceSnapshot, type ServiceSnapshot } from '../service/snapshot.ts';
import type { Log } from '../telemetry/log.ts';
import type { RequestTracer } from '../telemetry/tracing.ts';
import {
  allBackends,
  configuredBackends,
  ownListeners,
  type ConfiguredBackends,
} from './configured-backends.ts';
import type { Identifier } from '../identity/identity.ts';
import { configuredIdentity, type ConfiguredIdentity, type IdentityTools } from './configured-identity.ts';
import { configuredEdge, type ConfiguredEdge, type EdgeTools } from './configured-edge.ts';
import { awaitStore, configuredLimiter, type ConfiguredLimiter } from './configured-limiter.ts';
import { namedFiles } from './named-files.ts';

/** A configuration that was read without an error. */
export interface ReadConfig {
  readonly config: Config;
  readonly originOf: (path: Path) => Origin;
  readonly fileText: string | undefined;
}

/** Everything that belongs to one configuration. */
export interface ConfigRuntime extends ConfiguredBackends, ConfiguredEdge {
  readonly read: ReadConfig;
  readonly config: Config;
  readonly limiter: ConfiguredLimiter;
  readonly policies: ReadonlyMap<string, Policy>;
  readonly limitsSource: ConfiguredLimitsSource | undefined;
  /** Undefined where nobody can prove who they are. */
  readonly identity: ConfiguredIdentity | undefined;
  readonly identifier: Identifier | undefined;
  /** Which API keys there are. */
  readonly keys: KeyNames;
  /** Undefined without TLS. */
  readonly serverTls: ServerTls | undefined;
  /** Undefined without a service, or without TLS there. */
  readonly serviceTls: ServerTls | undefined;
  readonly ruleEngine: PendingRules;
  /** For requests that wait for others than the rules. */
  readonly hold: () => () => void;
  /** Where this instance meets others; undefined in a worker. */
  readonly fleetStore: ConfiguredFleetStore | undefined;
  /** What the folder of descriptors held. */
  readonly descriptorFiles: DescriptorFiles;
  /** What the decision service asks. */
  readonly service: ServiceSnapshot;
  /** Undefined without traces. */
  readonly tracing: ConfiguredTracer | undefined;
  readonly tracer: RequestTracer['start'] | undefined;
  readonly parts: OpenParts;
}

/** What active are made with, whatever the configuration says. */
export interface ConfigRuntimeTools extends LimitsSourceTools, IdentityTools, TracerTools, EdgeTools {
  readonly onDecision: DecisionListener;
  /** One of several processes: the primary one knows the other instances. */
  readonly worker?: boolean | undefined;
  /** Keeps the last decisions. */
  readonly history?: DecisionHistory | undefined;
}

/**
 * Builds what a configuration asks for, and keeps of the current runtime what fits. Rejects before anything has
 * changed.
 */
export async function buildConfigRuntime(
  read: ReadConfig,
  tools: ConfigRuntimeTools,
  current?: ConfigRuntime,
): Promise<ConfigRuntime> {
  const { config } = read;
  const parts = new OpenParts();
  try {
    const tracing = parts.opened(await configuredTracer(config, tools, current?.tracing));
    const { serverTls, serviceTls } = configuredTls(config, tools.log, current);
    parts.opened(serverTls);
    parts.opened(serviceTls);
    const limiter = configuredLimiter(config, current?.limiter);
    parts.opened(limiter.limiter);
    const backends = configuredBackends(config, tools.log, current);
    for (const backend of allBackends(backends)) parts.opened(backend);
    const edge = await configuredEdge(config, tools, current);
    parts.opened(edge.authorizer);
    parts.opened(edge.usage);
    const limitsSource = await configuredLimitsSource(config, tools, current?.limitsSource);
    parts.opened(limitsSource?.source);
    const known = { current: current?.identity, own: ownListeners(config) };
    const identity = parts.opened(await configuredIdentity(config, tools, known));
    if (limiter.limiter !== current?.limiter.limiter) await awaitStore(limiter, tools.log);
    const fleetStore = tools.worker === true ? undefined : configuredFleetStore(config, current?.fleetStore);
    parts.opened(fleetStore);
    const who = { identity, identifier: identity?.identifier, keys: identity?.names ?? keyNames([]) };
    const policies = createPolicies(config, who.keys);
    const files = readDescriptorFiles(config.service?.rls);
    const { log, onDecision, history } = tools;
    const shared = { ...who, limiter: limiter.limiter, policies };
    const asked = { ...shared, limitsSource: limitsSource?.source, log, onDecision };
    const onOutcome = (request: RequestFacts, outcome: RuleOutcome): void =>
      history?.record(request, outcome, config);
    const pendingRules = new PendingRules(createRuleEngine(config, { ...asked, onOutcome }));
    return {
      read,
      config,
      limiter,
      policies,
      limitsSource,
      ...who,
      serverTls,
      serviceTls,
      ...backends,
      ...edge,
      ruleEngine: pendingRules,
      hold: pendingRules.hold,
      service: serviceSnapshot(config, { ...shared, ruleEngine: pendingRules, files, tracing }),
      descriptorFiles: files,
      fleetStore,
      tracing,
      tracer: tracing?.tracer.start,
      parts,
    };
  } catch (failure) {
    void parts.close({ kept: current?.parts, force: true });
    throw failure;
  }
}

interface OpenPart {
  /** Unless it is forced, requests that need it may end first. */
  close(how: { readonly force: boolean }): unknown;
}

/** All that a runtime has opened. What another runtime keeps of it is the same object there. */
class OpenParts {
  private readonly parts = new Set<OpenPart>();

  opened<Part extends OpenPart | undefined>(part: Part): Part {
    if (part !== undefined) this.parts.add(part);
    return part;
  }

  equals({ parts }: OpenParts): boolean {
    return this.parts.size === parts.size && [...this.parts].every((part) => parts.has(part));
  }

  /** All but those that another runtime keeps. */
  async close({
    kept,
    force,
  }: {
    readonly kept?: OpenParts | undefined;
    readonly force: boolean;
  }): Promise<void> {
    const leaving = [...this.parts].filter((part) => kept?.parts.has(part) !== true);
    await Promise.all(leaving.map(async (part) => part.close({ force })));
  }
}

/** Files beside the configuration that are looked at for changes. */
export function watchedFiles({ config, descriptorFiles }: ConfigRuntime): readonly string[] {
  return [...namedFiles(config).map(({ file }) => file), ...descriptorFiles.texts.keys()];
}

/** Whether both do the same. What is rebuilt although the text is the same: a file that it names has changed. */
export function sameConfigRuntime(one: ConfigRuntime, other: ConfigRuntime): boolean {
  return (
    isDeepStrictEqual(one.config, other.config) &&
    isDeepStrictEqual(one.descriptorFiles.texts, other.descriptorFiles.texts) &&
    one.limiter === other.limiter &&
    one.parts.equals(other.parts)
  );
}

/** At the end: how long costs may take to be settled. */
const SETTLING_MS = 2000;

/** Time for a request that has just passed the old rules to take its connection. */
const HANDOVER_MS = 1000;

/**
 * Lets go of what the next runtime does not use, as soon as no request needs it: nobody waits for these rules or older
 * ones.
 */
export async function retireConfigRuntime(
  old: ConfigRuntime,
  next: ConfigRuntime,
  idle: Promise<unknown>,
): Promise<void> {
  await idle;
  await new Promise((resolve) => {
    setTimeout(resolve, HANDOVER_MS).unref();
  });
  await old.parts.close({ kept: next.parts, force: false });
}

/** A runtime that was never taken into use. */
export async function discardConfigRuntime(runtime: ConfigRuntime, inUse: ConfigRuntime): Promise<void> {
  await runtime.parts.close({ kept: inUse.parts, force: true });
}

/** At the end, when no request is left. */
export async function closeConfigRuntime({ ruleEngine, parts }: ConfigRuntime): Promise<void> {
  // Costs that are still being settled; what does not come to it counts as it was reserved.
  await Promise.race([ruleEngine.idle(), delay(SETTLING_MS, undefined, { ref: false })]);
  await parts.close({ force: true });
}

type ConfiguredTls = Pick<ConfigRuntime, 'serverTls' | 'serviceTls'>;

/** The certificates of both servers; those in use where nothing about them changed. */
function configuredTls({ server, service }: Config, log: Log, current?: ConfigRuntime): ConfiguredTls {
  const before = current?.config;
  const kept = (settings: TlsPlan, earlier: TlsPlan): boolean => isDeepStrictEqual(settings, earlier);
  const serverTls = kept(server.tls, before?.server.tls)
    ? current?.serverTls
    : loadedTls(server.tls, log, 'server');
  try {
    const serviceTls = kept(service?.tls, before?.service?.tls)
      ? current?.serviceTls
      : loadedTls(service?.tls, log, 'service');
    return { serverTls, serviceTls };
  } catch (failure) {
    if (serverTls !== current?.serverTls) serverTls?.close();
    throw failure;
  }
}

type TlsPlan = Config['server']['tls'] | undefined;

function loadedTls(plan: TlsPlan, log: Log, section: string): ServerTls | undefined {
  return plan?.enabled === true ? loadServerTls(plan, { log, section: [section, 'tls'] }) : undefined;
}

/** A tracer, and all that it depends on. */
interface ConfiguredTracer {
  readonly tracer: RequestTracer;
  readonly plan: Config['tracing'];
  readonly close: OpenPart['close'];
}

interface TracerTools {
  readonly log: Log;
  readonly version: string;
}

/** The tracer that a configuration asks for; the given one if that is it. */
async function configuredTracer(
  { tracing: plan }: Config,
  { log, version }: TracerTools,
  current?: ConfiguredTracer,
): Promise<ConfiguredTracer | undefined> {
  if (current !== undefined && isDeepStrictEqual(current.plan, plan)) return current;
  // Without traces nothing of the SDK is loaded.
  if (!plan.enabled) return undefined;
  const { otlpTracer } = await import('../telemetry/otlp-tracer.ts');
  const tracer = otlpTracer({ config: plan, version, log });
  const close: OpenPart['close'] = async ({ force }) => {
    if (!force) await tracer.idle();
    await tracer.close();
  };
  return { tracer, plan, close };
}

/** Rules that know whether requests still wait for them: what they need next may only go when none does. */
class PendingRules implements RuleEngine {
  private readonly ruleEngine: RuleEngine;
  private waiting = 0;
  private readonly idleListeners: (() => void)[] = [];

  constructor(ruleEngine: RuleEngine) {
    this.ruleEngine = ruleEngine;
  }

  decide(request: RequestFacts, waiter?: DelayListener): RuleOutcome | Promise<RuleOutcome> {
    const ruling = this.ruleEngine.decide(request, waiter);
    if (!(ruling instanceof Promise)) return ruling;
    const leave = this.hold();
    // Beside the request, which hears of it right after: what it needs next is still there.
    // What it was charged is settled later, with the same store.
    void ruling.then(({ charge }) => (charge === undefined ? leave() : charge.ended.then(leave)), leave);
    return ruling;
  }

  /** Somebody waits, until the function is called that it answers. */
  readonly hold = (): (() => void) => {
    this.waiting += 1;
    return this.leave;
  };

  /** Resolves as soon as nobody waits. */
  async idle(): Promise<void> {
    if (this.waiting === 0) return;
    await new Promise<void>((resolve) => {
      this.idleListeners.push(resolve);
    });
  }

  private readonly leave = (): void => {
    this.waiting -= 1;
    if (this.waiting === 0) for (const tell of this.idleListeners.splice(0)) tell();
  };
}

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
async function configuredLimitsSource(
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
    .filter(({ path: [section] }) => ['redis', 'cache_redis', 'rate_limit'].includes(String(section)))
    .map(({ path, file }) => readNamedFile(path, file));
  const { ownListeners: listeners } = ownListeners(config);
  return { external, failurePolicy, redis, cache, urls: backend.url_policy, listeners, files };
}

/** Such requests get a 502: the demo service would echo secrets back. */
export function logMissingBackend(config: Config, log: Log): void {
  if (hasBackend(config)) return;
  if (config.rate_limit.external.enabled) {
    log.warn({}, 'no backend is configured: requests get a 502 unless the limits service names one');
  } else log.error({}, 'no backend is configured: every request gets a 502. Set backend.url');
}
