import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceAt, type ClientTls } from '../http-client/index.ts';
import type { Log } from '../telemetry/log.ts';
import type { FinishedRequest } from '../telemetry/traffic.ts';

/** Where events go. */
export interface UsageSink<Event> {
  /** Takes a batch as a whole. Rejects with a `RejectedBatch` if it never will, with anything else if it may later. */
  write(events: readonly Event[], signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Sending it again would not help. */
export class RejectedBatch extends Error {}

/** What became of events. */
type UsageResult = 'sent' | 'repeated' | 'rejected' | 'dropped';

interface UsageQueueOptions<Event> {
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

/** CloudEvents 1.0 in JSON (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md). */
export interface UsageEvent {
  readonly specversion: '1.0';
  /** Stays the same if it is sent again: who counts an id once counts each request once. */
  readonly id: string;
  readonly source: string;
  readonly type: 'spillgate.request.finished';
  readonly time: string;
  readonly datacontenttype: 'application/json';
  readonly data: UsageData;
}

interface UsageData {
  readonly requestId: string;
  readonly outcome: FinishedRequest['outcome'];
  readonly reason: string | undefined;
  readonly rule: string | undefined;
  /** Whom the request was counted for, and by which policy. */
  readonly counted: readonly { readonly policy: string; readonly key: string }[];
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly status: number | undefined;
  readonly clientAddress: string | undefined;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  readonly durationMs: number;
  /** What it was charged: 0 where no policy charged it. */
  readonly cost: number;
  /** Not all of that is known: some is estimated. */
  readonly costEstimated: boolean;
}

export function usageEvent(request: FinishedRequest, source: string): UsageEvent {
  return {
    specversion: '1.0',
    id: randomUUID(),
    source,
    type: 'spillgate.request.finished',
    time: new Date().toISOString(),
    datacontenttype: 'application/json',
    data: {
      requestId: request.id,
      outcome: request.outcome,
      reason: request.reason,
      rule: request.rule,
      counted: (request.counted ?? []).map(({ policy, key }) => ({ policy, key })),
      method: request.method,
      host: request.host,
      path: request.path,
      status: request.status,
      clientAddress: request.clientAddress,
      bytesReceived: request.bytesReceived,
      bytesSent: request.bytesSent,
      durationMs: Math.round(request.durationMs * 1000) / 1000,
      cost: request.cost?.cost ?? (request.charged === true ? 1 : 0),
      costEstimated: request.cost?.estimated ?? false,
    },
  };
}

/** Readable by the owner and the group: events name clients. */
const MODE = 0o640;
/** A pipe that nobody reads fails at once: to wait for a reader would take a thread of the process, also at its end. */
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
/** How long a full pipe is left to its reader. */
const FULL_PAUSE_MS = 20;

/** One line of JSON per event. The file is opened for every batch, so that it may be moved away at any time. */
export function fileSink(path: string): UsageSink<object> {
  let isCut = false;
  return {
    write: async (events, signal) => {
      const lines = events.map((event) => `${JSON.stringify(event)}\n`).join('');
      // A write that failed may have left half a line.
      const bytes = Buffer.from(isCut ? `\n${lines}` : lines);
      const file = await open(path, APPEND, MODE);
      try {
        isCut = true;
        let written = 0;
        while (written < bytes.length) {
          const count = await writeSome(file, bytes.subarray(written));
          if (count === 0) await sleep(FULL_PAUSE_MS, undefined, { signal });
          written += count;
        }
        isCut = false;
      } finally {
        await file.close();
      }
    },
    close: () => undefined,
  };
}

/** 0 if it takes nothing now. */
async function writeSome(file: Awaited<ReturnType<typeof open>>, bytes: Buffer): Promise<number> {
  try {
    return (await file.write(bytes)).bytesWritten;
  } catch (failure) {
    if (failure instanceof Error && 'code' in failure && failure.code === 'EAGAIN') return 0;
    throw failure;
  }
}

interface HttpSinkOptions {
  readonly url: string;
  readonly tls: ClientTls;
  readonly auth: { readonly header: string; readonly value: string } | undefined;
  readonly timeoutMs: number;
}

/** What says that the events themselves are at fault. */
const REJECTING: ReadonlySet<number> = new Set([400, 413, 415, 422]);

/** CloudEvents in the batched mode of HTTP. */
export function httpSink({ url, tls, auth, timeoutMs }: HttpSinkOptions): UsageSink<object> {
  const service = serviceAt(url, { tls, timeoutMs, maxConnections: 1 });
  const headers = ['content-type', 'application/cloudevents-batch+json; charset=utf-8'];
  if (auth !== undefined) headers.push(auth.header, auth.value);
  return {
    write: async (events, signal) => {
      const { status } = await service.fetch({
        method: 'POST',
        headers,
        body: JSON.stringify(events),
        maxBodyBytes: () => 0,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
      if (status >= 200 && status < 300) return;
      const message = `the service answered ${status}`;
      throw REJECTING.has(status) ? new RejectedBatch(message) : new Error(message);
    },
    close: () => void service.close(),
  };
}
