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
  /** Not over before it was heard: then the answer to one request is the next denial for the others. */
  readonly outlivesTrip: boolean;
  /** Somebody has found that it may be over. */
  isOver: boolean;
  /** Settles with the answer to whoever asks the store whether it is. */
  answer: Promise<void> | undefined;
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
  /** How many of them may be over. */
  private over = 0;

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
    const untilUs = moment.storeUs + longestUs;
    const outlivesTrip = longestUs > moment.heardUs - moment.sentUs;
    this.add(id, { limits, cost, verdicts, moment, untilUs, outlivesTrip, isOver: false, answer: undefined });
  }

  /** The denial that the store would give, or undefined where it has to be asked. */
  repeat(limits: readonly Limit[], cost: number, nowUs: number): readonly StoreVerdict[] | undefined {
    if (this.denials.size === 0) return undefined;
    const denial = this.find(limits, cost);
    if (denial === undefined) return undefined;
    const { moment, untilUs, verdicts } = denial;
    // What is left of the wait is counted from the denial's own answer, and rounded so that a client that obeys it is
    // never early. Another answer may have shown since that the clock was set back.
    const earliestUs = earliestStoreTimeUs(moment, nowUs);
    // Denied as long as the store would surely deny.
    const stands = earliestUs < untilUs && moment.clock.latestUs(nowUs) < untilUs;
    if (stands && nowUs - moment.sentUs < MAX_REPEAT_US)
      return verdicts.map((verdict) => age(verdict, earliestUs - moment.storeUs));
    if (!denial.isOver) this.over += 1;
    denial.isOver = true;
    return undefined;
  }

  /**
   * Settles when the store has answered somebody who asks whether this denial is over: most often by the next denial.
   * So a flood asks once when a token comes, and not with every request of the moment. Undefined if nobody asks, and
   * where tokens come faster than answers.
   */
  answerFor(limits: readonly Limit[], cost: number): Promise<void> | undefined {
    return this.over === 0 ? undefined : this.find(limits, cost)?.answer;
  }

  /** The store is being asked about these limits. */
  noteAsked(limits: readonly Limit[], cost: number, answer: Promise<unknown>): void {
    if (this.over === 0) return;
    const denial = this.find(limits, cost);
    if (denial?.isOver !== true || !denial.outlivesTrip || denial.answer !== undefined) return;
    const answered = (): void => {
      denial.answer = undefined;
    };
    denial.answer = answer.then(answered, answered);
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

  private find(limits: readonly Limit[], cost: number): StandingDenial | undefined {
    const denial = this.denials.get(idOf(limits));
    // A larger cost would be denied too, but for longer than is known here.
    return denial?.cost === cost && sameLimits(denial.limits, limits) ? denial : undefined;
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
    const denial = this.denials.get(id);
    if (denial === undefined) return;
    const { limits } = denial;
    this.denials.delete(id);
    if (denial.isOver) this.over -= 1;
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
  const { remaining, penaltyLeftUs } = verdict;
  const left = (us: number): number => Math.max(0, us - elapsedUs);
  const retryAfterUs = left(verdict.retryAfterUs);
  const aged: StoreVerdict = {
    allowed: retryAfterUs === 0,
    remaining,
    retryAfterUs,
    resetAfterUs: left(verdict.resetAfterUs),
    delayUs: 0,
    local: 'denialCache',
  };
  return penaltyLeftUs === undefined
    ? aged
    : { ...aged, penaltyLeftUs: left(penaltyLeftUs), penaltyBegan: false };
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
