import { LimiterError } from '../../errors.ts';
import { isAnswer, toStoreError } from './failure-class.ts';

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
  readonly onOpen: (error: LimiterError) => void;
  readonly onClose: (afterMs: number) => void;
}

/**
 * Keeps a dead server from costing every request its deadline. While the breaker is open, calls are refused at once and
 * one probe at a time goes out in the background, 1 s to 30 s apart with full jitter; the first that succeeds closes it.
 */
export class Breaker {
  private readonly options: BreakerOptions;
  private failures = 0;
  private firstFailureAt = 0;
  private latestError: LimiterError | undefined;
  private openSince: number | undefined;
  private probeTimer: ReturnType<typeof setTimeout> | undefined;
  private probing = false;
  private probedAt = 0;
  private probes = 0;
  private closed = false;

  constructor(options: BreakerOptions) {
    this.options = options;
  }

  /** When the breaker opened, in milliseconds since 1970; undefined while calls go through. */
  get downSince(): number | undefined {
    return this.openSince;
  }

  /** When the failures in a row began; undefined if the last call was answered. */
  get failingSince(): number | undefined {
    return this.failures > 0 ? this.firstFailureAt : undefined;
  }

  get lastError(): LimiterError | undefined {
    return this.latestError;
  }

  /** Runs a call unless the breaker is open; a call that takes too long is left to itself. */
  async run<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    if (this.openSince !== undefined) throw this.refusal();
    try {
      const answer = await this.within(call());
      this.failures = 0;
      return answer;
    } catch (error) {
      if (isAnswer(error)) {
        this.failures = 0;
        throw error;
      }
      const failure = toStoreError(this.options.name, error);
      this.noteFailure(failure);
      throw failure;
    }
  }

  /** Something suggests that the server may be back: find out at once, though not more often than once a second. */
  probeSoon(): void {
    if (this.failures === 0 || this.closed) return;
    this.probes = 0;
    const waitMs = Math.max(0, this.probedAt + FIRST_PROBE_MS - Date.now());
    this.probeAfter(waitMs);
  }

  /** There is a new connection: nothing that was known about the old one matters. */
  probeNow(): void {
    if (this.failures === 0 || this.closed) return;
    this.probes = 0;
    this.probeAfter(0);
  }

  /** Stops probing. */
  close(): void {
    this.closed = true;
    clearTimeout(this.probeTimer);
  }

  private noteFailure(error: LimiterError): void {
    if (this.failures === 0) this.firstFailureAt = Date.now();
    this.failures += 1;
    this.latestError = error;
    if (this.failures < FAILURES_TO_OPEN || this.openSince !== undefined || this.closed) return;
    this.openSince = Date.now();
    this.probes = 0;
    this.options.onOpen(error);
    this.scheduleProbe();
  }

  private scheduleProbe(): void {
    const longestMs = Math.min(LAST_PROBE_MS, FIRST_PROBE_MS * 2 ** this.probes);
    this.probes += 1;
    // Full jitter: a fleet that lost its server together does not come back to it together.
    this.probeAfter(Math.random() * longestMs);
  }

  private probeAfter(waitMs: number): void {
    clearTimeout(this.probeTimer);
    this.probeTimer = setTimeout(() => void this.probe(), waitMs);
    this.probeTimer.unref();
  }

  private async probe(): Promise<void> {
    if (this.probing) return;
    this.probing = true;
    this.probedAt = Date.now();
    try {
      await this.within(this.options.probe());
      this.recover();
    } catch (error) {
      if (isAnswer(error)) this.recover();
      else this.latestError = toStoreError(this.options.name, error);
    } finally {
      this.probing = false;
    }
    if (this.openSince !== undefined && !this.closed) this.scheduleProbe();
  }

  private recover(): void {
    this.failures = 0;
    if (this.openSince === undefined) return;
    const afterMs = Date.now() - this.openSince;
    this.openSince = undefined;
    this.options.onClose(afterMs);
  }

  private refusal(): LimiterError {
    return new LimiterError(
      this.latestError?.code ?? 'STORE_UNAVAILABLE',
      `${this.options.name} is down; the failure policy answers until a probe succeeds. ${this.latestError?.message ?? ''}`,
      { cause: this.latestError?.cause },
    );
  }

  /** Waits for an answer as long as a call may take. One that comes later still tells that the server is back. */
  private within<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const { name, timeoutMs } = this.options;
    return new Promise((resolve, reject) => {
      let late = false;
      const timer = setTimeout(() => {
        late = true;
        reject(new LimiterError('STORE_UNAVAILABLE', `${name} did not answer within ${timeoutMs} ms.`));
      }, timeoutMs);
      const settled = answer.finally(() => clearTimeout(timer));
      settled.then(resolve, reject);
      settled.then(
        () => late && this.probeSoon(),
        () => undefined,
      );
    });
  }
}
