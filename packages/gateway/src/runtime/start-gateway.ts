import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Limiter } from 'spillgate';
import type { ConfigInUse, GatewayControl, MaintenanceState, ReloadResult } from '../admin/control.ts';
import type { AdminMetrics } from '../admin/endpoint.ts';
import { secretsOf } from '../config/effective.ts';
import { formatProblem, type ConfigProblem } from '../config/problem.ts';
import { limitsMetrics } from '../external/limits-source.ts';
import { startProxy } from '../proxy/start-proxy.ts';
import { createTunnels } from '../proxy/websocket/websocket-tunnels.ts';
import type { ObservedGateway } from '../telemetry/metric.ts';
import { createMetrics, type Metrics } from '../telemetry/metrics.ts';
import { backendHealth } from './configured-backends.ts';
import { NO_CHANGE, prepareAll, SerialQueue, type PreparedChange } from './listen.ts';
import {
  SideServers,
  servingByWorkers,
  servingHere,
  servingNothing,
  type Serving,
  Followed,
  FollowedTls,
} from './serving.ts';
import { keepToPlan, leaseForWorkers, storeProblem, logLimiter } from './configured-limiter.ts';
import { watchFiles, type FileWatch } from './named-files.ts';
import type { FleetMember } from '../fleet/fleet-member.ts';
import { fleetMetrics, WorkerFleet } from './worker-fleet.ts';
import { describeInstance, InstanceSettings } from './instance-settings.ts';
import { addressesOf, configFiles, type Gateway, type GatewayOptions } from './gateway.ts';
import { ActiveConfig } from './active-config.ts';
import { RequestExplainer, workerStories } from './request-explainer.ts';
import { logMissingBackend, watchedFiles, type ConfigRuntime } from './config-runtime.ts';

/**
 * Starts everything. Rejects with `ConfigRefused`, or with the system's error when an address cannot be listened on.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const files = watchFiles(
    () =>
      void opened.then(
        async (gateway) => gateway.reload(),
        () => undefined,
      ),
  );
  // Before it is read for the first time: a change in between must not go unseen.
  files.watch(configFiles(options));
  const opened = openGateway(options, files);
  return opened;
}

async function openGateway(options: GatewayOptions, files: FileWatch): Promise<Gateway> {
  const { logger, readConfig, readConfigAgain, version } = options;
  const metrics = createMetrics({ version, droppedLogLines: logger.dropped, onFinished: [logger.access] });
  const explainer = new RequestExplainer(logger);
  let gateway: RunningGateway | undefined;
  try {
    const active: ActiveConfig = await ActiveConfig.start({
      readConfig,
      readConfigAgain,
      tools: {
        log: logger,
        version,
        limitsObserver: limitsMetrics(metrics.traffic),
        count: (...counted) => metrics.traffic.count(...counted),
        onDecision: (record) => logger.decision(record),
        worker: options.worker === true,
        history: explainer.history,
      },
      prepare: async (next) => gateway?.prepare(next) ?? NO_CHANGE,
      swapped: (runtime) => gateway?.taken(runtime),
    });
    gateway = new RunningGateway(options, { files, metrics, active, explainer });
    await gateway.open();
    return gateway;
  } catch (failure) {
    if (gateway !== undefined) await gateway.close();
    files.close();
    throw failure;
  }
}

/** What a gateway is made of, whatever its configuration says. */
interface GatewayParts {
  readonly files: FileWatch;
  readonly metrics: Metrics;
  readonly active: ActiveConfig;
  readonly explainer: RequestExplainer;
}

