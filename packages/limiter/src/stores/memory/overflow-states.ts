import { Outcome, type AnyState } from '../../algorithms/algorithm.ts';
import type { Limit, Plan } from '../../limit.ts';
import type { StateTable } from './state-table.ts';

/** Shared states at once. Past it a new key is denied: neither refused memory nor somebody else's rate admits. */
const MAX_SHARED_STATES = 10_000;
/** Of these in one group. Every decision there looks at all of them. */
const MAX_RATES_PER_GROUP = 100;

/** A state that new keys of one rate share, and a plan of that rate. */
interface SharedState {
  readonly plan: Plan;
  readonly state: AnyState;
}

/** Who pays for a key that has no place: everybody in `name`, apart by rate unless there is nobody else in it. */
export interface OverflowGroup {
  readonly name: string;
  readonly isShared: boolean;
}

/**
 * What keys share that have no place of their own: one state per group and rate. Rates are kept apart, because the
 * faster one would refill what others owe; but whoever comes from one to another takes along the largest debt there is,
 * which is never less than their own.
 */
export class OverflowStates {
  private readonly groups = new Map<string, Map<string, SharedState>>();
  private readonly probe = new Outcome<AnyState>();
  private size = 0;

  get isEmpty(): boolean {
    return this.size === 0;
  }

  /** The state of the group that owes most under these numbers; undefined if none decides anything any more. */
  find(group: string, plan: Plan, nowUs: number): AnyState | undefined {
    const rates = this.groups.get(group);
    if (rates === undefined) return undefined;
    this.dropAbsent(group, rates, nowUs);
    let found: AnyState | undefined;
    let foundResetUs = -1;
    for (const { state } of rates.values()) {
      if (rates.size === 1) return state;
      const { resetAfterUs } = plan.algorithm.decide(state, plan.numbers, 0, nowUs, this.probe);
      if (resetAfterUs > foundResetUs) {
        found = state;
        foundResetUs = resetAfterUs;
      }
    }
    return found;
  }

  /** False when there are too many already. */
  keep({ name, isShared }: OverflowGroup, plan: Plan, state: AnyState): boolean {
    const rates = this.groups.get(name) ?? new Map<string, SharedState>();
    const rateId = isShared ? plan.rateId : '';
    if (!rates.has(rateId)) {
      if (this.size >= MAX_SHARED_STATES || rates.size >= MAX_RATES_PER_GROUP) return false;
      this.size += 1;
    }
    this.groups.set(name, rates.set(rateId, { plan, state }));
    return true;
  }

  /** Frees the slot of these numbers wherever the group has it. */
  release(group: string, { algorithm, numbers }: Plan, nowUs: number): void {
    const rates = this.groups.get(group);
    if (rates === undefined) return;
    for (const [rateId, { plan, state }] of rates) {
      rates.set(rateId, { plan, state: algorithm.slots?.release(state, numbers) ?? state });
    }
    this.dropAbsent(group, rates, nowUs);
  }

  /** Whether some group whose name begins like this still decides anything. */
  isLive(prefix: string, nowUs: number): boolean {
    for (const [group, rates] of this.groups) {
      if (!group.startsWith(prefix)) continue;
      this.dropAbsent(group, rates, nowUs);
      if (rates.size > 0) return true;
    }
    return false;
  }

  clear(): void {
    this.groups.clear();
    this.size = 0;
  }

  private dropAbsent(group: string, rates: Map<string, SharedState>, nowUs: number): void {
    for (const [rateId, { plan, state }] of rates) {
      if (plan.algorithm.absentAtUs(state, plan.numbers) > nowUs) continue;
      rates.delete(rateId);
      this.size -= 1;
    }
    if (rates.size === 0) this.groups.delete(group);
  }
}

/** A table's hashes have a seed of their own: it has to stay while a crowd of it owes something. */
export function crowdsOf(stateId: string): string {
  return `${stateId}#`;
}

/** The keys that collide with the one that the table was last asked for. */
export function crowdGroup(plan: Plan, table: StateTable): string {
  return crowdsOf(plan.stateId) + table.crowd;
}

export function ownGroup({ plan, stateKey }: Limit): string {
  return `${plan.stateId}!${stateKey}`;
}
