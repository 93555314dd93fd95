/// <reference lib="esnext.disposable" preserve="true" />
import { locallyDecided, type FailureHandling } from './apply-failure-policy.ts';
import type { Deadline } from './store-answer.ts';
import { startTimeout, type QueuedDeadline } from './deadline-queue.ts';
import type { Decision } from './decision.ts';
import type { FailurePolicy } from './failure-policy.ts';
import type { Limit } from './limit.ts';
import type { Store } from './stores/store.ts';

/** What `acquire` returns: held until `release()`, and renewed meanwhile. */
export interface Slot {
  /** Whether it was taken. A slot that was not need not be released. */
  readonly allowed: boolean;
  readonly decision: Decision;
  /**
   * Aborts when the slot is lost: this process could not renew it for longer than `hold`, and others have taken every
   * one since. Most programs may ignore it.
   */
  readonly signal: AbortSignal;
  /** Frees the slot; a second call does nothing. Never rejects: where the store cannot be reached, `hold` frees it. */
  release(): Promise<void>;
  /** For `await using`: `release()`. */
  [Symbol.asyncDispose](): Promise<void>;
  /** For `using`: `release()`, without waiting for it. */
  [Symbol.dispose](): void;
}

/** Where slots are held: the store, or this process's own memory while the store cannot decide. */
interface SlotHome {
  /** Takes the slot again; false where there is none. Rejects where that is not known. */
  renew(limit: Limit): Promise<boolean>;
  release(limits: readonly Limit[]): Promise<void>;
}

/** Attempts before a slot ends: two of them may fail. */
const RENEWALS_PER_HOLD = 4;

export interface HeldSlotsParts extends FailureHandling {
  readonly store: Store;
}

/** The slots that a limiter holds: as many as its application has in flight. */
export class HeldSlots {
  private readonly parts: HeldSlotsParts;
  private readonly slots = new Set<HeldSlot>();
  private readonly inStore: SlotHome;
  private readonly inFallback: SlotHome;
  private isClosed = false;

  constructor(parts: HeldSlotsParts, deadline: Deadline) {
    this.parts = parts;
    const { store, fallback } = parts;
    this.inStore = {
      async renew(limit) {
        const [verdict] = await deadline.within((caller) => store.check([limit], 1, caller));
        return verdict?.allowed === true;
      },
      async release(limits) {
        await deadline.within(async (caller) => store.release?.(limits, caller));
      },
    };
    this.inFallback = {
      renew: async (limit) => fallback?.check([limit], 1)[0]?.allowed === true,
      release: async (limits) => fallback?.release(limits),
    };
  }

  /** A slot of these limits, as it was decided: nothing is held of one that was denied. */
  hold(decision: Decision, limits: readonly Limit[], chosen: FailurePolicy | undefined): Slot {
    if (!decision.allowed) return this.add(decision, [], this.inStore);
    if (!decision.degraded) return this.add(decision, limits, this.inStore);
    return this.add(decision, locallyDecided(limits, chosen, this.parts), this.inFallback);
  }

  /** From now on nothing is held: what is on its way is given back when it comes. */
  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all([...this.slots].map((slot) => slot.release()));
  }

  private add(decision: Decision, limits: readonly Limit[], home: SlotHome): Slot {
    const slot = new HeldSlot(decision, limits, home, () => this.slots.delete(slot));
    if (limits.length > 0) this.slots.add(slot);
    if (this.isClosed) void slot.release();
    return slot;
  }
}

class HeldSlot implements Slot {
  readonly decision: Decision;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;
  declare readonly [Symbol.dispose]: () => void;
  private readonly limits: readonly Limit[];
  private readonly home: SlotHome;
  private readonly onRelease: () => void;
  private readonly renewEveryMs: number;
  private timer: QueuedDeadline | undefined;
  private renewal: Promise<unknown> | undefined;
  private released: Promise<void> | undefined;
  private isLost = false;
  private controller: AbortController | undefined;

  constructor(decision: Decision, limits: readonly Limit[], home: SlotHome, onRelease: () => void) {
    this.decision = decision;
    this.limits = limits;
    this.home = home;
    this.onRelease = onRelease;
    this.renewEveryMs = Math.max(1, Math.floor(shortestHoldUs(limits) / 1000 / RENEWALS_PER_HOLD));
    if (limits.length > 0) this.timer = startTimeout(this.renewEveryMs, this);
  }

  get allowed(): boolean {
    return this.decision.allowed;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.isLost) this.controller.abort();
    return this.controller.signal;
  }

  release(): Promise<void> {
    this.released ??= this.letGo();
    return this.released;
  }

  /** @internal The time to renew it has come. */
  timeUp(): void {
    this.renewal = this.renew();
  }

  /** Each limit by itself: that one cannot be renewed is no reason to lose the others. */
  private async renew(): Promise<void> {
    const renewed = await Promise.allSettled(this.limits.map((limit) => this.home.renew(limit)));
    if (renewed.some((attempt) => attempt.status === 'fulfilled' && !attempt.value)) {
      this.isLost = true;
      this.controller?.abort();
    }
    if (this.released === undefined) this.timer = startTimeout(this.renewEveryMs, this);
  }

  private async letGo(): Promise<void> {
    this.timer?.cancel();
    this.onRelease();
    if (this.limits.length === 0) return;
    // A renewal that arrives after the release would take the slot again.
    await this.renewal;
    try {
      await this.home.release(this.limits);
    } catch {
      // It ends by itself.
    }
  }
}

// Runtimes without `using` have no such symbols either.
const disposals: readonly (readonly [symbol | undefined, (this: HeldSlot) => unknown])[] = [
  [
    Symbol.asyncDispose,
    function disposeAsync() {
      return this.release();
    },
  ],
  [
    Symbol.dispose,
    function dispose() {
      void this.release();
    },
  ],
];
for (const [symbol, value] of disposals) {
  if (symbol !== undefined) Object.defineProperty(HeldSlot.prototype, symbol, { value });
}

function shortestHoldUs(limits: readonly Limit[]): number {
  return Math.min(
    ...limits.map(({ plan: { algorithm, numbers } }) => algorithm.slots?.holdUs(numbers) ?? Infinity),
  );
}
