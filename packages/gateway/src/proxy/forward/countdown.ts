/** Hears that its time is up. */
export interface CountdownListener {
  timeUp(): void;
}

/** A link in the list of all that take equally long; the oldest is the first of them to end. */
export class Countdown {
  readonly listener: CountdownListener;
  endsAtMs: number;
  before: Countdown | undefined = undefined;
  after: Countdown | undefined = undefined;
  private readonly queue: CountdownQueue;
  private running = true;

  constructor(queue: CountdownQueue, listener: CountdownListener, endsAtMs: number) {
    this.queue = queue;
    this.listener = listener;
    this.endsAtMs = endsAtMs;
  }

  /** Also one that is over. */
  cancel(): void {
    if (!this.running) return;
    this.running = false;
    this.queue.remove(this);
  }

  /** From the beginning; one that is over stays so. */
  restart(): void {
    if (!this.running) return;
    this.queue.remove(this);
    this.queue.append(this);
  }
}

/** Countdowns of one length. They end in the order in which they began, so that one timer serves them all: each request starts one. */
class CountdownQueue {
  private readonly ms: number;
  private readonly emptied: () => void;
  private oldest: Countdown | undefined;
  private newest: Countdown | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(ms: number, emptied: () => void) {
    this.ms = ms;
    this.emptied = emptied;
  }

  start(listener: CountdownListener): Countdown {
    const countdown = new Countdown(this, listener, 0);
    this.append(countdown);
    return countdown;
  }

  append(countdown: Countdown): void {
    const before = this.newest;
    countdown.endsAtMs = performance.now() + this.ms;
    countdown.before = before;
    countdown.after = undefined;
    this.newest = countdown;
    if (before === undefined) this.oldest = countdown;
    else before.after = countdown;
    this.timer ??= this.wakeIn(this.ms);
  }

  remove({ before, after }: Countdown): void {
    if (before === undefined) this.oldest = after;
    else before.after = after;
    if (after === undefined) this.newest = before;
    else after.before = before;
  }

  /** It runs on when nothing is left to wait for: the next countdown mostly begins before it ends. What waits holds the process itself. */
  private wakeIn(ms: number): NodeJS.Timeout {
    return setTimeout(this.endOverdue, ms).unref();
  }

  private readonly endOverdue = (): void => {
    this.timer = undefined;
    const nowMs = performance.now();
    for (let next = this.oldest; next !== undefined; next = this.oldest) {
      const leftMs = next.endsAtMs - nowMs;
      if (leftMs > 0) {
        // A timer may be early by a fraction of a millisecond.
        this.timer ??= this.wakeIn(Math.ceil(leftMs));
        return;
      }
      next.cancel();
      next.listener.timeUp();
    }
    if (!this.wakesAgain()) this.emptied();
  };

  /** Whoever heard that its time is up began another one, even if nothing is left of it. */
  private wakesAgain(): boolean {
    return this.timer !== undefined;
  }
}

/** As many as there are settings of times, while they are in use. */
const queues = new Map<number, CountdownQueue>();

export function startCountdown(ms: number, listener: CountdownListener): Countdown {
  return queueOf(ms).start(listener);
}

function queueOf(ms: number): CountdownQueue {
  const known = queues.get(ms);
  if (known !== undefined) return known;
  const queue = new CountdownQueue(ms, () => queues.delete(ms));
  queues.set(ms, queue);
  return queue;
}
