const HEARTBEAT_MS = 2;
/** A heartbeat that comes later than this was held up by more than a timer's own imprecision. */
const LATE_MS = 5;

/**
 * A clock that stands still while the machine runs other processes instead of this one. Work of this process counts: it
 * uses the processor while a heartbeat is late, a process that has to wait does not.
 */
export class RunningClock {
  readonly #heartbeat: NodeJS.Timeout;
  #lastMs = performance.now();
  #lastUsedMs = usedMs();
  #lostMs = 0;

  constructor() {
    this.#heartbeat = setInterval(() => {
      this.nowMs();
    }, HEARTBEAT_MS);
  }

  nowMs(): number {
    const [nowMs, nowUsedMs] = [performance.now(), usedMs()];
    const gapMs = nowMs - this.#lastMs;
    if (gapMs > LATE_MS) this.#lostMs += Math.max(0, gapMs - HEARTBEAT_MS - (nowUsedMs - this.#lastUsedMs));
    this.#lastMs = nowMs;
    this.#lastUsedMs = nowUsedMs;
    return nowMs - this.#lostMs;
  }

  stop(): void {
    clearInterval(this.#heartbeat);
  }
}

/** How many milliseconds of this process's own time have passed since now. It runs until it is stopped. */
export function stopwatch(): { readonly passedMs: () => number; readonly stop: () => void } {
  const clock = new RunningClock();
  const startedMs = clock.nowMs();
  return { passedMs: () => clock.nowMs() - startedMs, stop: () => clock.stop() };
}

function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
