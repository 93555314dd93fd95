import { Breaker, CLOSED_PERMIT } from '../../breaker.ts';
import { sinceNow, type SinceWhen } from '../../clock.ts';
import { LimiterError } from '../../errors.ts';
import { isAnswer, isRefusal, toStoreError } from './failure-class.ts';
import { RetryPace } from './retry-pace.ts';

/** Failures in a row, with no answer in between, after which a server counts as down. One slow call never does. */
const FAILURES_TO_OPEN = 5;
/** Answers that come late ask for a probe, at most this often. */
const MIN_PROBE_INTERVAL_MS = 1000;

export interface ServerBreakerOptions {
  /** What errors call it. */
  readonly name: string;
  /** Its name in `health()`. */
  readonly node?: string;
  /** Asks the server whether it can decide again; resolves when it can, and takes no longer than a call may. */
  readonly probe: () => Promise<unknown>;
  readonly onFailedProbe: (error: LimiterError) => void;
  readonly onOpen: (error: LimiterError) => void;
  readonly onClose: (afterMs: number) => void;
}

/**
 * Keeps a dead server from costing every request its deadline. While it is open, calls are refused at once and one
 * probe at a time goes out in the background, at most 1.5 s apart; the first that succeeds closes it.
 */
export class ServerBreaker {
  private readonly options: ServerBreakerOptions;
  /** No call is let through as a probe: probes are calls of their own. */
  private readonly breaker = new Breaker({ threshold: FAILURES_TO_OPEN, openMs: 0, probeLeaseMs: 0 });
  private firstFailure: SinceWhen | undefined;
  /** The server answers, but refuses to decide: only a probe can show that it no longer does. */
  private refusing = false;
  private latestError: LimiterError | undefined;
  private opened: SinceWhen | undefined;
  private probeTimer: ReturnType<typeof setTimeout> | undefined;
  private probeDueAtMs = Infinity;
  private probing = false;
  private probedAtMs = -Infinity;
  private readonly pace = new RetryPace();
  private closed = false;

  constructor(options: ServerBreakerOptions) {
    this.options = options;
  }

  /** When it opened; undefined while calls go through. */
  get downSince(): SinceWhen | undefined {
    return this.opened;
  }

  /** When the failures in a row began; undefined if the last call was answered. */
  get failingSince(): SinceWhen | undefined {
    return this.breaker.failuresInARow > 0 ? this.firstFailure : undefined;
  }

  get lastError(): LimiterError | undefined {
    return this.latestError;
  }

  /** Throws while the server must not be asked. */
  requireClosed(): void {
    if (!this.breaker.isOpen) return;
    throw new LimiterError(
      this.latestError?.code ?? 'STORE_UNAVAILABLE',
      `${this.options.name} is down; the failure policy answers until a probe succeeds. ${this.latestError?.message ?? ''}`,
      { cause: this.latestError?.cause, node: this.options.node },
    );
  }

  noteAnswer(): void {
    if (!this.refusing) this.breaker.succeeded(CLOSED_PERMIT);
  }

  noteFailure(error: LimiterError): void {
    this.fail(error, () => this.breaker.failed(CLOSED_PERMIT, performance.now()));
  }

  /** An answer that came after its call was given up: find out at once, though not more often than once a second. */
  noteLateAnswer(): void {
    if (this.breaker.failuresInARow === 0) return;
    this.probeWithin(Math.max(0, this.probedAtMs + MIN_PROBE_INTERVAL_MS - performance.now()));
  }

  /** The server must not be asked, for a reason that no call has met; it is probed as after any other failure. */
  open(reason: LimiterError): void {
    this.fail(reason, () => this.breaker.open(performance.now()));
  }

  /** There is a new connection: nothing that was known about the old one matters. */
  probeNow(): void {
    if (this.breaker.failuresInARow === 0) return;
    this.probeWithin(0);
  }

  /** Something is known about why the server is down that no call has met: what calls are told from now on. */
  explain(error: Error): void {
    if (this.breaker.failuresInARow > 0) this.latestError = toStoreError(this.options.name, error);
  }

  /** Stops probing. */
  close(): void {
    this.closed = true;
    clearTimeout(this.probeTimer);
  }

  private fail(error: LimiterError, count: () => void): void {
    if (this.breaker.failuresInARow === 0) this.firstFailure = sinceNow();
    count();
    this.refusing ||= isRefusal(error);
    this.latestError = error;
    if (this.breaker.isOpen && this.opened === undefined && !this.closed) {
      this.opened = sinceNow();
      this.options.onOpen(error);
    }
    if (this.needsProbe() && this.probeDueAtMs === Infinity && !this.probing) this.scheduleProbe();
  }

  private needsProbe(): boolean {
    return this.breaker.isOpen || this.refusing;
  }

  private scheduleProbe(): void {
    this.probeWithin(this.pace.nextPauseMs());
  }

  /** A probe that is due earlier stays as it is. */
  private probeWithin(waitMs: number): void {
    const dueAtMs = performance.now() + waitMs;
    if (this.closed || dueAtMs >= this.probeDueAtMs) return;
    clearTimeout(this.probeTimer);
    this.probeDueAtMs = dueAtMs;
    this.probeTimer = setTimeout(() => void this.probe(), waitMs);
    this.probeTimer.unref();
  }

  private async probe(): Promise<void> {
    // The one in flight was sent before there was a reason for this one: it goes out when that one is over.
    if (this.probing) return;
    this.probeDueAtMs = Infinity;
    this.probing = true;
    this.probedAtMs = performance.now();
    try {
      await this.options.probe();
      this.recover();
    } catch (error) {
      if (isAnswer(error)) this.recover();
      else this.noteFailedProbe(toStoreError(this.options.name, error));
    } finally {
      this.probing = false;
    }
    if (!this.needsProbe()) return;
    if (this.probeDueAtMs === Infinity) this.scheduleProbe();
    else if (this.probeDueAtMs <= performance.now()) void this.probe();
  }

  private noteFailedProbe(error: LimiterError): void {
    this.latestError = error;
    this.refusing = isRefusal(error);
    this.options.onFailedProbe(error);
  }

  private recover(): void {
    this.breaker.reset();
    this.refusing = false;
    this.pace.restart();
    this.probeDueAtMs = Infinity;
    clearTimeout(this.probeTimer);
    if (this.opened === undefined) return;
    const afterMs = Math.round(performance.now() - this.opened.ms);
    this.opened = undefined;
    this.options.onClose(afterMs);
  }
}
