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

  /** The answer, unless it takes too long or the caller gives up first. */
  within<Answer>(ask: (caller: Caller) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const wait = new StoreWait(this.queue, this.limitMs, reject);
      started(wait, ask).then(
        (value) => {
          wait.cancel();
          return resolve(value);
        },
        (error: unknown) => {
          wait.cancel();
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown
          reject(error);
        },
      );
      if (signal !== undefined) wait.endOnAbort(signal);
    });
  }
}

/** One answer that is waited for. */
class StoreWait extends QueuedDeadline implements Caller {
  private readonly waits: DeadlineQueue;
  private readonly limitMs: number;
  private readonly reject: (error: Error) => void;
  private onEnd: (() => void) | undefined = undefined;
  private state: 'running' | 'paused' | 'over' = 'running';

  constructor(waits: DeadlineQueue, limitMs: number, reject: (error: Error) => void) {
    super();
    this.waits = waits;
    this.limitMs = limitMs;
    this.reject = reject;
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
    this.reject(
      new LimiterError(
        'DEADLINE_EXCEEDED',
        `The store did not answer within ${this.limitMs} ms: find out why it is slow, or raise deadlineMs.`,
      ),
    );
  }

  /** The reason itself is the caller's to throw: here it only has to end the wait. */
  endOnAbort(signal: AbortSignal): void {
    const abort = (): void => {
      this.cancel();
      this.reject(new Error('aborted by the caller'));
    };
    signal.addEventListener('abort', abort, { once: true });
    this.onEnd = () => signal.removeEventListener('abort', abort);
  }
}

function started<Answer>(wait: StoreWait, ask: (caller: Caller) => Promise<Answer>): Promise<Answer> {
  try {
    return ask(wait);
  } catch (error) {
    wait.cancel();
    throw error;
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
