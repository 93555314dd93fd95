import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { TlsOptions } from 'node:tls';
import type { Limiter } from 'spillgate';
import type { AdminMetrics } from '../admin/endpoint.ts';
import type { LiveConfig, Operated, ReloadResult } from '../admin/operated.ts';
import { createOverrides, type OverrideNumbers, type Overrides } from '../admin/overrides.ts';
import { startAdmin, type AdminServer } from '../admin/server.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import { hasBackend } from '../config/missing-backend.ts';
import { formatProblem } from '../config/problem.ts';
import { collectLimitsMetrics, type LimitsMetrics } from '../external/limits-metrics.ts';
import { startProxy, type ProxyOptions } from '../proxy/start-proxy.ts';
import type { ServerTls } from '../proxy/tls/server-tls.ts';
import { createTunnels } from '../proxy/tunnel/websocket-tunnels.ts';
import { createMetrics, type Metrics } from '../telemetry/metrics.ts';
import { createTracer } from '../telemetry/create-tracer.ts';
import type { Tracer } from '../telemetry/tracing.ts';
import { DemoUpstream, warnWithoutBackend } from './demo-upstream.ts';
import { watchFiles, type FileWatch } from './file-watch.ts';
import { fleetMetrics } from './fleet-metrics.ts';
import type { Gateway, GatewayOptions } from './gateway.ts';
import { heardBy } from './heard-traffic.ts';
import { logLimiter } from './limiter-log.ts';
import { LiveSetup } from './live-setup.ts';
import { namedFiles, secretsOf } from './named-files.ts';
import { closeSetup, type Setup } from './setup.ts';
import { WorkerFleet } from './worker-fleet.ts';

/** Starts everything. Rejects with `ConfigRefused`, or with the system's error when an address cannot be listened on. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const demo = new DemoUpstream();
  await openIfNeeded(demo, options);
  let gateway: RunningGateway | undefined;
  try {
    gateway = new RunningGateway(options, demo);
    await gateway.open();
    return gateway;
  } catch (failure) {
    if (gateway === undefined) demo.close();
    else await gateway.close();
    throw failure;
  }
}

/** Before a configuration without a backend is taken into use, which happens within one turn. */
async function openIfNeeded(demo: DemoUpstream, { readConfig }: GatewayOptions): Promise<void> {
  let loaded: LoadedConfig;
  try {
    loaded = readConfig();
  } catch {
    // Whoever uses it reads it again, and reports why it cannot.
    return;
  }
  if (loaded.ok && !hasBackend(loaded.config)) await demo.open();
}

/** Who takes the requests: this process, or its workers. */
interface Front {
  address(): AddressInfo;
  useSecureContext(options: TlsOptions): void;
  drain(withinMs: number): Promise<void>;
}

class RunningGateway implements Gateway {
  readonly startedAt = new Date();
  // Functions rather than methods: who operates the gateway may take them apart.
  readonly phase = (): 'starting' | 'ready' | 'draining' => this.current;
  readonly live = (): LiveConfig => this.setups.live();
  readonly lastReload: Operated['lastReload'] = () => this.setups.lastReload();
  readonly limiter = (): Limiter => this.setups.current().limiter.limiter;
  readonly policies = (): Setup['policies'] => this.setups.current().policies;
  readonly backends: Operated['backends'] = () => this.setups.current().upstreams.health();
  private readonly options: GatewayOptions;
  private readonly demo: DemoUpstream;
  private readonly metrics: Metrics;
  private readonly externalMetrics: LimitsMetrics;
  private readonly setups: LiveSetup;
  private readonly overrides: Overrides;
  private readonly files: FileWatch;
  private front: Front | undefined;
  private fleet: WorkerFleet | undefined;
  private admin: AdminServer | undefined;
  private tracer: Tracer | undefined;
  private current: 'starting' | 'ready' | 'draining' = 'starting';
  private drained: Promise<void> | undefined;
  private stopCollecting: () => void = () => undefined;
  private observed: Limiter | undefined;
  private certificates: ServerTls | undefined;

  constructor(options: GatewayOptions, demo: DemoUpstream) {
    const { logger, readConfig, version } = options;
    this.options = options;
    this.demo = demo;
    this.files = watchFiles(() => void this.reload());
    // Before it is read for the first time: a change in between must not go unseen.
    this.files.watch(this.configFiles());
    this.metrics = createMetrics({ version, droppedLogLines: () => logger.dropped() });
    this.externalMetrics = collectLimitsMetrics(this.metrics.registry);
    this.setups = new LiveSetup({
      readConfig,
      tools: {
        log: logger,
        limitsObserver: this.externalMetrics.observer,
        onDecision: (record) => logger.decision(record),
        demoOrigin: () => demo.origin(),
      },
      swapped: (setup) => this.taken(setup),
    });
    this.metrics.observe(this);
    this.overrides = createOverrides(this);
    this.taken(this.setups.current());
  }

  async open(): Promise<void> {
    const { config } = this.live();
    const { worker = false, logger: log, version } = this.options;
    this.front =
      !worker && config.server.workers > 1
        ? await this.openFleet(config.server.workers)
        : await this.openProxy();
    if (!worker && config.admin.enabled) {
      this.admin = await startAdmin({
        operated: this,
        metrics: this.adminMetrics(),
        overrides: this.fleet === undefined ? this.overrides : sharedOverrides(this.overrides, this.fleet),
        config: () => this.live().config.admin,
        log,
        version,
      });
    }
    this.current = 'ready';
  }

