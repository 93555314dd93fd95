import type { AddressInfo } from 'node:net';
import type { Limiter } from 'spillgate';
import type { LiveConfig, Operated, ReloadResult } from '../admin/operated.ts';
import { createOverrides, type Overrides } from '../admin/overrides.ts';
import { startAdmin, type AdminServer } from '../admin/server.ts';
import type { LoadedConfig } from '../config/load-config.ts';
import { formatProblem } from '../config/problem.ts';
import { startProxy, type Proxy, type ProxyOptions } from '../proxy/start-proxy.ts';
import { createTunnels } from '../proxy/tunnel/websocket-tunnels.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createMetrics, type Metrics } from '../telemetry/metrics.ts';
import { otlpTracer } from '../telemetry/otlp-tracer.ts';
import type { Tracer } from '../telemetry/tracing.ts';
import type { TrafficListener } from '../telemetry/traffic.ts';
import { startDemoUpstream, type DemoUpstream } from './demo-upstream.ts';
import { watchFiles, type FileWatch } from './file-watch.ts';
import { logLimiter } from './limiter-log.ts';
import { LiveSetup } from './live-setup.ts';
import { namedFiles, secretsOf } from './named-files.ts';
import { proxyTracer } from './proxy-tracer.ts';
import { closeSetup, type Setup } from './setup.ts';

export interface GatewayOptions {
  /** Reads the file and the environment, at the start and for every reload. */
  readonly readConfig: () => LoadedConfig;
  /** Looked at for changes, together with the files that the configuration names. */
  readonly configFile?: string | undefined;
  readonly logger: Logger;
  readonly version: string;
}

/** A gateway that takes requests. */
export interface Gateway extends Operated {
  /** Where clients connect. */
  address(): AddressInfo;
  /** Undefined if there is no admin server. */
  adminAddress(): AddressInfo | undefined;
  /** Says that it is not ready, takes no new connections, finishes what is under way, and closes. Never rejects. */
  drain(): Promise<void>;
}

/** Starts everything. Rejects with `ConfigRefused`, or with the system's error when an address cannot be listened on. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const demo = await startDemoUpstream();
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

class RunningGateway implements Gateway {
  readonly startedAt = new Date();
  private readonly options: GatewayOptions;
  private readonly demo: DemoUpstream;
  private readonly metrics: Metrics;
  private readonly setups: LiveSetup;
  private readonly overrides: Overrides;
  private readonly files: FileWatch;
  private proxy: Proxy | undefined;
  private admin: AdminServer | undefined;
  private tracer: Tracer | undefined;
  private current: 'starting' | 'ready' | 'draining' = 'starting';
  private drained: Promise<void> | undefined;
  private stopCollecting: () => void = () => undefined;
  private observed: Limiter | undefined;

  constructor(options: GatewayOptions, demo: DemoUpstream) {
    const { logger, readConfig, version } = options;
    this.options = options;
    this.demo = demo;
    this.files = watchFiles(() => void this.reload());
    // Before it is read for the first time: a change in between must not go unseen.
    this.files.watch(this.configFiles());
    this.setups = new LiveSetup({
      readConfig,
      tools: {
        log: logger,
        onDecision: (record) => logger.info(record, 'decision'),
        demoOrigin: demo.origin,
      },
      swapped: (setup) => this.taken(setup),
    });
    this.metrics = createMetrics({ version, droppedLogLines: () => logger.dropped() });
    this.metrics.observe(this);
    this.overrides = createOverrides(this);
    this.taken(this.setups.current());
  }

  async open(): Promise<void> {
    const { logger: log, version } = this.options;
    const traffic = heardBy(this.metrics.traffic, this.options.logger);
    this.proxy = await startProxy({
      live: () => this.setups.current(),
      traffic,
      log,
      secureContext: this.setups.current().secureContext,
      tunnels: createTunnels({ log, traffic }),
      tracer: this.proxyTracer(),
    });
    if (this.live().config.admin.enabled) {
      this.admin = await startAdmin({
        operated: this,
        metrics: this.metrics,
        overrides: this.overrides,
        config: () => this.live().config.admin,
        log,
        version,
      });
    }
    this.current = 'ready';
  }

  phase(): 'starting' | 'ready' | 'draining' {
    return this.current;
  }

  live(): LiveConfig {
    return this.setups.live();
  }

  lastReload(): (ReloadResult & { readonly at: Date }) | undefined {
    return this.setups.lastReload();
  }

  async reload(): Promise<ReloadResult> {
    const { logger } = this.options;
    const result = this.setups.reload();
    const { outcome, generation } = result;
    this.metrics.reloaded(outcome);
    const problems = result.problems.map(formatProblem);
    const fields = problems.length === 0 ? { outcome, generation } : { outcome, generation, problems };
    if (outcome === 'refused') logger.error(fields, 'the new configuration is refused; the old one stays');
    else logger.info(fields, outcome === 'applied' ? 'configuration reloaded' : 'configuration unchanged');
    return result;
  }

  limiter(): Limiter {
    return this.setups.current().limiter.limiter;
  }

  policies(): Setup['policies'] {
    return this.setups.current().policies;
  }

  backends(): ReturnType<Operated['backends']> {
    return this.setups.current().upstreams.health();
  }

  address(): AddressInfo {
    if (this.proxy === undefined) throw new Error('the gateway does not listen yet');
    return this.proxy.address();
  }

  adminAddress(): AddressInfo | undefined {
    return this.admin?.address;
  }

  async drain(): Promise<void> {
    this.drained ??= this.shutDown(this.live().config.server.drain_timeout);
    await this.drained;
  }

  /** At once, whatever is under way. */
  async close(): Promise<void> {
    await this.shutDown(0);
  }

  private proxyTracer(): ProxyOptions['tracer'] {
    const { config } = this.live();
    const { logger: log, version } = this.options;
    if (!config.tracing.enabled) return undefined;
    this.tracer = otlpTracer({ config: config.tracing, version, log });
    return proxyTracer(this.tracer, () => this.backends()[0]?.origin ?? this.demo.origin);
  }

  private async shutDown(withinMs: number): Promise<void> {
    this.current = 'draining';
    this.files.close();
    const { logger } = this.options;
    try {
      await this.proxy?.drain(withinMs);
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
  private taken({ config, secureContext, limiter: { limiter } }: Setup): void {
    const { logger } = this.options;
    if (secureContext !== undefined) this.proxy?.renew(secureContext);
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
    this.files.watch([...this.configFiles(), ...namedFiles(config)]);
  }

  private configFiles(): readonly string[] {
    const { configFile } = this.options;
    return configFile === undefined ? [] : [configFile];
  }
}

function heardBy(metrics: TrafficListener, logger: Logger): TrafficListener {
  return {
    ...forwarded(metrics),
    finished(request) {
      metrics.finished(request);
      logger.access(request);
    },
  };
}

function forwarded(listener: TrafficListener): TrafficListener {
  return {
    started: () => listener.started?.(),
    finished: (request) => listener.finished(request),
    connectionOpened: () => listener.connectionOpened(),
    connectionClosed: () => listener.connectionClosed(),
    tunnelOpened: () => listener.tunnelOpened(),
    tunnelClosed: () => listener.tunnelClosed(),
  };
}
