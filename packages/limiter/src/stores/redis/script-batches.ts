import { afterMicrotasks } from '../../after-microtasks.ts';
import { LimiterError } from '../../errors.ts';
import type { AnyState } from '../../algorithms/algorithm.ts';
import type { BucketState } from '../../algorithms/bucket/bucket.ts';
import type { Limit } from '../../limit.ts';
import { chargeAsLease } from '../local/lease-grant.ts';
import { bucketOf, type LeaseAnswer } from '../local/lease-table.ts';
import type { TokenLease } from '../local/token-lease.ts';
import type { AdjustedLimit, Adjustment, StoreVerdict } from '../store.ts';
import { decideScript, leaseScript, refundScript, scriptCommand, type Command } from './script.ts';
import { replyCode } from './failure-class.ts';
import {
  decode,
  decodeLease,
  decodeRefund,
  decodeReturn,
  encode,
  encodeLease,
  encodeRefund,
  encodeRelease,
  encodeReturn,
  keysOf,
  type Answer,
  type Question,
  type Refund,
} from './protocol.ts';
import { runSettlement } from './settle-protocol.ts';

/** Decisions in one script call: enough to spread its fixed cost, few enough that nobody else on the server waits. */
const MAX_BATCH = 64;
/** States that one call reads and writes: a check may have 32, and a full log takes the server longer than a bucket. */
const MAX_KEYS = 64;
/** What these states can weigh together: 16 logs of a thousand admissions, which take a server about a millisecond. */
const MAX_STATE_BYTES = 2 ** 18;
/** Of every algorithm but the log. */
const SMALL_STATE_BYTES = 64;
const DOUBLE_BYTES = 8;
/** Fewer are not worth a call of their own. */
const MIN_BATCH = 8;
/** Script calls in flight at once; further decisions gather into the next batch in the meantime. */
const MIN_IN_FLIGHT = 4;
/**
 * A server that is far away gets a call per millisecond of its distance: nobody waits for a round trip before his own.
 */
const MAX_IN_FLIGHT = 64;
/** Decisions that may wait for a call. Past it, a check is answered by the failure policy instead of queueing. */
const MAX_WAITING = 10_000;

export interface ScriptBatchesParts {
  readonly route: (command: Command) => Promise<unknown>;
  /** The time for the script, '' for the server's own. */
  readonly nowUs: () => string;
  /** A decision was charged although somebody else had answered its caller. */
  readonly onLateCharge: (refunded: boolean) => void;
}

/**
 * Sends decisions in script calls. Those of one lane may share a call; what is asked in the same turn of the event
 * loop, or while earlier calls are in flight, does. A lone decision leaves at the end of the turn, without waiting for
 * company.
 */
export class ScriptBatches {
  private readonly parts: ScriptBatchesParts;
  /** At most one per slot. */
  private readonly lanes = new Map<number, BatchLane>();
  private readonly backlog: Backlog = { waiting: 0 };

  constructor(parts: ScriptBatchesParts) {
    this.parts = parts;
  }

