import { politeFetch, type Fetch, type PoliteFetchOptions, type Sleep } from '../../src/client/index.ts';
import { virtualClock, type VirtualClock } from '../../src/testing/index.ts';

interface Sleeper {
  readonly dueUs: number;
  readonly wake: () => void;
}

/**
 * Virtual time for clients that wait, and for servers that decide by the same clock. Time stands still while a request
 * is on its way, and jumps to the next moment when every call is asleep.
 */
export class Timeline {
  readonly clock: VirtualClock = virtualClock();
  private readonly startUs = this.clock();
  private readonly sleepers = new Set<Sleeper>();
  private calls = 0;

  /** Milliseconds since the beginning. */
  readonly nowMs = (): number => (this.clock() - this.startUs) / 1000;

  readonly sleep: Sleep = (ms, signal) =>
    new Promise<void>((resolve) => {
      const sleeper: Sleeper = {
        dueUs: this.clock() + Math.ceil(ms * 1000),
        wake: () => {
          this.sleepers.delete(sleeper);
          resolve();
        },
      };
      this.sleepers.add(sleeper);
      signal.addEventListener('abort', sleeper.wake, { once: true });
      if (signal.aborted) sleeper.wake();
      this.goOn();
    });

  /** How many calls wait. */
  asleep(): number {
    return this.sleepers.size;
  }

  /** Ends every sleep, as if its time had come. */
  wakeAll(): void {
    for (const sleeper of this.sleepers) sleeper.wake();
  }

  /** A client that lives in this time, without chance unless it brings some. */
  client(options: PoliteFetchOptions): Fetch {
    const fetch = politeFetch({ clock: this.clock, sleep: this.sleep, random: () => 0, ...options });
    return async (input, init) => {
      this.calls += 1;
      try {
        return await fetch(input, init);
      } finally {
        this.calls -= 1;
        this.goOn();
      }
    };
  }

  /** Once nothing else is left to do: whoever was just woken comes before the next jump. */
  private goOn(): void {
    setImmediate(() => {
      if (this.sleepers.size === 0 || this.sleepers.size < this.calls) return;
      const dueUs = Math.min(...[...this.sleepers].map((sleeper) => sleeper.dueUs));
      this.clock.set(Math.max(this.clock(), dueUs));
      for (const sleeper of this.sleepers) if (sleeper.dueUs <= dueUs) sleeper.wake();
    });
  }
}
