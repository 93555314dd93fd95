export interface SlotsOptions {
  /** Calls in flight at once. */
  readonly max: number;
  /** Calls that wait for one of them. */
  readonly maxWaiting: number;
  /** Slots and places in the queue that one key may have: nobody can fill them alone. */
  readonly maxPerKey: number;
}

/** A place in the queue. */
export interface QueuedSlot {
  /** Whether it became a slot; then someone has to `release` it. */
  readonly granted: Promise<boolean>;
  /** Gives the place up; without effect once there is a slot. */
  leave(): void;
}

interface Place {
  readonly key: string;
  readonly resolve: (granted: boolean) => void;
}

/** How many calls may be in flight, how many may wait, and of whom. First come, first served. */
export class Slots {
  private readonly options: SlotsOptions;
  private taken = 0;
  private readonly waiting = new Set<Place>();
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

  /** A slot now, a place to wait for one, or `full`: neither. */
  acquire(key: string): 'granted' | 'full' | QueuedSlot {
    const ofKey = this.perKey.get(key) ?? 0;
    const { max, maxWaiting, maxPerKey } = this.options;
    if (ofKey >= maxPerKey || (this.taken >= max && this.waiting.size >= maxWaiting)) return 'full';
    this.perKey.set(key, ofKey + 1);
    if (this.taken >= max) return this.wait(key);
    this.taken += 1;
    return 'granted';
  }

  release(key: string): void {
    this.forget(key);
    for (const next of this.waiting) {
      // The slot goes from hand to hand and is never free in between.
      this.waiting.delete(next);
      next.resolve(true);
      return;
    }
    this.taken -= 1;
  }

  /** Rejects every call that waits. */
  clear(): void {
    for (const place of this.waiting) this.leave(place);
  }

  private wait(key: string): QueuedSlot {
    let place: Place | undefined;
    const granted = new Promise<boolean>((resolve) => {
      place = { key, resolve };
      this.waiting.add(place);
    });
    return { granted, leave: () => place !== undefined && this.leave(place) };
  }

  private leave(place: Place): void {
    if (!this.waiting.delete(place)) return;
    this.forget(place.key);
    place.resolve(false);
  }

  private forget(key: string): void {
    const left = (this.perKey.get(key) ?? 0) - 1;
    if (left > 0) this.perKey.set(key, left);
    else this.perKey.delete(key);
  }
}
