import type { Config } from '../../config/config.ts';
import { fetchWhole } from '../../http-client/index.ts';
import type { Log } from '../../telemetry/log.ts';
import type { PooledUpstream } from './pooled-upstream.ts';

export interface HealthCheckOptions {
  /** With a connection of its own: a full pool says nothing about the server's health. */
  readonly upstream: PooledUpstream;
  readonly settings: Config['backend']['health_check'];
  readonly log: Log;
  /** The server has just answered well. */
  readonly onSuccess: () => void;
}

/** Instances that started together shall not ask together. */
const JITTER = 0.2;

/** Asks a server regularly. It counts as healthy until it has failed often enough. */
export class HealthCheck {
  private readonly options: HealthCheckOptions;
  private timer: NodeJS.Timeout | undefined;
  private isHealthy = true;
  /** Answers in a row that speak against the present state. */
  private contrary = 0;
  private problem: string | undefined;
  private stopped = false;

  constructor(options: HealthCheckOptions) {
    this.options = options;
    this.schedule(0);
  }

  get healthy(): boolean {
    return this.isHealthy;
  }

  get lastError(): string | undefined {
    return this.problem;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.options.upstream.close({ force: true });
  }

  private schedule(delayMs: number): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => void this.ask(), delayMs).unref();
  }

  private async ask(): Promise<void> {
    const problem = await this.findProblem();
    if (this.stopped) return;
    this.problem = problem;
    if (problem === undefined) this.options.onSuccess();
    this.count(problem);
    const { interval } = this.options.settings;
    this.schedule(interval * (1 - JITTER / 2 + JITTER * Math.random()));
  }

  /** Undefined if it is well. */
  private async findProblem(): Promise<string | undefined> {
    const { upstream, settings } = this.options;
    try {
      const { status } = await fetchWhole(upstream.pool, {
        method: 'GET',
        path: settings.path,
        headers: ['user-agent', 'spillgate-health-check', 'accept', '*/*'],
        maxBodyBytes: () => MAX_BODY_BYTES,
        signal: AbortSignal.timeout(settings.timeout),
      });
      return status >= 200 && status < 400 ? undefined : `${settings.path} answered ${status}`;
    } catch (failure) {
      return failure instanceof Error ? failure.message : String(failure);
    }
  }

  private count(problem: string | undefined): void {
    const { upstream, settings, log } = this.options;
    if ((problem === undefined) === this.isHealthy) {
      this.contrary = 0;
      return;
    }
    this.contrary += 1;
    if (this.contrary < (this.isHealthy ? settings.unhealthy_threshold : settings.healthy_threshold)) return;
    this.isHealthy = !this.isHealthy;
    this.contrary = 0;
    if (this.isHealthy) log.info({ upstream: upstream.origin }, 'upstream is healthy again');
    else log.warn({ upstream: upstream.origin, problem }, 'upstream is unhealthy and left out');
  }
}

const MAX_BODY_BYTES = 64 * 1024;
