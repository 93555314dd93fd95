import { NEVER } from '../../algorithms/algorithm.ts';
import { type Limit, stateName } from '../../limit.ts';
import type { StoreVerdict } from '../store.ts';
import { earliestStoreTimeUs, type ClockReading } from './store-clock.ts';

/** Denials that are remembered; past it the oldest is forgotten, and the store is asked again. */
const MAX_DENIALS = 10_000;
/**
 * Longest that a denial is repeated: another process may have made room by a refund, by `forget` or by other numbers.
 */
const MAX_REPEAT_US = 1_000_000;

interface StandingDenial {
  readonly limits: readonly Limit[];
  readonly cost: number;
  readonly verdicts: readonly StoreVerdict[];
  readonly moment: ClockReading;
  /** Until when at least one of the limits denies, by the store's clock. */
  readonly untilUs: number;
}

/**
 * Denials that still hold. Room comes only with time, and other requests only take it: a key that is denied until a
 * certain moment is denied at every moment before. So the same answer is given again without the store, with the wait
 * that is left, and a flood of denied requests does not reach the store.
 */
export class DenialCache {
  private readonly denials = new Map<string, StandingDenial>();
  /** Of denials about several limits: which there are about each of their states. */
  private readonly together = new Map<string, Set<string>>();

  note(
    limits: readonly Limit[],
    cost: number,
    verdicts: readonly StoreVerdict[],
    moment: ClockReading,
  ): void {
    let longestUs = 0;
    for (const { retryAfterUs } of verdicts) {
      // Nothing comes with time for a cost that never fits.
      if (retryAfterUs === NEVER) return;
      longestUs = Math.max(longestUs, retryAfterUs);
    }
    if (longestUs === 0 && this.denials.size === 0) return;
    const id = idOf(limits);
    // A smaller cost that was admitted makes the wait of a larger one longer.
    this.remove(id);
    // A denial that counts has to reach the store, and one of a key that is blocked counts no more until that is over.
    longestUs = limits.reduce((us, { plan }, at) => {
      return plan.penalty === undefined ? us : Math.min(us, verdicts[at]?.penaltyLeftUs ?? 0);
    }, longestUs);
    if (longestUs === 0) return;
    if (this.denials.size >= MAX_DENIALS) this.forgetOldest();
    this.add(id, { limits, cost, verdicts, moment, untilUs: moment.storeUs + longestUs });
  }

  /** The denial that the store would give, or undefined where it has to be asked. */
  repeat(limits: readonly Limit[], cost: number, nowUs: number): readonly StoreVerdict[] | undefined {
    if (this.denials.size === 0) return undefined;
    const id = idOf(limits);
    const denial = this.denials.get(id);
    // A larger cost would be denied too, but for longer than is known here.
    if (denial === undefined || cost !== denial.cost || !sameLimits(denial.limits, limits)) return undefined;
    const { moment, untilUs, verdicts } = denial;
    // Denied as long as the store would surely deny; a wait is rounded so that a client that obeys it is never early.
    if (moment.clock.latestUs(nowUs) < untilUs && nowUs - moment.sentUs < MAX_REPEAT_US) {
      const elapsedUs = earliestStoreTimeUs(moment, nowUs) - moment.storeUs;
      return verdicts.map((verdict) => age(verdict, elapsedUs));
    }
    this.remove(id);
    return undefined;
  }

  /** These limits may have room again: whatever they have to do with is asked for. */
  drop(limits: readonly Limit[]): void {
    if (this.denials.size === 0) return;
    for (const limit of limits) {
      const name = stateName(limit);
      this.remove(name);
      for (const id of this.together.get(name) ?? []) this.remove(id);
    }
  }

  private add(id: string, denial: StandingDenial): void {
    this.denials.set(id, denial);
    const { limits } = denial;
    if (limits.length === 1) return;
    for (const name of limits.map(stateName)) {
      this.together.set(name, (this.together.get(name) ?? new Set<string>()).add(id));
    }
  }

  private remove(id: string): void {
    const limits = this.denials.get(id)?.limits;
    if (limits === undefined) return;
    this.denials.delete(id);
    if (limits.length === 1) return;
    for (const name of limits.map(stateName)) {
      const others = this.together.get(name);
      others?.delete(id);
      if (others?.size === 0) this.together.delete(name);
    }
  }

  private forgetOldest(): void {
    const [oldest] = this.denials.keys();
    if (oldest !== undefined) this.remove(oldest);
  }
}

/**
 * What a verdict of some time ago says now. `remaining` is what the store last said: time can only have added to it.
 */
function age(verdict: StoreVerdict, elapsedUs: number): StoreVerdict {
  const retryAfterUs = Math.max(0, verdict.retryAfterUs - elapsedUs);
  return {
    allowed: retryAfterUs === 0,
    remaining: verdict.remaining,
    retryAfterUs,
    resetAfterUs: Math.max(0, verdict.resetAfterUs - elapsedUs),
    delayUs: 0,
    local: 'denialCache',
    ...(verdict.penaltyLeftUs === undefined
      ? {}
      : { penaltyLeftUs: Math.max(0, verdict.penaltyLeftUs - elapsedUs), penaltyBegan: false }),
  };
}

function idOf(limits: readonly Limit[]): string {
  const [first] = limits;
  return limits.length === 1 && first !== undefined ? stateName(first) : limits.map(stateName).join('\n');
}

/** Other numbers or costs of the same key are another question. */
function sameLimits(known: readonly Limit[], asked: readonly Limit[]): boolean {
  return (
    known.length === asked.length &&
    known.every(
      (limit, at) =>
        limit.stateKey === asked[at]?.stateKey &&
        limit.plan === asked[at].plan &&
        limit.cost === asked[at].cost,
    )
  );
}