  decide(lane: number, question: Question): Promise<Answer> {
    const { backlog } = this;
    if (backlog.waiting >= MAX_WAITING) {
      return Promise.reject(
        new LimiterError(
          'STORE_OVERLOADED',
          `${MAX_WAITING} decisions are already waiting for Redis, the most that may: the failure policy answers.`,
        ),
      );
    }
    return new Promise((resolve, reject) => {
      backlog.waiting += 1;
      this.laneAt(lane).add({ question, resolve, reject });
    });
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
   * Limits with leases get back what was charged only while nothing was charged behind it: leases may lie there in the
   * bucket's virtual time, and to move its end back would hand out their slots a second time. Answers whether all got
   * theirs.
   */
  private async returnCharges({ question, reserved }: Refund): Promise<boolean> {
    const { atUs, states = [], verdicts } = reserved;
    const returned = question.limits.map(async (limit, at) => {
      const key = question.keys[at] ?? '';
      if (hasLeases(limit)) {
        const charge = chargeAsLease(bucketState(states[at]), bucketOf(limit), question.cost, atUs);
        return charge !== undefined && this.returnLease(key, limit, charge);
      }
      if (wasHeld(limit, states[at])) return true;
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
    return decodeLease(await route(scriptCommand(leaseScript(), [key], encodeLease(limit, want, nowUs()))));
  }

  /** Gives back what is left of a lease, where nothing was charged behind it. Answers whether it could be. */
  async returnLease(key: string, limit: Limit, lease: TokenLease): Promise<boolean> {
    const { route, nowUs } = this.parts;
    return decodeReturn(
      await route(scriptCommand(leaseScript(), [key], encodeReturn(limit, lease, nowUs()))),
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

function hasLeases({ policy }: Limit): boolean {
  return policy.leases !== false;
}

/** Whether a refund depends on what else the limit has to do with. */
function isSettledAlone(limit: Limit): boolean {
  return hasLeases(limit) || limit.plan.algorithm.slots !== undefined;
}

/** Whether a slot was only renewed: then nothing was taken that could be given back. */
function wasHeld({ plan: { algorithm, numbers } }: Limit, state: AnyState | undefined): boolean {
  return state !== undefined && algorithm.slots?.isHeld(state, numbers) === true;
}

/** Only token buckets have leases. */
function bucketState(state: AnyState | undefined): BucketState | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the state by which a token bucket was decided
  return state as BucketState | undefined;
}

/** How many decisions wait, over all lanes. */
interface Backlog {
  waiting: number;
}

interface WaitingDecision {
  readonly question: Question;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

class BatchLane {
  private readonly parts: ScriptBatchesParts;
  private readonly backlog: Backlog;
  private readonly onLateReply: (questions: readonly Question[], reply: unknown) => void;
  private readonly waiting: WaitingDecision[] = [];
  private callsInFlight = 0;
  private decisionsInFlight = 0;
  private scheduled = false;
  private readonly distance = new Distance();

  constructor(
    parts: ScriptBatchesParts,
    backlog: Backlog,
    onLateReply: (questions: readonly Question[], reply: unknown) => void,
  ) {
    this.parts = parts;
    this.backlog = backlog;
    this.onLateReply = onLateReply;
  }

  add(decision: WaitingDecision): void {
    this.waiting.push(decision);
    this.schedule();
  }

  private schedule(): void {
    if (!this.mayCall()) return;
    this.scheduled = true;
    // Not a microtask: those run after every single callback, and requests of one turn would get a call each.
    setImmediate(this.callNext);
  }

  /**
   * After a reply: when all whom it answered have gone on and perhaps asked again, but in the same turn of the event
   * loop. node-redis writes at the end of the turn, so a call that is made there waits for another one, in which the
   * replies to all other calls are read: then the server has nothing to do.
   */
  private scheduleAfterReply(): void {
    if (!this.mayCall()) return;
    this.scheduled = true;
    afterMicrotasks(this.callNext);
  }

  private mayCall(): boolean {
    return !this.scheduled && this.callsInFlight < this.mostInFlight();
  }

  /** One call per turn: a server that gets two in one piece answers both at once, and then waits for the next two. */
  private readonly callNext = (): void => {
    this.scheduled = false;
    let batch: readonly WaitingDecision[] = [];
    while (batch.length === 0 && this.waiting.length > 0) batch = this.takeBatch();
    if (batch.length > 0) void this.runBatch(batch);
    if (this.waiting.length > 0) this.schedule();
  };

  private mostInFlight(): number {
    return Math.min(MAX_IN_FLIGHT, Math.max(MIN_IN_FLIGHT, Math.ceil(this.distance.ms)));
  }

  private takeBatch(): readonly WaitingDecision[] {
    // Half of all that are on their way: the server decides one half while this process makes the other.
    const half = Math.max(MIN_BATCH, Math.ceil((this.waiting.length + this.decisionsInFlight) / 2));
    const wanted = this.waiting.length - half < MIN_BATCH ? this.waiting.length : half;
    const most = Math.min(MAX_BATCH, wanted);
    const nowMs = performance.now();
    const batch: WaitingDecision[] = [];
    let taken = 0;
    let keys = 0;
    let bytes = 0;
    for (const next of this.waiting) {
      const { question } = next;
      const weight = maxStateBytes(question);
      const fits = keys + question.keys.length <= MAX_KEYS && bytes + weight <= MAX_STATE_BYTES;
      // A decision cannot be divided: a heavy one has a call of its own.
      if (batch.length === most || (keys > 0 && !fits)) break;
      taken += 1;
      // The failure policy has answered in the meantime: a charge would be for nothing.
      if (question.caller?.gaveUp(nowMs) === true) {
        next.reject(tooLate());
        continue;
      }
      keys += question.keys.length;
      bytes += weight;
      batch.push(next);
    }
    this.waiting.splice(0, taken);
    this.backlog.waiting -= taken;
    return batch;
  }

  private async runBatch(batch: readonly WaitingDecision[]): Promise<void> {
    this.callsInFlight += 1;
    this.decisionsInFlight += batch.length;
    const questions = batch.map(({ question }) => question);
    const sentAtMs = performance.now();
    try {
      const reply = await this.run(questions);
      this.distance.note(performance.now() - sentAtMs);
      const answers = decode(questions, reply);
      batch.forEach(({ resolve, reject }, at) => {
        const answer = answers[at];
        if (answer === undefined) reject(notAState(questions[at]?.limits ?? []));
        else resolve(answer);
      });
    } catch (error) {
      // While its slot moves, a cluster refuses keys of which some have moved and some have not; each alone is fine.
      if (replyCode(error) === 'TRYAGAIN' && batch.length > 1) {
        await Promise.all(batch.map((waiting) => this.runBatch([waiting])));
      } else {
        for (const { reject } of batch) reject(error);
      }
    } finally {
      this.callsInFlight -= 1;
      this.decisionsInFlight -= batch.length;
      this.scheduleAfterReply();
    }
  }

  private run(questions: readonly Question[]): Promise<unknown> {
    const { route, nowUs } = this.parts;
    const keys: string[] = [];
    for (const question of questions) keys.push(...keysOf(question));
    const command = scriptCommand(decideScript(questions), keys, encode(questions, nowUs()));
    return route({ ...command, onLateReply: (reply) => this.onLateReply(questions, reply) });
  }
}

/** How many round trips make one measurement. */
const MEASURED_TRIPS = 64;

/**
 * The shortest of the latest round trips: what the way costs. Longer ones say how busy the server is, and a busy server
 * is helped by larger calls, not by more of them.
 */
class Distance {
  private current = Infinity;
  private previous = Infinity;
  private trips = 0;

  get ms(): number {
    const shortest = Math.min(this.current, this.previous);
    return shortest === Infinity ? 0 : shortest;
  }

  note(tripMs: number): void {
    this.current = Math.min(this.current, tripMs);
    this.trips += 1;
    if (this.trips < MEASURED_TRIPS) return;
    this.previous = this.current;
    this.current = Infinity;
    this.trips = 0;
  }
}

function tooLate(): LimiterError {
  return new LimiterError(
    'DEADLINE_EXCEEDED',
    'The decision waited for Redis until nobody waited for it: find out why Redis is slow, or raise deadlineMs.',
  );
}

function notAState(limits: readonly Limit[]): LimiterError {
  const isTimed = limits.some(({ plan }) => plan.algorithm.redis.renew !== undefined);
  const clocks = isTimed
    ? " Or the clocks of this process and of Redis differ by more than half of the policy's period: correct them."
    : '';
  return new LimiterError(
    'STATE_INVALID',
    `A key of policy ${limits[0]?.policy.name ?? '?'} holds something that is not its state: give the limiter a prefix of its own.${clocks}`,
  );
}

function maxStateBytes({ limits }: Question): number {
  let bytes = 0;
  for (const { plan } of limits) {
    bytes += plan.algorithm.redis.maxBytes?.(plan.numbers) ?? SMALL_STATE_BYTES;
    if (plan.penalty !== undefined) bytes += plan.penalty.after * DOUBLE_BYTES;
  }
  return bytes;
}
