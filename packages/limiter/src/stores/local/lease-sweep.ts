import type { LeaseSource } from './lease-table.ts';

export const SWEEP_MS = 250;

/** Lets those that hold leases look from time to time for what would stay charged if nobody gave it back. */
export class LeaseSweep {
  private readonly holders: { sweep(): void }[] = [];
  private timer: ReturnType<typeof setInterval> | undefined;

  add<Holder extends { sweep(): void }>(holder: Holder): Holder {
    this.holders.push(holder);
    return holder;
  }

  /** The same source; from the first such lease on, the timer runs. */
  startedBy(source: LeaseSource): LeaseSource {
    return {
      ...source,
      lease: (limit, want) => {
        if (limit.plan.algorithm.leases?.passes === false) this.start();
        return source.lease(limit, want);
      },
    };
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private start(): void {
    if (this.timer !== undefined) return;
    this.timer = setInterval(() => {
      for (const holder of this.holders) holder.sweep();
    }, SWEEP_MS);
    this.timer.unref();
  }
}
