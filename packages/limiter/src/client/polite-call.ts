import { complain } from '../events.ts';
import { announcedLimits, toldToWaitMs } from './announced-limits.ts';
import type { Retry, Settings } from './client-options.ts';
import { discard } from './discard.ts';
import type { Gate, GateTime, Passage, WaitingPlace } from './gate.ts';
import type { Outgoing } from './outgoing.ts';

/** Even a server that says "at once" is not asked again at once; twice as long with each retry. */
const LEAST_WAIT_MS = 100;

interface Surroundings {
  readonly gate: Gate;
  readonly time: GateTime;
  readonly arrival: number;
  readonly place: WaitingPlace;
}

/** One call: a request that is sent until it is answered, or until its patience ends. */
export class PoliteCall {
  private readonly request: Outgoing;
  private readonly settings: Settings;
  private readonly around: Surroundings;
  private retries = 0;
  private leftMs: number;
  private notBeforeMs = -Infinity;
  /** How long the last answer said to wait; undefined when it was no refusal. */
  private toldMs: number | undefined;
  /** Ends the reading of a refusal that nobody will look at. */
  private stopDiscarding: (() => void) | undefined;

  constructor(request: Outgoing, settings: Settings, around: Surroundings) {
    this.request = request;
    this.settings = settings;
    this.around = around;
    this.leftMs = settings.maxWaitMs;
  }

  async run(): Promise<Response> {
    try {
      for (;;) {
        const response = await this.exchange(await this.takeTurn());
        const waitMs = this.waitBeforeRetry(response.status);
        if (waitMs === undefined) return response;
        this.prepareRetry(response, waitMs);
      }
    } finally {
      this.stopWaiting();
    }
  }

  private async takeTurn(): Promise<Passage> {
    const { gate, time, arrival, place } = this.around;
    const { notBeforeMs } = this;
    const { signal } = this.request;
    const startMs = time.nowMs();
    signal?.throwIfAborted();
    const passage = await gate.enter({
      arrival,
      notBeforeMs,
      deadlineMs: startMs + this.leftMs,
      signal,
      place,
    });
    this.leftMs -= Math.max(0, Math.max(notBeforeMs, time.nowMs()) - startMs);
    this.stopWaiting();
    return passage;
  }

  private async exchange(passage: Passage): Promise<Response> {
    let response;
    try {
      response = await this.request.send();
    } catch (error) {
      passage.arrived(undefined, undefined);
      throw error;
    }
    const limits = announcedLimits(response.headers, this.around.time.nowMs());
    this.toldMs = this.settings.statuses.includes(response.status) ? toldToWaitMs(limits) : undefined;
    passage.arrived(limits, this.toldMs);
    return response;
  }

  /** Undefined when the caller gets this response: it is no refusal, or there is no use, right or room to wait. */
  private waitBeforeRetry(status: number): number | undefined {
    const { toldMs, retries, leftMs, request } = this;
    const { maxRetries, mayRepeat, jitter, random } = this.settings;
    if (toldMs === undefined || retries >= maxRetries || !request.canRepeat()) return undefined;
    const growth = 2 ** retries;
    const neededMs = Math.max(toldMs, LEAST_WAIT_MS * growth);
    if (neededMs > leftMs) return undefined;
    const { url, method } = request;
    if (!mayRepeat({ url, method, status }) || !this.around.place.take()) return undefined;
    const share = random();
    // Only ever later: what is no number above 0 adds nothing.
    const addedMs = share > 0 ? toldMs * jitter * growth * share : 0;
    return Math.min(neededMs + addedMs, leftMs);
  }

  private prepareRetry(response: Response, waitMs: number): void {
    const { url, method } = this.request;
    this.retries += 1;
    this.notBeforeMs = this.around.time.nowMs() + waitMs;
    this.stopDiscarding = discard(response);
    tell(this.settings.onRetry, { url, method, status: response.status, retry: this.retries, waitMs });
  }

  private stopWaiting(): void {
    this.stopDiscarding?.();
    this.around.place.leave();
  }
}

function tell(onRetry: Settings['onRetry'], retry: Retry): void {
  try {
    const pending = onRetry?.(retry);
    if (pending instanceof Promise) pending.catch((error: unknown) => complain('onRetry', error));
  } catch (error) {
    complain('onRetry', error);
  }
}
