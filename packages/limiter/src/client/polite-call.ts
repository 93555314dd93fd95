import { complain } from '../events.ts';
import { announcedLimits, toldToWaitMs } from './announced-limits.ts';
import type { ClientSettings, Retry } from './client-options.ts';
import type { Outgoing } from './outgoing.ts';
import type { ClientTime, SendScheduler, SentRequest } from './pacer.ts';
import type { WaitSlot } from './wait-slots.ts';

/** Even a server that says "at once" is not asked again at once; twice as long with each retry. */
const LEAST_WAIT_MS = 100;

interface CallContext {
  readonly scheduler: SendScheduler;
  readonly time: ClientTime;
  readonly arrival: number;
  readonly slot: WaitSlot;
}

/** One call: a request that is sent until it is answered, or until its patience ends. */
export class PoliteCall {
  private readonly request: Outgoing;
  private readonly settings: ClientSettings;
  private readonly context: CallContext;
  private retries = 0;
  private leftMs: number;
  private notBeforeMs = -Infinity;
  /** How long the last answer said to wait; undefined when it was no refusal. */
  private toldMs: number | undefined;
  /** Ends the reading of a refusal that nobody will look at. */
  private stopDiscarding: (() => void) | undefined;

  constructor(request: Outgoing, settings: ClientSettings, context: CallContext) {
    this.request = request;
    this.settings = settings;
    this.context = context;
    this.leftMs = settings.maxWaitMs;
  }

  async run(): Promise<Response> {
    try {
      for (;;) {
        const response = await this.exchange(await this.waitToSend());
        const waitMs = this.waitBeforeRetry(response.status);
        if (waitMs === undefined) return response;
        this.prepareRetry(response, waitMs);
      }
    } finally {
      this.stopWaiting();
    }
  }

  private async waitToSend(): Promise<SentRequest> {
    const { scheduler, time, arrival, slot } = this.context;
    const { notBeforeMs } = this;
    const { signal } = this.request;
    const startMs = time.nowMs();
    signal?.throwIfAborted();
    const sent = await scheduler.waitToSend({
      arrival,
      notBeforeMs,
      deadlineMs: startMs + this.leftMs,
      signal,
      slot,
    });
    this.leftMs -= Math.max(0, Math.max(notBeforeMs, time.nowMs()) - startMs);
    this.stopWaiting();
    return sent;
  }

  private async exchange(sent: SentRequest): Promise<Response> {
    let response;
    try {
      response = await this.request.send();
    } catch (error) {
      sent.answered(undefined, undefined);
      throw error;
    }
    const limits = announcedLimits(response.headers, this.context.time.nowMs());
    this.toldMs = this.settings.statuses.includes(response.status) ? toldToWaitMs(limits) : undefined;
    sent.answered(limits, this.toldMs);
    return response;
  }

  /**
   * Undefined when the caller gets this response: it is not a refusal, or waiting is no use, not allowed, or too many
   * wait already.
   */
  private waitBeforeRetry(status: number): number | undefined {
    const { toldMs, retries, leftMs, request } = this;
    const { maxRetries, mayRepeat, jitter, random } = this.settings;
    if (toldMs === undefined || retries >= maxRetries || !request.canRepeat()) return undefined;
    const growth = 2 ** retries;
    const neededMs = Math.max(toldMs, LEAST_WAIT_MS * growth);
    if (neededMs > leftMs) return undefined;
    const { url, method } = request;
    if (!mayRepeat({ url, method, status }) || !this.context.slot.take()) return undefined;
    const share = random();
    // Only ever later: what is not a number above 0 adds nothing.
    const addedMs = share > 0 ? toldMs * jitter * growth * share : 0;
    return Math.min(neededMs + addedMs, leftMs);
  }

  private prepareRetry(response: Response, waitMs: number): void {
    const { url, method } = this.request;
    this.retries += 1;
    this.notBeforeMs = this.context.time.nowMs() + waitMs;
    this.stopDiscarding = discard(response);
    tell(this.settings.onRetry, { url, method, status: response.status, retry: this.retries, waitMs });
  }

  private stopWaiting(): void {
    this.stopDiscarding?.();
    this.context.slot.leave();
  }
}

function tell(onRetry: ClientSettings['onRetry'], retry: Retry): void {
  try {
    const pending = onRetry?.(retry);
    if (pending instanceof Promise) pending.catch((error: unknown) => complain('onRetry', error));
  } catch (error) {
    complain('onRetry', error);
  }
}

/** What is read of a refusal that nobody will look at, so that its connection can be used again. */
const MAX_DISCARDED_BYTES = 65_536;

/**
 * Reads a response to its end, so that the connection is free for the next request. A long body is cut off, and so is
 * one that has not come when the returned function is called.
 */
function discard(response: Response): () => void {
  const reader = response.body?.getReader();
  if (reader === undefined) return () => undefined;
  const stop = (): void => void reader.cancel().catch(ignore);
  readAway(reader, stop).catch(ignore);
  return stop;
}

async function readAway(reader: ReadableStreamDefaultReader<Uint8Array>, stop: () => void): Promise<void> {
  let bytes = 0;
  while (bytes <= MAX_DISCARDED_BYTES) {
    const { done, value } = await reader.read();
    if (done) return;
    bytes += value.byteLength;
  }
  stop();
}

/** A refusal that breaks off is still a refusal. */
function ignore(): void {}
