import { afterMicrotasks } from '../../after-microtasks.ts';
import { LimiterError } from '../../errors.ts';
import { StoreClock } from '../local/store-clock.ts';
import { replyCode } from './failure-class.ts';
import { decode, encode, keysOf, notAState, type Answer, type Question } from './protocol.ts';
import { decideScript, scriptCommand, type Command } from './script.ts';

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

/** What calls are made with. */
export interface BatchParts {
  readonly route: (command: Command) => Promise<unknown>;
  /** The time for the script, '' for the server's own. */
  readonly nowUs: () => string;
  /** The time of this process that answers are dated by; `ms` is what `performance.now()` has just said. */
  readonly localUs: (ms: number) => number;
  /** A decision was charged although somebody else had answered its caller. */
  readonly onLateCharge: (refunded: boolean) => void;
}

/** How many decisions wait, over all lanes. */
export interface Backlog {
  waiting: number;
}

/** A decision that waits for its call. Neither method throws. */
export interface WaitingDecision {
  readonly question: Question;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/** Decisions that may share script calls. */
export class BatchLane {
  private readonly parts: BatchParts;
  private readonly backlog: Backlog;
  private readonly onLateReply: (questions: readonly Question[], reply: unknown) => void;
  private readonly waiting: WaitingDecision[] = [];
  private callsInFlight = 0;
  private decisionsInFlight = 0;
  private scheduled = false;
  private readonly distance = new Distance();
  private readonly clock = new StoreClock();

  constructor(
    parts: BatchParts,
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
    const { localUs } = this.parts;
    try {
      const sentUs = localUs(sentAtMs);
      const reply = await this.run(questions);
      const heardAtMs = performance.now();
      this.distance.note(heardAtMs - sentAtMs);
      const answers = decode(questions, reply, (storeUs) =>
        this.clock.heard({ storeUs, sentUs, heardUs: localUs(heardAtMs) }),
      );
      batch.forEach((decision, at) => {
        const answer = answers[at];
        if (answer === undefined) decision.reject(notAState(questions[at]?.limits ?? []));
        else decision.resolve(answer);
      });
    } catch (error) {
      // While its slot moves, a cluster refuses keys of which some have moved and some have not; each alone is fine.
      if (replyCode(error) === 'TRYAGAIN' && batch.length > 1) {
        await Promise.all(batch.map((waiting) => this.runBatch([waiting])));
      } else {
        for (const decision of batch) decision.reject(error);
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

function maxStateBytes({ limits }: Question): number {
  let bytes = 0;
  for (const { plan } of limits) {
    bytes += plan.algorithm.redis.maxBytes?.(plan.numbers) ?? SMALL_STATE_BYTES;
    if (plan.penalty !== undefined) bytes += plan.penalty.after * DOUBLE_BYTES;
  }
  return bytes;
}