  readonly reload = async (): Promise<ReloadResult> => {
    const { logger } = this.options;
    await openIfNeeded(this.demo, this.options).catch((err: unknown) =>
      logger.error({ err }, 'the demonstration has no port'),
    );
    const result = this.setups.reload();
    const { outcome, generation } = result;
    this.metrics.reloaded(outcome);
    const problems = result.problems.map(formatProblem);
    const fields = problems.length === 0 ? { outcome, generation } : { outcome, generation, problems };
    if (outcome === 'refused') logger.error(fields, 'the new configuration is refused; the old one stays');
    // The primary process speaks for its workers.
    else if (this.options.worker !== true) {
      logger.info(fields, outcome === 'applied' ? 'configuration reloaded' : 'configuration unchanged');
    }
    if (outcome === 'applied' && this.options.worker !== true) warnWithoutBackend(this.live().config, logger);
    if (outcome !== 'refused') await this.fleet?.ask('reload');
    return result;
  };

  address(): AddressInfo {
    if (this.front === undefined) throw new Error('the gateway does not listen yet');
    return this.front.address();
  }

  adminAddress(): AddressInfo | undefined {
    return this.admin?.address;
  }

  override(policy: string, key: string, numbers: OverrideNumbers | undefined): void {
    try {
      if (numbers === undefined) this.overrides.remove(policy, key);
      else this.overrides.set({ policy, key, numbers });
    } catch (err) {
      this.options.logger.warn({ err, policy }, 'an override of an operator does not fit this process');
    }
  }

  async metricsJson(): ReturnType<Gateway['metricsJson']> {
    return this.metrics.registry.getMetricsAsJSON();
  }

  summary(): ReturnType<Gateway['summary']> {
    return this.metrics.summary();
  }

  async drain(): Promise<void> {
    this.drained ??= this.drainInOrder();
    await this.drained;
  }

  /** At once, whatever is under way. */
  async close(): Promise<void> {
    await this.shutDown(0);
  }

  private async openProxy(): Promise<Front> {
    const { logger: log } = this.options;
    const traffic = heardBy(this.metrics.traffic, log);
    return startProxy({
      live: () => this.setups.current(),
      traffic,
      log,
      secureContext: this.setups.current().serverTls?.options,
      tunnels: createTunnels({ log, traffic }),
      tracer: await this.openTracer(),
    });
  }

  private async openFleet(count: number): Promise<Front> {
    const fleet = new WorkerFleet({
      count,
      log: this.options.logger,
      overrides: () => this.overrides.all(),
      fileText: () => this.setups.current().read.fileText,
    });
    this.fleet = fleet;
    const address = await fleet.start();
    // Workers read certificates themselves when they are told to reload.
    return {
      address: () => address,
      useSecureContext: () => undefined,
      drain: async (withinMs) => fleet.drain(withinMs),
    };
  }

  private async openTracer(): Promise<ProxyOptions['tracer']> {
    const { tracing: config } = this.live().config;
    const { logger: log, version } = this.options;
    this.tracer = await createTracer({ config, version, log });
    return this.tracer?.start;
  }

  private adminMetrics(): AdminMetrics {
    return this.fleet === undefined ? this.metrics : fleetMetrics(this.fleet, this.metrics);
  }

  private async drainInOrder(): Promise<void> {
    const { drain_delay: delayMs, drain_timeout: withinMs } = this.live().config.server;
    this.current = 'draining';
    // Load balancers have to notice before the port is closed.
    if (delayMs > 0) await pause(delayMs);
    await this.shutDown(withinMs);
  }

  private async shutDown(withinMs: number): Promise<void> {
    this.current = 'draining';
    this.files.close();
    const { logger } = this.options;
    try {
      if (this.front !== undefined) await this.front.drain(withinMs);
      else await this.fleet?.drain(0);
      // The last to go: it is asked for readiness and metrics until the end.
      await this.admin?.close();
      await Promise.all([closeSetup(this.setups.current()), this.tracer?.close()]);
    } catch (err) {
      logger.error({ err }, 'the gateway could not be closed in order');
    } finally {
      this.stopCollecting();
      this.demo.close();
    }
  }

  /** In the turn in which a setup is taken into use: no request is decided between this and the swap. */
  private taken({ config, serverTls, limitsSource, limiter: { limiter } }: Setup): void {
    const { logger } = this.options;
    if (limitsSource !== undefined) this.externalMetrics.watch(limitsSource.source);
    if (serverTls !== this.certificates) {
      this.certificates = serverTls;
      if (serverTls !== undefined) this.front?.useSecureContext(serverTls.options);
      serverTls?.onChange((options) => this.front?.useSecureContext(options));
    }
    logger.hide(secretsOf(config));
    logger.configure(config.logging);
    for (const { policy, key } of this.overrides.reapply()) {
      logger.warn({ policy, key }, 'an override of an operator fits the new configuration no more');
    }
    if (limiter !== this.observed) {
      this.observed = limiter;
      this.stopCollecting();
      this.stopCollecting = this.metrics.collect(limiter);
      logLimiter(limiter, logger);
    }
    if (this.options.worker !== true) this.files.watch([...this.configFiles(), ...namedFiles(config)]);
  }

  private configFiles(): readonly string[] {
    const { configFile, worker = false } = this.options;
    return configFile === undefined || worker ? [] : [configFile];
  }
}

/** What an operator gives to a key holds in every worker. */
function sharedOverrides(overrides: Overrides, fleet: WorkerFleet): Overrides {
  return {
    ...overrides,
    set(override) {
      overrides.set(override);
      fleet.override(override.policy, override.key, override.numbers);
    },
    remove(policy, key) {
      const removed = overrides.remove(policy, key);
      if (removed) fleet.override(policy, key, undefined);
      return removed;
    },
  };
}
