export interface SlotsOptions {
  /** Calls under way at once. */
  readonly max: number;
  /** Calls that wait for one of them. */
  readonly maxWaiting: number;
  /** Slots and places in the queue that one key may have: nobody can fill them alone. */
  readonly maxPerKey: number;
}

type Grant = (granted: boolean) => void;

/** How many calls may be under way, how many may wait, and of whom. First come, first served. */
export class Slots {
  private readonly options: SlotsOptions;
  private taken = 0;
  private readonly waiting = new Set<Grant>();
  private readonly perKey = new Map<string, number>();

  constructor(options: SlotsOptions) {
    this.options = options;
  }

  get inFlight(): number {
    return this.taken;
  }

  get queued(): number {
    return this.waiting.size;
  }

  get hasRoom(): boolean {
    return this.taken < this.options.max;
  }

  /**
   * A slot, now or when one is free; false if there is no place to wait or the signal ends the wait. Whoever got one has to
   * `release` it.
   */
  acquire(key: string, signal: AbortSignal): boolean | Promise<boolean> {
    const ofKey = this.perKey.get(key) ?? 0;
    if (ofKey >= this.options.maxPerKey || signal.aborted) return false;
    if (this.taken < this.options.max) {
      this.taken += 1;
      this.perKey.set(key, ofKey + 1);
      return true;
    }
    if (this.waiting.size >= this.options.maxWaiting) return false;
    this.perKey.set(key, ofKey + 1);
    return this.wait(key, signal);
  }

  release(key: string): void {
    this.forget(key);
    for (const next of this.waiting) {
      // The slot goes from hand to hand and is never free in between.
      this.waiting.delete(next);
      next(true);
      return;
    }
    this.taken -= 1;
  }

  private async wait(key: string, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const grant: Grant = (granted) => {
        signal.removeEventListener('abort', onAbort);
        resolve(granted);
      };
      const onAbort = (): void => {
        this.waiting.delete(grant);
        this.forget(key);
        grant(false);
      };
      this.waiting.add(grant);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  private forget(key: string): void {
    const left = (this.perKey.get(key) ?? 0) - 1;
    if (left > 0) this.perKey.set(key, left);
    else this.perKey.delete(key);
  }
}
