import { Breaker, CLOSED_PERMIT, type BreakerOptions, type BreakerPermit } from 'spillgate/internal';

export interface KeyBreakersOptions extends BreakerOptions {
  /** Breakers at once. */
  readonly max: number;
  /** A breaker that nobody used for so long is dropped, once it is closed or could be tried again. */
  readonly idleMs: number;
}

interface KeptBreaker {
  readonly breaker: Breaker;
  usedAtMs: number;
}

/** Looked at per failure: the work of dropping old ones is spread. */
const SWEPT_AT_ONCE = 8;

/** A breaker for each key that has failed since it last succeeded. Others are closed, and need no memory. */
export class KeyBreakers {
  private readonly options: KeyBreakersOptions;
  /** In order of last use. */
  private readonly kept = new Map<string, KeptBreaker>();

  constructor(options: KeyBreakersOptions) {
    this.options = options;
  }

  get size(): number {
    return this.kept.size;
  }

  /** How many are open. */
  get openCount(): number {
    let count = 0;
    for (const { breaker } of this.kept.values()) if (breaker.isOpen) count += 1;
    return count;
  }

  isOpen(key: string): boolean {
    return this.kept.get(key)?.breaker.isOpen ?? false;
  }

  enter(key: string, nowMs: number): BreakerPermit | undefined {
    const kept = this.kept.get(key);
    if (kept === undefined) return CLOSED_PERMIT;
    this.touch(key, kept, nowMs);
    return kept.breaker.enter(nowMs);
  }

  succeeded(key: string, permit: BreakerPermit): void {
    const kept = this.kept.get(key);
    if (kept === undefined) return;
    kept.breaker.succeeded(permit);
    if (!kept.breaker.isOpen) this.kept.delete(key);
  }

  /** Failures in a row of the key, this one included. */
  failed(
    key: string,
    permit: BreakerPermit,
    now: { readonly nowMs: number; readonly retryAfterMs: number },
  ): number {
    this.sweep(now.nowMs);
    const kept = this.kept.get(key) ?? this.add(now.nowMs);
    if (kept === undefined) return 1;
    this.touch(key, kept, now.nowMs);
    kept.breaker.failed(permit, now.nowMs, now.retryAfterMs);
    return kept.breaker.failuresInARow;
  }

  abandoned(key: string, permit: BreakerPermit): void {
    this.kept.get(key)?.breaker.abandoned(permit);
  }

  private touch(key: string, kept: KeptBreaker, nowMs: number): void {
    kept.usedAtMs = nowMs;
    this.kept.delete(key);
    this.kept.set(key, kept);
  }

  /** Undefined if there is no room: then only the global breaker looks after the key. */
  private add(nowMs: number): KeptBreaker | undefined {
    if (this.kept.size >= this.options.max && !this.dropOneClosed()) return undefined;
    return { breaker: new Breaker(this.options), usedAtMs: nowMs };
  }

  /** An open breaker is never dropped: otherwise failing with many other keys would close it. */
  private dropOneClosed(): boolean {
    for (const [key, { breaker }] of this.kept) {
      if (breaker.isOpen) continue;
      this.kept.delete(key);
      return true;
    }
    return false;
  }

  private sweep(nowMs: number): void {
    let looked = 0;
    for (const [key, { breaker, usedAtMs }] of this.kept) {
      if (looked >= SWEPT_AT_ONCE || nowMs - usedAtMs < this.options.idleMs) return;
      looked += 1;
      if (breaker.state(nowMs) !== 'open') this.kept.delete(key);
    }
  }
}
