import { afterPendingIo } from './after-pending-io.ts';

/** Waits that are equally long. They end in the order in which they began, so that one timer serves them all. */
export class DeadlineQueue {
  readonly lengthMs: number;
  private readonly options: DeadlineQueueOptions;
  private oldest: QueuedDeadline | undefined;
  private newest: QueuedDeadline | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(lengthMs: number, options: DeadlineQueueOptions) {
    this.lengthMs = lengthMs;
    this.options = options;
  }

  /** Starts the wait of an entry that is in no queue. */
  add(entry: QueuedDeadline): void {
    const before = this.newest;
    entry.queue = this;
    entry.endsAtMs = performance.now() + this.lengthMs;
    entry.before = before;
    entry.after = undefined;
    this.newest = entry;
    if (before === undefined) this.oldest = entry;
    else before.after = entry;
    if (this.timer === undefined) this.timer = this.wakeIn(this.lengthMs);
    else if (before === undefined && this.options.holdsProcess) keepProcess(this.timer);
  }

  /** @internal An entry leaves by itself: `QueuedDeadline.cancel()`. */
  remove(entry: QueuedDeadline): void {
    const { before, after } = entry;
    if (before === undefined) this.oldest = after;
    else before.after = after;
    if (after === undefined) this.newest = before;
    else after.before = before;
    // An entry that is over must not keep the next one in memory, which would keep the one after it, and so on.
    entry.before = undefined;
    entry.after = undefined;
    if (this.oldest === undefined && this.options.holdsProcess) releaseProcess(this.timer);
  }

  /** The timer runs on when nobody waits: the next wait mostly begins before it is due. */
  private wakeIn(ms: number): ReturnType<typeof setTimeout> {
    const timer = setTimeout(this.wake, ms);
    if (!this.options.holdsProcess) releaseProcess(timer);
    return timer;
  }

  private readonly wake = (): void => {
    afterPendingIo(this.oldest?.endsAtMs ?? Infinity, this.endOverdue);
  };

  private readonly endOverdue = (): void => {
    const nowMs = performance.now();
    try {
      for (let next = this.oldest; next !== undefined && next.endsAtMs <= nowMs; next = this.oldest) {
        next.cancel();
        next.timeUp();
      }
    } finally {
      this.wakeForNext(nowMs);
    }
  };

  private wakeForNext(nowMs: number): void {
    const next = this.oldest;
    if (next === undefined) {
      this.timer = undefined;
      this.options.emptied?.();
    } else {
      // A timer may be early by a fraction of a millisecond.
      this.timer = this.wakeIn(Math.ceil(next.endsAtMs - nowMs));
    }
  }
}

export interface DeadlineQueueOptions {
  /** A process with nothing else to do stays alive while a deadline is pending. */
  readonly holdsProcess: boolean;
  /** Nobody waits any more, and no timer runs. */
  readonly emptied?: () => void;
}

/**
 * One wait, which is also its place in the queue: a check and a request start one each, so there is no object beside
 * it.
 */
export abstract class QueuedDeadline {
  /** By `performance.now()`. */
  endsAtMs = 0;
  /** @internal The queue it waits in. */
  queue: DeadlineQueue | undefined = undefined;
  /** @internal */
  before: QueuedDeadline | undefined = undefined;
  /** @internal */
  after: QueuedDeadline | undefined = undefined;

  /** Called when the time is up. */
  abstract timeUp(): void;

  get isRunning(): boolean {
    return this.queue !== undefined;
  }

  /** Ends the wait; one that is over stays so. */
  cancel(): void {
    const { queue } = this;
    if (queue === undefined) return;
    this.queue = undefined;
    queue.remove(this);
  }

  /** Waits the whole time again, from now on; one that is over stays so. */
  restart(): void {
    const { queue } = this;
    if (queue === undefined) return;
    queue.remove(this);
    queue.add(this);
  }
}

/** Timers of Node.js keep the process from ending; those of edge runtimes are plain numbers. */
function canHold(timer: unknown): timer is { ref(): void; unref(): void } {
  return typeof timer === 'object' && timer !== null && 'unref' in timer;
}

function keepProcess(timer: unknown): void {
  if (canHold(timer)) timer.ref();
}

function releaseProcess(timer: unknown): void {
  if (canHold(timer)) timer.unref();
}

/** Hears that its time is up. */
export interface TimeoutListener {
  timeUp(): void;
}

class ListenedTimeout extends QueuedDeadline {
  private readonly listener: TimeoutListener;

  constructor(listener: TimeoutListener) {
    super();
    this.listener = listener;
  }

  timeUp(): void {
    this.listener.timeUp();
  }
}

/** A timeout that does not hold the process. All of one length share a timer, which makes starting one cheap. */
export function startTimeout(ms: number, listener: TimeoutListener): QueuedDeadline {
  const timeout = new ListenedTimeout(listener);
  sharedQueue(ms).add(timeout);
  return timeout;
}

/** As many as there are lengths in use. */
const sharedQueues = new Map<number, DeadlineQueue>();

function sharedQueue(ms: number): DeadlineQueue {
  const known = sharedQueues.get(ms);
  if (known !== undefined) return known;
  const queue = new DeadlineQueue(ms, { holdsProcess: false, emptied: () => sharedQueues.delete(ms) });
  sharedQueues.set(ms, queue);
  return queue;
}
