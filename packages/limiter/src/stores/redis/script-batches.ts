import { LimiterError } from '../../errors.ts';
import type { AnyState } from '../../algorithms/algorithm.ts';
import type { Limit } from '../../limit.ts';
import type { LeaseAnswer } from '../local/lease-table.ts';
import { leasesOf } from '../local/leased-plan.ts';
import type { LeaseRest } from '../../algorithms/lease.ts';
import { handsOutMoments, partAsLease } from '../settlement.ts';
import type { AdjustedLimit, Adjustment, StoreVerdict } from '../store.ts';
import { BatchLane, type Backlog, type BatchParts, type WaitingDecision } from './batch-lane.ts';
import { leaseScript, refundScript, scriptCommand } from './script.ts';
import {
  decode,
  decodeLease,
  decodeRefund,
  decodeReturn,
  encodeLease,
  encodeRefund,
  encodeRelease,
  encodeReturn,
  type Answer,
  type Question,
  type Refund,
} from './protocol.ts';
import { chargesOf, runSettlement } from './settle-protocol.ts';

/** Decisions that may wait for a call. Past it, a check is answered by the failure policy instead of queueing. */
const MAX_WAITING = 10_000;

/**
 * Sends decisions in script calls. Those of one lane may share a call; what is asked in the same turn of the event
 * loop, or while earlier calls are in flight, does. A lone decision leaves at the end of the turn, without waiting for
 * company.
 */
export class ScriptBatches {
  private readonly parts: BatchParts;
  /** At most one per slot. */
  private readonly lanes = new Map<number, BatchLane>();
  private readonly backlog: Backlog = { waiting: 0 };

  constructor(parts: BatchParts) {
    this.parts = parts;
  }

  decide(lane: number, question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => this.ask(lane, { question, resolve, reject }));
  }

  ask(lane: number, decision: WaitingDecision): void {
    const { backlog } = this;
    if (backlog.waiting >= MAX_WAITING) {
      decision.reject(
        new LimiterError(
          'STORE_OVERLOADED',
          `${MAX_WAITING} decisions are already waiting for Redis, the most that may: the failure policy answers.`,
        ),
      );
      return;
    }
    backlog.waiting += 1;
    this.laneAt(lane).add(decision);
  }

  /** Gives back what a decision has spent. */
  async refund(refund: Refund): Promise<readonly StoreVerdict[]> {
    const { question, reserved } = refund;
    if (question.limits.some(isSettledAlone)) {
      await this.returnCharges(refund);
      return reserved.verdicts;
    }
    return this.refundTogether(refund);
  }

  private async refundTogether(refund: Refund): Promise<readonly StoreVerdict[]> {
    const { question } = refund;
    const { route, nowUs } = this.parts;
    const args = encodeRefund(refund, nowUs());
    return decodeRefund(
      refund,
      await route(scriptCommand(refundScript(question.limits), question.keys, args)),
    );
  }

  /** What was charged for nobody is given back. Nobody waits for that either. */
  giveBack(question: Question, answer: Answer): void {
    const { verb, cost, limits } = question;
    if (verb !== 'check' || cost === 0 || !answer.verdicts.every(({ allowed }) => allowed)) return;
    const { onLateCharge } = this.parts;
    const refund = { question, reserved: answer };
    const refunded = limits.some(isSettledAlone)
      ? this.returnCharges(refund)
      : this.refund(refund).then(() => true);
    refunded.then(onLateCharge, () => onLateCharge(false));
  }

  /**
   * Limits that hand out moments get back what was charged only while nothing was charged behind it: leases, or those
   * who wait in a queue, may have been promised the bucket's virtual time there, and to move its end back would promise
   * it a second time. Answers whether all got theirs.
   */
  private async returnCharges({ question, reserved }: Refund): Promise<boolean> {
    const { atUs, states = [], verdicts } = reserved;
    const charges = chargesOf(question.limits, question.cost, reserved);
    const returned = charges.map(async (charge, at) => {
      const { limit, end } = charge;
      const key = question.keys[at] ?? '';
      if (end !== undefined) return this.returnLease(key, limit, partAsLease(charge, end).rest);
      if (wasHeld(limit, states[at], atUs)) return true;
      const alone = { ...question, limits: [limit], keys: [key] };
      await this.refundTogether({
        question: alone,
        reserved: { atUs, verdicts: verdicts.slice(at, at + 1) },
      });
      return true;
    });
    return (await Promise.all(returned)).every(Boolean);
  }

  private readonly giveBackAll = (questions: readonly Question[], reply: unknown): void => {
    let answers: readonly (Answer | undefined)[];
    try {
      answers = decode(questions, reply);
    } catch {
      // Whatever it is, nothing was decided.
      return;
    }
    answers.forEach((answer, at) => {
      const question = questions[at];
      if (answer !== undefined && question !== undefined) this.giveBack(question, answer);
    });
  };

  /** Frees the slot of a limit. */
  async release(key: string, limit: Limit): Promise<void> {
    const { route, nowUs } = this.parts;
    await route(scriptCommand(refundScript([limit]), [key], encodeRelease(limit, nowUs())));
  }

  async lease(key: string, limit: Limit, want: number): Promise<LeaseAnswer> {
    const { route, nowUs } = this.parts;
    const command = scriptCommand(leaseScript(limit), [key], encodeLease(limit, want, nowUs()));
    const onLateReply = (reply: unknown): void => void this.giveBackLease(key, limit, reply);
    return decodeLease(await route({ ...command, onLateReply }));
  }

  /** A lease that came too late for whoever asked: what does not pass by itself would stay charged for nobody. */
  private async giveBackLease(key: string, limit: Limit, reply: unknown): Promise<void> {
    const operations = leasesOf(limit.plan);
    if (operations.passes) return;
    try {
      const { grant } = decodeLease(reply);
      if (grant === undefined) return;
      await this.returnLease(key, limit, operations.hold(limit.plan.numbers, grant).rest);
    } catch {
      // It stays charged until it leaves the window, as what a process holds that dies.
    }
  }

  /** Gives back what is left of a lease, where that is possible. Answers whether it was. */
  async returnLease(key: string, limit: Limit, rest: LeaseRest): Promise<boolean> {
    const { route, nowUs } = this.parts;
    return decodeReturn(
      await route(scriptCommand(leaseScript(limit), [key], encodeReturn(limit, rest, nowUs()))),
    );
  }

  /** Settles a reservation; the first key remembers that it was, so that the same call may be sent again. */
  settle(keys: readonly string[], adjustments: readonly Adjustment[]): Promise<readonly AdjustedLimit[]> {
    return runSettlement(this.parts, keys, adjustments);
  }

  private laneAt(at: number): BatchLane {
    const known = this.lanes.get(at);
    if (known !== undefined) return known;
    const lane = new BatchLane(this.parts, this.backlog, this.giveBackAll);
    this.lanes.set(at, lane);
    return lane;
  }
}

/** Whether a refund depends on what else the limit has to do with. */
function isSettledAlone(limit: Limit): boolean {
  return handsOutMoments(limit) || limit.plan.algorithm.slots !== undefined;
}

/** Whether a slot was only renewed: then nothing was taken that could be given back. */
function wasHeld(
  { plan: { algorithm, numbers } }: Limit,
  state: AnyState | undefined,
  atUs: number,
): boolean {
  return state !== undefined && algorithm.slots?.isHeld(state, numbers, atUs) === true;
}
