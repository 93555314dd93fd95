import { afterArrivals } from './after-arrivals.ts';
import { LimiterError } from './errors.ts';
import type { Asker } from './stores/store.ts';

/** One answer that is waited for; a link in the list of all of them, the oldest first. */
class Wait implements Asker {
  readonly expiresAtMs: number;
  readonly giveUp: () => void;
  onEnd: (() => void) | undefined = undefined;
  ended = false;
  before: Wait | undefined;
  after: Wait | undefined = undefined;

  constructor(expiresAtMs: number, giveUp: () => void, before: Wait | undefined) {
    this.expiresAtMs = expiresAtMs;
    this.giveUp = giveUp;
    this.before = before;
  }

  /** The timer that ends a wait may be late: the time itself is not. */
  hasLeft(nowMs: number): boolean {
    return this.ended || nowMs >= this.expiresAtMs;
  }
}

/**
 * Waits for answers, but for none longer than the deadline. All waits take equally long, so they end in the order in
 * which they began, and one timer serves them all: a timer for each would cost about as much as the rest of a check.
 */
export class Deadline {
  private readonly limitMs: number;
  private oldest: Wait | undefined;
  private newest: Wait | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(limitMs: number) {
    this.limitMs = limitMs;
  }

  /** The answer, unless it takes too long or the caller gives up first. */
  within<Answer>(ask: (asker: Asker) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const wait = this.begin(() => {
        reject(
          new LimiterError(
            'DEADLINE_EXCEEDED',
            `The store did not answer within ${this.limitMs} ms: find out why it is slow, or raise deadlineMs.`,
          ),
        );
      });
      this.started(wait, ask).then(
        (value) => {
          this.end(wait);
          return resolve(value);
        },
        (error: unknown) => {
          this.end(wait);
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- passes on whatever was thrown
          reject(error);
        },
      );
      if (signal !== undefined) this.endOnAbort(wait, signal, reject);
    });
  }

  private started<Answer>(wait: Wait, ask: (asker: Asker) => Promise<Answer>): Promise<Answer> {
    try {
      return ask(wait);
    } catch (error) {
      this.end(wait);
      throw error;
    }
  }

  /** The reason itself is the caller's to throw: here it only has to end the wait. */
  private endOnAbort(wait: Wait, signal: AbortSignal, reject: (error: Error) => void): void {
    const abort = (): void => {
      this.end(wait);
      reject(new Error('aborted by the caller'));
    };
    signal.addEventListener('abort', abort, { once: true });
    wait.onEnd = () => signal.removeEventListener('abort', abort);
  }

  private begin(giveUp: () => void): Wait {
    const before = this.newest;
    const wait = new Wait(performance.now() + this.limitMs, giveUp, before);
    this.newest = wait;
    if (before === undefined) {
      this.oldest = wait;
      this.holdProcess();
    } else {
      before.after = wait;
    }
    return wait;
  }

  private end(wait: Wait): void {
    if (wait.ended) return;
    wait.ended = true;
    const { before, after } = wait;
    if (before === undefined) this.oldest = after;
    else before.after = after;
    if (after === undefined) this.newest = before;
    else after.before = before;
    if (this.oldest === undefined) this.releaseProcess();
    wait.onEnd?.();
  }

  /** The timer runs on when nobody waits, until it is due: the next wait may come before that. */
  private holdProcess(): void {
    if (this.timer === undefined) this.timer = setTimeout(this.lookAround, this.limitMs);
    else if (canHold(this.timer)) this.timer.ref();
  }

  private releaseProcess(): void {
    if (canHold(this.timer)) this.timer.unref();
  }

  private readonly lookAround = (): void => {
    afterArrivals(this.oldest?.expiresAtMs ?? Infinity, this.giveUpOverdue);
  };

  private readonly giveUpOverdue = (): void => {
    this.timer = undefined;
    const nowMs = performance.now();
    for (let wait = this.oldest; wait !== undefined; wait = this.oldest) {
      const leftMs = wait.expiresAtMs - nowMs;
      if (leftMs > 0) {
        // A timer may be early by a fraction of a millisecond.
        this.timer = setTimeout(this.lookAround, Math.ceil(leftMs));
        return;
      }
      this.end(wait);
      wait.giveUp();
    }
  };
}

/** Timers of Node.js keep the process from ending; those of edge runtimes are plain numbers. */
function canHold(timer: unknown): timer is { ref(): void; unref(): void } {
  return typeof timer === 'object' && timer !== null && 'unref' in timer;
}
