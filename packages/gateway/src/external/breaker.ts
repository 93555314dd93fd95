export type BreakerState = 'closed' | 'open' | 'halfOpen';

export interface BreakerOptions {
  /** Failures in a row until it opens. */
  readonly threshold: number;
  readonly openMs: number;
  /** How long a probe may take until another may try in its place. */
  readonly probeLeaseMs: number;
}

/** Hand it back with the result. Only the probe's own result counts while it is half open. */
export interface Permit {
  readonly probe: number;
}

const ORDINARY: Permit = { probe: 0 };

/** Spares a service that fails: after some failures in a row nobody asks for a while, then one does. Reads no clock. */
export class Breaker {
  private readonly options: BreakerOptions;
  private failures = 0;
  /** While open or half open: when the next probe may go. */
  private opensUntilMs: number | undefined;
  private probes = 0;
  /** The probe under way, and until when nobody else may go. */
  private probe: { readonly id: number; readonly leaseUntilMs: number } | undefined;

  constructor(options: BreakerOptions) {
    this.options = options;
  }

  state(nowMs: number): BreakerState {
    if (this.opensUntilMs === undefined) return 'closed';
    return nowMs < this.opensUntilMs ? 'open' : 'halfOpen';
  }

  /** Failures in a row. */
  get failuresInARow(): number {
    return this.failures;
  }

  /** Open or half open: not everybody may ask. */
  get isOpen(): boolean {
    return this.opensUntilMs !== undefined;
  }

  /** Undefined: do not ask. */
  enter(nowMs: number): Permit | undefined {
    if (this.opensUntilMs === undefined) return ORDINARY;
    if (nowMs < this.opensUntilMs) return undefined;
    if (this.probe !== undefined && nowMs < this.probe.leaseUntilMs) return undefined;
    this.probes += 1;
    this.probe = { id: this.probes, leaseUntilMs: nowMs + this.options.probeLeaseMs };
    return { probe: this.probes };
  }

  succeeded(permit: Permit): void {
    if (!this.counts(permit)) return;
    this.failures = 0;
    this.opensUntilMs = undefined;
    this.probe = undefined;
  }

  /** `retryAfterMs`: the service asked for that much rest. */
  failed(permit: Permit, nowMs: number, retryAfterMs = 0): void {
    if (!this.counts(permit)) return;
    this.failures += 1;
    const probing = this.probe !== undefined;
    this.probe = undefined;
    if (probing || this.failures >= this.options.threshold || retryAfterMs > 0) {
      const openMs = probing || this.failures >= this.options.threshold ? this.options.openMs : 0;
      this.opensUntilMs = nowMs + Math.max(openMs, retryAfterMs);
    }
  }

  /** The permit was not used: nothing was learned. */
  abandoned(permit: Permit): void {
    if (permit.probe !== 0 && this.probe?.id === permit.probe) this.probe = undefined;
  }

  /** Late results, of calls from before it opened or of a probe whose lease is over, say nothing about now. */
  private counts(permit: Permit): boolean {
    return this.opensUntilMs === undefined ? permit.probe === 0 : this.probe?.id === permit.probe;
  }
}
