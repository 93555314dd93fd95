import { afterPendingIo } from '../../after-pending-io.ts';
import { LimiterError } from '../../errors.ts';
import { isAnswer, isRefusal, toStoreError } from './failure-class.ts';

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
  readonly onFailedProbe: (error: LimiterError) => void;
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
  /** The server answers, but refuses to decide: only a probe can show that it no longer does. */
  private refusing = false;
  private latestError: LimiterError | undefined;
  private openSince: number | undefined;
  private probeTimer: ReturnType<typeof setTimeout> | undefined;
  private probeDueAt = Infinity;
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
      this.noteAnswer();
      return answer;
    } catch (error) {
      if (isAnswer(error)) {
        this.noteAnswer();
        throw error;
      }
      const failure = toStoreError(this.options.name, error);
      this.noteFailure(failure);
      throw failure;
    }
  }

  /** The server must not be asked, for a reason that no call has met; it is probed as after any other failure. */
  open(reason: LimiterError): void {
    this.noteFailure(reason, FAILURES_TO_OPEN);
  }

  /** There is a new connection: nothing that was known about the old one matters. */
  probeNow(): void {
    if (this.failures === 0) return;
    this.probes = 0;
    this.probeWithin(0);
  }

  /** Something is known about why the server is down that no call has met: what calls are told from now on. */
  explain(error: Error): void {
    if (this.failures > 0) this.latestError = toStoreError(this.options.name, error);
  }

  /** Stops probing. */
  close(): void {
    this.closed = true;
    clearTimeout(this.probeTimer);
  }

  private noteAnswer(): void {
    if (!this.refusing) this.failures = 0;
  }

  private noteFailure(error: LimiterError, count = 1): void {
    if (this.failures === 0) this.firstFailureAt = Date.now();
    this.failures += count;
    this.refusing ||= isRefusal(error);
    this.latestError = error;
    if (this.failures >= FAILURES_TO_OPEN && this.openSince === undefined && !this.closed) {
      this.openSince = Date.now();
      this.options.onOpen(error);
    }
    if (this.needsProbe() && this.probeDueAt === Infinity && !this.probing) this.scheduleProbe();
  }

  private needsProbe(): boolean {
    return this.openSince !== undefined || this.refusing;
  }

  private scheduleProbe(): void {
    const longestMs = Math.min(LAST_PROBE_MS, FIRST_PROBE_MS * 2 ** this.probes);
    this.probes += 1;
    // Full jitter: a fleet that lost its server together does not come back to it together.
    this.probeWithin(Math.random() * longestMs);
  }

  /** Something suggests that the server may be back: find out at once, though not more often than once a second. */
  private probeSoon(): void {
    if (this.failures === 0) return;
    this.probes = 0;
    this.probeWithin(Math.max(0, this.probedAt + FIRST_PROBE_MS - Date.now()));
  }

  /** A probe that is due earlier stays as it is. */
  private probeWithin(waitMs: number): void {
    const dueAt = Date.now() + waitMs;
    if (this.closed || dueAt >= this.probeDueAt) return;
    clearTimeout(this.probeTimer);
    this.probeDueAt = dueAt;
    this.probeTimer = setTimeout(() => void this.probe(), waitMs);
    this.probeTimer.unref();
  }

  private async probe(): Promise<void> {
    this.probeDueAt = Infinity;
    // The one under way was sent before there was a reason for this one: try again when it is over.
    if (this.probing) return this.probeWithin(this.options.timeoutMs);
    this.probing = true;
    this.probedAt = Date.now();
    try {
      await this.within(this.options.probe());
      this.recover();
    } catch (error) {
      if (isAnswer(error)) this.recover();
      else this.noteFailedProbe(toStoreError(this.options.name, error));
    } finally {
      this.probing = false;
    }
    if (this.needsProbe() && this.probeDueAt === Infinity) this.scheduleProbe();
  }

  private noteFailedProbe(error: LimiterError): void {
    this.latestError = error;
    this.refusing = isRefusal(error);
    this.options.onFailedProbe(error);
  }

  private recover(): void {
    this.failures = 0;
    this.refusing = false;
    this.probes = 0;
    this.probeDueAt = Infinity;
    clearTimeout(this.probeTimer);
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
      const giveUp = (): void => {
        late = true;
        reject(new NoAnswer(`${name} did not answer within ${timeoutMs} ms.`));
      };
      const dueAtMs = performance.now() + timeoutMs;
      const timer = setTimeout(() => afterPendingIo(dueAtMs, giveUp), timeoutMs);
      answer.then(
        (value) => {
          clearTimeout(timer);
          if (late) this.probeSoon();
          return resolve(value);
        },
        (error: unknown) => {
          clearTimeout(timer);
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown
          reject(error);
        },
      );
    });
  }
}

/** There was no answer in time, as opposed to one that does not help. */
export class NoAnswer extends LimiterError {
  constructor(message: string) {
    super('STORE_UNAVAILABLE', message);
  }
}
