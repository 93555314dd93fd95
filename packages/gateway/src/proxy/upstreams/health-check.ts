import type { Config } from '../../config/config.ts';
import type { Log } from '../../telemetry/log.ts';
import type { PooledUpstream } from './pooled-upstream.ts';

type Settings = Config['backend']['health_check'];

export interface HealthCheckOptions {
  /** With a connection of its own: a full pool says nothing about the server's health. */
  readonly upstream: PooledUpstream;
  readonly settings: Settings;
  readonly log: Log;
}

/** Instances that started together shall not ask together. */
const JITTER = 0.2;

/** Asks a server regularly. It counts as healthy until it has failed often enough. */
export class HealthCheck {
  readonly #options: HealthCheckOptions;
  #timer: NodeJS.Timeout | undefined;
  #healthy = true;
  /** Answers in a row that speak against the present state. */
  #contrary = 0;
  #lastError: string | undefined;
  #stopped = false;

  constructor(options: HealthCheckOptions) {
    this.#options = options;
    this.#schedule(0);
  }

  get healthy(): boolean {
    return this.#healthy;
  }

  get lastError(): string | undefined {
    return this.#lastError;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#options.upstream.close({ force: true });
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#ask(), delayMs).unref();
  }

  async #ask(): Promise<void> {
    const problem = await this.#problem();
    if (this.#stopped) return;
    this.#lastError = problem;
    this.#count(problem);
    const { interval } = this.#options.settings;
    this.#schedule(interval * (1 - JITTER / 2 + JITTER * Math.random()));
  }

  /** Undefined if it is well. */
  async #problem(): Promise<string | undefined> {
    const { upstream, settings } = this.#options;
    try {
      const { statusCode, body } = await upstream.dispatcher.request({
        origin: upstream.origin,
        path: settings.path,
        method: 'GET',
        headers: { 'user-agent': 'spillgate-health-check', accept: '*/*' },
        signal: AbortSignal.timeout(settings.timeout),
      });
      await body.dump({ limit: MAX_BODY_BYTES, signal: AbortSignal.timeout(settings.timeout) });
      return statusCode >= 200 && statusCode < 400 ? undefined : `${settings.path} answered ${statusCode}`;
    } catch (failure) {
      return failure instanceof Error ? failure.message : String(failure);
    }
  }

  #count(problem: string | undefined): void {
    const { upstream, settings, log } = this.#options;
    if ((problem === undefined) === this.#healthy) {
      this.#contrary = 0;
      return;
    }
    this.#contrary += 1;
    if (this.#contrary < (this.#healthy ? settings.unhealthy_threshold : settings.healthy_threshold)) return;
    this.#healthy = !this.#healthy;
    this.#contrary = 0;
    if (this.#healthy) log.info({ upstream: upstream.origin }, 'upstream is healthy again');
    else log.warn({ upstream: upstream.origin, problem }, 'upstream is unhealthy and left out');
  }
}

const MAX_BODY_BYTES = 64 * 1024;
