import { startDelay } from '../http/delay.ts';

/** Resolves after that long, or as soon as the signal is aborted; it may also reject then. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<unknown>;

/** A timer counts from a whole millisecond that may have begun before, and so may end a part of one too early. */
const TIMER_EARLY_MS = 1;

/** Sleeps with a timer that an abort takes away. */
export async function timerSleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const delay = startDelay(ms + TIMER_EARLY_MS);
  signal.addEventListener('abort', delay.cancel, { once: true });
  await delay.ended;
  signal.removeEventListener('abort', delay.cancel);
}

/** A sleep that ends when its time has come, when someone wakes the sleeper, or when the caller gives up. */
export class WakeableSleep {
  private readonly controller = new AbortController();
  private readonly sleep: Sleep;

  constructor(sleep: Sleep) {
    this.sleep = sleep;
  }

  wake(): void {
    this.controller.abort();
  }

  /** True when the time has come, false when woken. Rejects with the reason of a signal that was aborted. */
  async take(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
    const wake = (): void => this.wake();
    signal?.throwIfAborted();
    signal?.addEventListener('abort', wake, { once: true });
    try {
      await this.sleep(ms, this.controller.signal);
    } catch (error) {
      if (!this.controller.signal.aborted) throw error;
    } finally {
      signal?.removeEventListener('abort', wake);
    }
    signal?.throwIfAborted();
    return !this.controller.signal.aborted;
  }
}