class RunningGateway implements Gateway, ObservedGateway {
  readonly startedAt = new Date();
  // Functions rather than methods: who operates the gateway may take them apart.
  readonly phase = (): 'starting' | 'ready' | 'draining' => this.current;
  readonly live = (): ConfigInUse => this.active.live();
  readonly lastReload: GatewayControl['lastReload'] = () => this.active.lastReload();
  readonly reloads: GatewayControl['reloads'] = () => this.active.reloads();
  readonly checkConfig: GatewayControl['checkConfig'] = (text) => this.active.check(text);
  readonly limiter = (): Limiter => this.active.current().limiter.limiter;
  readonly storeProblem = async (): Promise<string | undefined> =>
    storeProblem(this.active.current().limiter);
  readonly policies = (): ConfigRuntime['policies'] => this.active.current().policies;
  readonly apiKeys = (): ConfigRuntime['keys'] => this.active.current().keys;
  /** One after the other, workers included. */
  readonly reload = new SerialQueue().coalesced(async () => this.reloadNow());
  readonly backends: GatewayControl['backends'] = () => backendHealth(this.active.current());
  readonly limitsService: ObservedGateway['limitsService'] = () =>
    this.active.current().limitsSource?.source.snapshot();
  readonly useSettings: Gateway['useSettings'] = (settings) => this.settings.use(settings);
  readonly processActivity: Gateway['processActivity'] = () => this.settings.processActivity();
  readonly maintenance = (): MaintenanceState =>
    this.parts.explainer.maintenance.stateFor(this.live().config);
  private readonly options: GatewayOptions;
  private readonly parts: GatewayParts;
  private readonly active: ActiveConfig;
  private readonly metrics: Metrics;
  private readonly settings: InstanceSettings;
  private readonly member: FleetMember;
  private readonly sideServers: SideServers;
  private serving: Serving | undefined;
  private fleet: WorkerFleet | undefined;
  private current: 'starting' | 'ready' | 'draining' = 'starting';
  private drained: Promise<void> | undefined;
  private readonly observed = new Followed<Limiter>();
  private readonly certificates = new FollowedTls();
  private readonly serviceCertificates = new FollowedTls();

  constructor(options: GatewayOptions, parts: GatewayParts) {
    this.options = options;
    this.parts = parts;
    this.active = parts.active;
    this.metrics = parts.metrics;
    this.metrics.observe(this);
    this.settings = new InstanceSettings(this, options.logger);
    if (options.settings !== undefined) this.useSettings(options.settings);
    this.member = this.settings.member({
      log: options.logger,
      describe: async () =>
        describeInstance(this, options.version, await this.adminMetrics().traffic.summary()),
      workers: () => this.fleet,
    });
    this.sideServers = new SideServers({
      options,
      control: this,
      metrics: () => this.adminMetrics(),
      moved: parts.metrics.traffic,
      fleet: this.member,
      runtime: this.active.current,
    });
    this.taken(this.active.current());
  }

  async open(): Promise<void> {
    const { config } = this.live();
    const { worker = false, serveOnly = false } = this.options;
    const { workers } = config.server;
    // Before the first request: what operators gave to single keys outlives a restart.
    await this.join();
    if (!worker && workers > 1) this.serving = await this.openFleet(workers);
    else {
      if (!serveOnly) this.serving = await this.openProxy();
      await this.sideServers.openService(config);
      this.serving ??= servingNothing(() => this.serviceAddress());
    }
    if (!worker) await this.sideServers.openAdmin(config);
    this.current = 'ready';
  }

  async prepareReload(): Promise<readonly ConfigProblem[]> {
    return this.active.prepare();
  }

  async abortReload(): Promise<void> {
    await this.active.abort();
  }

  /** Everything outside of a runtime that it needs. */
  async prepare(next: ConfigRuntime): Promise<PreparedChange> {
    const { serving, sideServers } = this;
    if (serving === undefined) return NO_CHANGE;
    const ownPorts = [serving.address().port, ...sideServers.ports()];
    return prepareAll([
      async () => serving.prepare(next, ownPorts),
      // Workers offer the service themselves.
      ...sideServers.preparations(next.config, ownPorts, { service: this.fleet === undefined }),
    ]);
  }

  get stories(): GatewayControl['stories'] {
    return this.fleet === undefined ? this.parts.explainer : workerStories(this.fleet);
  }

  address(): AddressInfo {
    if (this.serving === undefined) throw new Error('the gateway does not listen yet');
    return this.serving.address();
  }

  adminAddress(): AddressInfo | undefined {
    return this.sideServers.admin.address;
  }

  serviceAddress(): AddressInfo | undefined {
    return this.sideServers.service.address;
  }

  switchMaintenance(enabled: boolean | undefined): void {
    this.parts.explainer.maintenance.switch(enabled);
    this.fleet?.switchMaintenance(enabled);
  }

  async metricsJson(): ReturnType<Gateway['metricsJson']> {
    return this.metrics.registry.getMetricsAsJSON();
  }

  summary(): ReturnType<Gateway['summary']> {
    return this.metrics.traffic.summary();
  }

  async closePort(): Promise<void> {
    await this.serving?.closePort();
  }

  async drain(): Promise<void> {
    this.drained ??= this.drainInOrder();
    await this.drained;
  }

  /** At once, whatever requests are in flight. */
  async close(): Promise<void> {
    await this.shutDown(0);
  }

