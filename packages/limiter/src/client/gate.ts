import type { AnnouncedLimits } from './announced-limits.ts';
import { Nap, type Sleep } from './sleep.ts';

/** A call that wants to send a request. */
export interface Visitor {
  /** The order in which calls were made: whoever was first goes first, also when sent again. */
  readonly arrival: number;
  /** Never before that: the server said so to this very request. */
  readonly notBeforeMs: number;
  /** Later than that it goes in any case. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  readonly place: WaitingPlace;
}

/** A request on its way. */
export interface Passage {
  /** What its answer says, and for how long the server wants to hear nothing. Nothing at all when no answer came. */
  arrived(limits: AnnouncedLimits | undefined, holdMs: number | undefined): void;
}

/** Says when a request may go. */
export interface Gate {
  /** Resolves when the request has to be sent, at once. Rejects with the reason of an aborted signal. */
  enter(visitor: Visitor): Promise<Passage>;
}

export interface GateTime {
  readonly nowMs: () => number;
  readonly sleep: Sleep;
}

/** Lets everybody go who is not told to wait. */
export class OpenGate implements Gate {
  private readonly time: GateTime;

  constructor(time: GateTime) {
    this.time = time;
  }

  async enter({ notBeforeMs, signal }: Visitor): Promise<Passage> {
    const waitMs = notBeforeMs - this.time.nowMs();
    if (waitMs > 0) await new Nap(this.time.sleep).take(waitMs, signal);
    return { arrived: () => undefined };
  }
}

/** How many calls wait, over all partitions. */
export class WaitingRoom {
  private readonly places: number;
  private taken = 0;

  constructor(places: number) {
    this.places = places;
  }

  place(): WaitingPlace {
    let has = false;
    return {
      take: () => {
        if (!has && this.taken < this.places) {
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

/** The place of one call in the waiting room. */
export interface WaitingPlace {
  /** True when the call has a place, and may wait; taking it twice is taking it once. */
  readonly take: () => boolean;
  readonly leave: () => void;
}
