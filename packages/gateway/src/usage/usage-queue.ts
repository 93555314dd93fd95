import type { Log } from '../telemetry/log.ts';

/** Where events go. */
export interface UsageSink<Event> {
  /** Takes a batch as a whole. Rejects with a `RejectedBatch` if it never will, with anything else if it may later. */
  write(events: readonly Event[], signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Sending it again would not help. */
export class RejectedBatch extends Error {}

/** What became of events. */
export type UsageResult = 'sent' | 'repeated' | 'rejected' | 'dropped';

export interface UsageQueueOptions<Event> {
  readonly sink: UsageSink<Event>;
  readonly batchSize: number;
  readonly flushIntervalMs: number;
  readonly maxQueued: number;
  readonly log: Log;
  readonly count: (result: UsageResult, events: number) => void;
}

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** While events are lost, the log says so once in this time. */
const COMPLAINT_MS = 10_000;

/**
 * Events on their way to a sink, in order, a batch at a time. A batch is sent until it is taken, with the same ids: at
 * least once. `add` only appends to a list, so that no request waits for anything here.
 */
export class UsageQueue<Event> {
  private readonly options: UsageQueueOptions<Event>;
  private readonly closing = new AbortController();
  private waiting: Event[] = [];
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  private pauseMs = 0;
  private complainedAtMs = Number.NEGATIVE_INFINITY;
  private ended = false;

  constructor(options: UsageQueueOptions<Event>) {
    this.options = options;
  }

  get size(): number {
    return this.waiting.length;
  }

  add(event: Event): void {
    const { maxQueued, batchSize, flushIntervalMs } = this.options;
    if (this.ended || this.waiting.length >= maxQueued) {
      this.lose(1, 'dropped');
      return;
    }
    this.waiting.push(event);
    if (this.sending !== undefined || this.pauseMs > 0) return;
    if (this.waiting.length >= batchSize) this.schedule(0);
    else this.timer ??= setTimeout(() => this.flush(), flushIntervalMs).unref();
  }

  /** Sends what is left, for so long at most. */
  async close(withinMs: number): Promise<void> {
    this.ended = true;
    const { signal } = this.closing;
    const late = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const deadline = setTimeout(() => this.closing.abort(), withinMs);
    this.pauseMs = 0;
    while (this.waiting.length > 0 && !signal.aborted) {
      this.flush();
      // A sink may be deaf to the signal, such as a file on a disk that hangs.
      await Promise.race([this.sending, late]);
      if (this.pauseMs > 0) await this.pauseBetween();
    }
    await Promise.race([this.sending, late]);
    clearTimeout(deadline);
    clearTimeout(this.timer);
    // Whatever was said a moment ago, this is said.
    this.complainedAtMs = Number.NEGATIVE_INFINITY;
    this.lose(this.waiting.length, 'dropped');
    this.waiting = [];
    this.options.sink.close();
  }

  private async pauseBetween(): Promise<void> {
    const { signal } = this.closing;
    const pauseMs = Math.min(this.pauseMs, FIRST_PAUSE_MS);
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pauseMs);
      signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    });
  }

  private schedule(delayMs: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), delayMs).unref();
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.sending !== undefined || this.waiting.length === 0) return;
    this.sending = this.send().finally(() => {
      this.sending = undefined;
      if (this.ended || this.waiting.length === 0) return;
      const { batchSize, flushIntervalMs } = this.options;
      this.schedule(this.pauseMs || (this.waiting.length >= batchSize ? 0 : flushIntervalMs));
    });
  }

  /** Never rejects. */
  private async send(): Promise<void> {
    const { sink, batchSize, count, log } = this.options;
    const batch = this.waiting.slice(0, batchSize);
    try {
      await sink.write(batch, this.closing.signal);
      this.pauseMs = 0;
      count('sent', batch.length);
      this.waiting.splice(0, batch.length);
    } catch (failure) {
      if (failure instanceof RejectedBatch) {
        this.pauseMs = 0;
        this.waiting.splice(0, batch.length);
        this.lose(batch.length, 'rejected', failure);
        return;
      }
      this.pauseMs = Math.min(MAX_PAUSE_MS, this.pauseMs === 0 ? FIRST_PAUSE_MS : 2 * this.pauseMs);
      count('repeated', batch.length);
      log.warn({ err: failure, events: batch.length }, 'usage events are not taken and will be sent again');
    }
  }

  private lose(events: number, result: 'dropped' | 'rejected', err?: Error): void {
    if (events === 0) return;
    this.options.count(result, events);
    const nowMs = performance.now();
    if (nowMs - this.complainedAtMs < COMPLAINT_MS) return;
    this.complainedAtMs = nowMs;
    const unsent = this.ended ? 'the gateway stops before they are taken' : 'too many wait to be taken';
    const why = result === 'rejected' ? 'the service refuses them' : unsent;
    this.options.log.error({ err, events }, `usage events are lost: ${why}`);
  }
}