  private async reloadNow(): Promise<ReloadResult> {
    const { logger, worker = false } = this.options;
    const before = addressesOf(this);
    this.parts.files.acted();
    const result = await this.active.reload();
    const { outcome, generation } = result;
    this.metrics.traffic.count('reloads', outcome);
    const problems = result.problems.map(formatProblem);
    const fields = problems.length === 0 ? { outcome, generation } : { outcome, generation, problems };
    if (outcome === 'refused') {
      logger.error(fields, 'the new configuration is refused; the old one stays');
      return result;
    }
    await this.serving?.follow(this.active.current());
    // The primary process represents its workers.
    if (worker) return result;
    const after = addressesOf(this);
    if (!isDeepStrictEqual(before, after)) logger.info(after, 'the gateway listens elsewhere');
    logger.info(fields, outcome === 'applied' ? 'configuration reloaded' : 'configuration unchanged');
    if (outcome === 'applied' && this.options.serveOnly !== true) {
      logMissingBackend(this.live().config, logger);
    }
    return result;
  }

  private async openProxy(): Promise<Serving> {
    const { logger: log } = this.options;
    const { traffic } = this.metrics;
    const proxy = await startProxy({
      snapshot: this.active.current,
      traffic,
      log,
      secureContext: this.active.current().serverTls?.options,
      tunnels: createTunnels({ log, traffic }),
      maintenance: this.parts.explainer.maintenance,
      onEarlyRefusal: this.parts.explainer.history.record,
      sharedPort: this.options.worker,
    });
    return servingHere(proxy);
  }

  private async openFleet(count: number): Promise<Serving> {
    const fleet = new WorkerFleet({
      log: this.options.logger,
      settings: () => this.settings.whole(),
      maintenance: () => this.parts.explainer.maintenance.switchedTo,
      fileText: () => this.active.current().read.fileText,
      lease: (store, request) => leaseForWorkers(this.active.current(), store, request),
    });
    this.fleet = fleet;
    await fleet.start(count);
    return servingByWorkers(fleet);
  }

  private adminMetrics(): AdminMetrics {
    return this.fleet === undefined ? this.metrics : fleetMetrics(this.fleet, this.metrics);
  }

  /** The other instances that share the store; a worker knows them by the primary process. */
  private async join(): Promise<void> {
    const { fleetStore } = this.active.current();
    if (fleetStore !== undefined) await this.member.join(fleetStore);
  }

  private async drainInOrder(): Promise<void> {
    const { drain_delay: delayMs, drain_timeout: withinMs } = this.live().config.server;
    this.current = 'draining';
    // Load balancers have to notice before the port is closed. Workers are told to drain when they have.
    if (delayMs > 0 && this.options.worker !== true) await pause(delayMs);
    await this.shutDown(withinMs);
  }

  private async shutDown(withinMs: number): Promise<void> {
    this.current = 'draining';
    const { files } = this.parts;
    const { logger } = this.options;
    files.close();
    try {
      await this.active.stop();
      const serviceClosed = this.sideServers.service.close(withinMs);
      if (this.serving !== undefined) await this.serving.drain(withinMs);
      else await this.fleet?.drain(0);
      await serviceClosed;
      // The last to go: it is asked for readiness and metrics until the end.
      await this.sideServers.admin.close();
      await this.member.leave();
      await this.active.close();
    } catch (err) {
      logger.error({ err }, 'the gateway could not be closed in order');
    } finally {
      this.observed.stop();
    }
  }

  /** In the turn in which a runtime is taken into use: no request is decided between this and the swap. */
  taken(runtime: ConfigRuntime): void {
    const { config, serverTls, serviceTls, limiter: configured } = runtime;
    this.parts.explainer.follow(runtime, this.live());
    const { logger } = this.options;
    const { limiter } = configured;
    keepToPlan(configured);
    this.certificates.follow(serverTls, (options) => this.serving?.useSecureContext(options));
    // The service asks for them when it is told that they changed.
    this.serviceCertificates.follow(serviceTls, () => this.sideServers.service.follow());
    logger.hide(secretsOf(config));
    logger.configure(config.logging);
    this.settings.applied.reapply();
    if (this.current !== 'starting') void this.join();
    this.observed.follow(limiter, () => {
      logLimiter(limiter, logger);
      return [
        this.metrics.collect(limiter),
        limiter.on('decision', ({ decision }) => this.settings.activity.note(decision)),
      ];
    });
    if (this.options.worker !== true)
      this.parts.files.watch([...configFiles(this.options), ...watchedFiles(runtime)]);
  }
}
