export type BreakerState = 'closed' | 'open' | 'halfOpen';

export interface BreakerOptions {
  /** Failures in a row until it opens. */
  readonly threshold: number;
  /** How long nobody may ask after it has opened. */
  readonly openMs: number;
  /** How long a probe may take until another may try in its place. */
  readonly probeLeaseMs: number;
}

/** Hand it back with the result. Only the probe's own result counts while the breaker is half open. */
export interface BreakerPermit {
  /** 0 for an ordinary call. */
  readonly probe: number;
}

/** What a call gets whose breaker is closed. */
export const CLOSED_PERMIT: BreakerPermit = { probe: 0 };

/**
 * Spares a service that fails: after some failures in a row nobody asks for a while, then one call does as a probe, and
 * its success closes the breaker. Reads no clock; `nowMs` is any clock that never steps back, such as
 * `performance.now()`.
 */
export class Breaker {
  private readonly options: BreakerOptions;
  private failures = 0;
  /** While open or half open: when the next probe may go. */
  private opensUntilMs: number | undefined;
  private probes = 0;
  /** The probe in flight, and until when no other may start. */
  private probe: { readonly id: number; readonly leaseUntilMs: number } | undefined;

  constructor(options: BreakerOptions) {
    this.options = options;
  }

  state(nowMs: number): BreakerState {
    if (this.opensUntilMs === undefined) return 'closed';
    return nowMs < this.opensUntilMs ? 'open' : 'halfOpen';
  }

  get failuresInARow(): number {
    return this.failures;
  }

  /** Open or half open: not every call may go. */
  get isOpen(): boolean {
    return this.opensUntilMs !== undefined;
  }

  /** Undefined: do not ask. */
  enter(nowMs: number): BreakerPermit | undefined {
    if (this.opensUntilMs === undefined) return CLOSED_PERMIT;
    if (nowMs < this.opensUntilMs) return undefined;
    if (this.probe !== undefined && nowMs < this.probe.leaseUntilMs) return undefined;
    this.probes += 1;
    this.probe = { id: this.probes, leaseUntilMs: nowMs + this.options.probeLeaseMs };
    return { probe: this.probes };
  }

  succeeded(permit: BreakerPermit): void {
    if (this.counts(permit)) this.reset();
  }

  /** `retryAfterMs`: the service asked for that much rest. */
  failed(permit: BreakerPermit, nowMs: number, retryAfterMs = 0): void {
    if (!this.counts(permit)) return;
    this.failures += 1;
    const probing = this.probe !== undefined;
    this.probe = undefined;
    const opens = probing || this.failures >= this.options.threshold;
    if (opens || retryAfterMs > 0) {
      this.opensUntilMs = nowMs + Math.max(opens ? this.options.openMs : 0, retryAfterMs);
    }
  }

  /** The permit was not used: nothing was learned. */
  abandoned(permit: BreakerPermit): void {
    if (permit.probe !== 0 && this.probe?.id === permit.probe) this.probe = undefined;
  }

  /** Opens it, for a reason that no call has met. */
  open(nowMs: number): void {
    this.failures = Math.max(this.failures, this.options.threshold);
    this.opensUntilMs ??= nowMs + this.options.openMs;
  }

  /** Closes it, whatever is known. */
  reset(): void {
    this.failures = 0;
    this.opensUntilMs = undefined;
    this.probe = undefined;
  }

  /** Late results, of calls from before it opened or of a probe whose lease is over, say nothing about now. */
  private counts(permit: BreakerPermit): boolean {
    return this.opensUntilMs === undefined ? permit.probe === 0 : this.probe?.id === permit.probe;
  }
}
