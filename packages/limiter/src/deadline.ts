import { DeadlineQueue, QueuedDeadline } from './deadline-queue.ts';
import { LimiterError } from './errors.ts';
import type { Asker } from './stores/store.ts';

/** Waits for answers, but for none longer than the deadline. */
export class Deadline {
  private readonly limitMs: number;
  private readonly queue: DeadlineQueue;

  constructor(limitMs: number) {
    this.limitMs = limitMs;
    this.queue = new DeadlineQueue(limitMs, { holdsProcess: true });
  }

  /** The answer, unless it takes too long or the caller gives up first. */
  within<Answer>(ask: (asker: Asker) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const wait = new StoreWait(this.limitMs, reject);
      this.queue.add(wait);
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
class StoreWait extends QueuedDeadline implements Asker {
  private readonly limitMs: number;
  private readonly reject: (error: Error) => void;
  private onEnd: (() => void) | undefined = undefined;

  constructor(limitMs: number, reject: (error: Error) => void) {
    super();
    this.limitMs = limitMs;
    this.reject = reject;
  }

  /** The timer that ends a wait may be late: the time itself is not. */
  hasLeft(nowMs: number): boolean {
    return !this.isRunning || nowMs >= this.endsAtMs;
  }

  override cancel(): void {
    if (!this.isRunning) return;
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

function started<Answer>(wait: StoreWait, ask: (asker: Asker) => Promise<Answer>): Promise<Answer> {
  try {
    return ask(wait);
  } catch (error) {
    wait.cancel();
    throw error;
  }
}
