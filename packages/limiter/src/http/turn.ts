/** The longest that a timer can wait; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A wait that can be called off. */
export interface Turn {
  /** True when the time has come, false when it was called off. */
  readonly comes: Promise<boolean>;
  readonly callOff: () => void;
}

/** Waits for the turn of a queued request (leaky bucket). Calling it off leaves no timer behind. */
export function turnAfter(delayMs: number): Turn {
  let leftMs = Math.ceil(delayMs);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let settle: ((come: boolean) => void) | undefined;
  const comes = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  const wait = (): void => {
    const stepMs = Math.min(leftMs, MAX_TIMER_MS);
    leftMs -= stepMs;
    timer = setTimeout(() => (leftMs > 0 ? wait() : settle?.(true)), stepMs);
  };
  wait();
  return {
    comes,
    callOff: () => {
      clearTimeout(timer);
      settle?.(false);
    },
  };
}
