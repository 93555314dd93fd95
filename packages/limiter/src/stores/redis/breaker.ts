import { LimiterError } from '../../errors.ts';
import type { NodeHealth } from '../store.ts';

/** Failures in a row, with no answer in between, after which a server counts as down. One slow call never does. */
const FAILURES_TO_OPEN = 5;
const FIRST_PROBE_MS = 1000;
const LAST_PROBE_MS = 30_000;

export interface BreakerOptions {
  readonly name: string;
  /** How long one call may take before it counts as failed. */
  readonly timeoutMs: number;
  /** Asks the server whether it can decide again; resolves when it can. */
  readonly probe: () => Promise<unknown>;
}

/**
 * Keeps a dead server from costing every request its deadline. While the breaker is open, calls are refused at once and
 * one probe at a time goes out in the background, 1 s to 30 s apart with full jitter; the first that succeeds closes it.
 */
export class Breaker {
  private readonly options: BreakerOptions;
  private failures = 0;
  private lastError: string | undefined;
  private openSince: number | undefined;
  private probeTimer: ReturnType<typeof setTimeout> | undefined;
  private probes = 0;
  private closed = false;

  constructor(options: BreakerOptions) {
    this.options = options;
  }

  /** Runs a call unless the breaker is open; a call that takes too long is left to itself. */
  async run<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    if (this.openSince !== undefined) throw this.refusal();
    try {
      const answer = await within(call(), this.options);
      this.failures = 0;
      return answer;
    } catch (error) {
      this.noteFailure(error);
      throw error;
    }
  }

  health(): NodeHealth {
    const { name } = this.options;
    if (this.openSince !== undefined) {
      const since = new Date(this.openSince).toISOString();
      return { name, status: 'down', detail: `down since ${since}: ${this.lastError ?? 'no answer'}` };
    }
    return this.failures > 0
      ? {
          name,
          status: 'degraded',
          detail: `${this.failures} failures in a row: ${this.lastError ?? 'no answer'}`,
        }
      : { name, status: 'up', detail: 'answers' };
  }

  /** Stops probing. */
  close(): void {
    this.closed = true;
    clearTimeout(this.probeTimer);
  }

  private noteFailure(error: unknown): void {
    // The server answered, only not with a decision: what it says about one key says nothing about the server.
    if (error instanceof LimiterError && error.code === 'STATE_INVALID') return;
    this.failures += 1;
    this.lastError = error instanceof Error ? error.message : String(error);
    if (this.failures < FAILURES_TO_OPEN || this.openSince !== undefined || this.closed) return;
    this.openSince = Date.now();
    this.probes = 0;
    this.scheduleProbe();
  }

  private scheduleProbe(): void {
    const longestMs = Math.min(LAST_PROBE_MS, FIRST_PROBE_MS * 2 ** this.probes);
    this.probes += 1;
    // Full jitter: a fleet that lost its server together does not come back to it together.
    this.probeTimer = setTimeout(() => void this.probe(), Math.random() * longestMs);
    if (typeof this.probeTimer === 'object') this.probeTimer.unref();
  }

  private async probe(): Promise<void> {
    try {
      await within(this.options.probe(), this.options);
      this.openSince = undefined;
      this.failures = 0;
    } catch (error) {
      this.lastError = error instanceof Error ? error.message : String(error);
      if (!this.closed) this.scheduleProbe();
    }
  }

  private refusal(): LimiterError {
    return new LimiterError(
      'STORE_UNAVAILABLE',
      `${this.options.name} is down (${this.lastError ?? 'no answer'}); the failure policy answers until a probe succeeds.`,
    );
  }
}

function within<Answer>(answer: Promise<Answer>, { name, timeoutMs }: BreakerOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new LimiterError('STORE_UNAVAILABLE', `${name} did not answer within ${timeoutMs} ms.`));
    }, timeoutMs);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
