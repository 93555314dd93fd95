import { NEVER } from './algorithms/algorithm.ts';
import { DeadlineQueue, QueuedDeadline } from './deadline-queue.ts';
import { show, LimiterError } from './errors.ts';
import type { StoreVerdict, Caller } from './stores/store.ts';

/** Waits for answers, but for none longer than the deadline. */
export class Deadline {
  private readonly limitMs: number;
  private readonly queue: DeadlineQueue;

  constructor(limitMs: number) {
    this.limitMs = limitMs;
    this.queue = new DeadlineQueue(limitMs, { holdsProcess: true });
  }

  /** The answer, unless it takes too long. */
  within<Answer>(ask: (caller: Caller) => Promise<Answer>): Promise<Answer> {
    return new Promise((answered, failed) => this.wait(ask, { answered, failed }));
  }

  /** Tells one of both, once: the answer, unless it takes too long or the caller gives up first. */
  wait<Answer>(ask: (caller: Caller) => Promise<Answer>, asker: Asker<Answer>, signal?: AbortSignal): void {
    const wait = new StoreWait(this.queue, this.limitMs, asker);
    const failed = (error: unknown): void => {
      if (wait.isGone) return;
      wait.cancel();
      asker.failed(error);
    };
    try {
      const answered = (answer: Answer): void => {
        if (wait.isGone) return;
        wait.cancel();
        asker.answered(answer);
      };
      ask(wait).then(answered, failed);
    } catch (error) {
      failed(error);
    }
    if (signal !== undefined && !wait.isGone) wait.endOnAbort(signal);
  }
}

/** Whom an answer is for. */
export interface Asker<Answer> {
  answered(answer: Answer): void;
  failed(error: unknown): void;
}

/** One answer that is waited for. */
class StoreWait extends QueuedDeadline implements Caller {
  private readonly waits: DeadlineQueue;
  private readonly limitMs: number;
  private readonly asker: Asker<never>;
  private onEnd: (() => void) | undefined = undefined;
  private state: 'running' | 'paused' | 'over' = 'running';

  constructor(waits: DeadlineQueue, limitMs: number, asker: Asker<never>) {
    super();
    this.waits = waits;
    this.limitMs = limitMs;
    this.asker = asker;
    waits.add(this);
  }

  /** The timer that ends a wait may be late: the time itself is not. */
  gaveUp(nowMs: number): boolean {
    return this.state === 'running' ? nowMs >= this.endsAtMs : this.state === 'over';
  }

  get isGone(): boolean {
    return this.state === 'over';
  }

  pauseDeadline(): void {
    if (this.state !== 'running') return;
    this.state = 'paused';
    super.cancel();
  }

  resumeDeadline(): void {
    if (this.state !== 'paused') return;
    this.state = 'running';
    this.waits.add(this);
  }

  override cancel(): void {
    if (this.state === 'over') return;
    this.state = 'over';
    super.cancel();
    this.onEnd?.();
  }

  timeUp(): void {
    this.asker.failed(
      new LimiterError(
        'DEADLINE_EXCEEDED',
        `The store did not answer within ${this.limitMs} ms: find out why it is slow, or raise deadlineMs.`,
      ),
    );
  }

  /** The reason itself is the caller's to throw: here it only has to end the wait. */
  endOnAbort(signal: AbortSignal): void {
    const abort = (): void => {
      if (this.isGone) return;
      this.cancel();
      this.asker.failed(new Error('aborted by the caller'));
    };
    signal.addEventListener('abort', abort, { once: true });
    this.onEnd = () => signal.removeEventListener('abort', abort);
  }
}

/** A verdict as it may come over a network, whatever its type says. */
type Claim = { readonly [Field in keyof StoreVerdict]?: unknown } | null | undefined;

/**
 * Throws unless this is what a store promises: one verdict per limit, in whole numbers that agree with each other.
 * Anything else counts as a failure of the store; taken at its word, it could deny forever or allow without a count.
 */
export function requireVerdicts(answer: readonly Claim[] | null | undefined, count: number): void {
  if (!Array.isArray(answer)) throw new TypeError(`it answered ${show(answer)} instead of verdicts`);
  if (answer.length !== count)
    throw new TypeError(`it answered ${answer.length} verdicts for ${count} limits`);
  const claims: readonly Claim[] = answer;
  // By index rather than by iterator: a hole in the list counts too.
  for (let at = 0; at < count; at += 1) requireVerdict(claims[at]);
}

function requireVerdict(claim: Claim): void {
  if (typeof claim !== 'object' || claim === null) {
    throw new TypeError(`it answered ${show(claim)} instead of a verdict`);
  }
  const { allowed, remaining, retryAfterUs, resetAfterUs, delayUs } = claim;
  if (
    !isAmount(remaining) ||
    !(isAmount(retryAfterUs) || retryAfterUs === NEVER) ||
    !isAmount(resetAfterUs) ||
    !isAmount(delayUs) ||
    // A boolean, too: an allowed request need not wait, and a denied one must.
    allowed !== (retryAfterUs === 0)
  ) {
    throw new TypeError(
      `it answered a verdict that cannot be (allowed ${show(allowed)}, remaining ${show(remaining)}, ` +
        `retryAfterUs ${show(retryAfterUs)}, resetAfterUs ${show(resetAfterUs)}, delayUs ${show(delayUs)})`,
    );
  }
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
