/** The longest that a timer can wait; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A wait that can be cancelled. */
export interface Delay {
  /** True when the time is over, false when it was cancelled. */
  readonly ended: Promise<boolean>;
  readonly cancel: () => void;
}

/** Holds back a request that a leaky bucket has queued. Cancelling leaves no timer behind. */
export function startDelay(delayMs: number): Delay {
  let leftMs = Math.ceil(delayMs);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let settle: ((isOver: boolean) => void) | undefined;
  const ended = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  const wait = (): void => {
    const stepMs = Math.min(leftMs, MAX_TIMER_MS);
    leftMs -= stepMs;
    timer = setTimeout(() => (leftMs > 0 ? wait() : settle?.(true)), stepMs);
  };
  wait();
  return {
    ended,
    cancel: () => {
      clearTimeout(timer);
      settle?.(false);
    },
  };
}
