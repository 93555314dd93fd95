import type { PeekRequest } from '../../algorithms/algorithm.ts';
import {
  decideBlocked,
  penaltyAbsentAtUs,
  penaltyAfterDenial,
  penaltyLeftUs,
  type PenaltyNumbers,
  type PenaltyState,
} from '../../algorithms/penalty/penalty.ts';
import { penaltyName, type Limit } from '../../limit.ts';
import type { AnyState } from '../../algorithms/algorithm.ts';
import type { MemoryVerdict } from './memory-verdict.ts';

/** Looked at for every key that is added. */
const SWEEP_ON_INSERT = 4;
/** Looked at when there is no room; if none of them is over, the denial is not counted. */
const SWEEP_WHEN_FULL = 256;

interface KeptPenalty {
  readonly state: PenaltyState;
  readonly absentAtUs: number;
}

/** A limit about which was decided, and by which state. */
export interface DecidedPenalty {
  readonly limit: Limit;
  readonly state: AnyState | undefined;
  readonly request: PeekRequest;
}

/** The denials and blocks of keys whose policies have `block`. Only keys that were denied are here. */
export class Penalties {
  private maxKeys: number;
  private readonly kept = new Map<string, KeptPenalty>();
  private round = this.kept.entries();

  constructor(maxKeys: number) {
    this.maxKeys = maxKeys;
  }

  resize(maxKeys: number): void {
    this.maxKeys = maxKeys;
  }

  /** Denies where the key is blocked. `counts`: a denial by the limit itself is counted, and may begin a block. */
  apply({ limit, state, request }: DecidedPenalty, out: MemoryVerdict, counts: boolean): void {
    const { algorithm, numbers, penalty } = limit.plan;
    if (penalty === undefined) return;
    // A slot in somebody's hands is renewed whatever happened since.
    if (state !== undefined && algorithm.slots?.isHeld(state, numbers, request.nowUs) === true) return;
    const name = penaltyName(limit);
    const known = this.kept.get(name)?.state;
    let leftUs = penaltyLeftUs(known, penalty, request.nowUs);
    if (leftUs > 0) {
      // The clock stepped back: the block ends by the clock of now.
      if (counts && known?.[0] !== request.nowUs + leftUs)
        this.keep(name, [request.nowUs + leftUs], penalty, request.nowUs);
    } else {
      if (out.allowed || !counts) return;
      const next = penaltyAfterDenial(known, penalty, request.nowUs);
      if (!this.keep(name, next, penalty, request.nowUs)) return;
      leftUs = penaltyLeftUs(next, penalty, request.nowUs);
      if (leftUs === 0) return;
      out.penaltyBegan = true;
    }
    decideBlocked(request, state, leftUs, out);
    out.penaltyLeftUs = leftUs;
  }

  forget(limit: Limit): void {
    if (limit.plan.penalty !== undefined) this.kept.delete(penaltyName(limit));
  }

  clear(): void {
    this.kept.clear();
    this.round = this.kept.entries();
  }

  /** False where there is no room for another key. */
  private keep(name: string, state: PenaltyState, numbers: PenaltyNumbers, nowUs: number): boolean {
    if (!this.kept.has(name)) {
      this.sweep(this.kept.size < this.maxKeys ? SWEEP_ON_INSERT : SWEEP_WHEN_FULL, nowUs);
      if (this.kept.size >= this.maxKeys) return false;
    }
    this.kept.set(name, { state, absentAtUs: penaltyAbsentAtUs(state, numbers) });
    return true;
  }

  private sweep(places: number, nowUs: number): void {
    for (let looked = 0; looked < places; looked += 1) {
      const next = this.round.next();
      if (next.done === true) {
        this.round = this.kept.entries();
        return;
      }
      const [name, { absentAtUs }] = next.value;
      if (absentAtUs <= nowUs) this.kept.delete(name);
    }
  }
}
