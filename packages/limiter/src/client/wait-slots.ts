/** Bounds how many calls wait at the same time, over all partitions. */
export class WaitSlots {
  private readonly slots: number;
  private taken = 0;

  constructor(slots: number) {
    this.slots = slots;
  }

  slot(): WaitSlot {
    let has = false;
    return {
      take: () => {
        if (!has && this.taken < this.slots) {
          has = true;
          this.taken += 1;
        }
        return has;
      },
      leave: () => {
        if (has) this.taken -= 1;
        has = false;
      },
    };
  }
}

/** The slot of one call. */
export interface WaitSlot {
  /** True when the call has its slot and may wait; taking it twice is taking it once. */
  readonly take: () => boolean;
  readonly leave: () => void;
}
