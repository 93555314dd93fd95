import { setTimeout as sleep } from 'node:timers/promises';
import { tokenBucket, type Decision, type Limiter } from 'spillgate';
import { RunningClock } from '../running-clock.ts';

export interface Answer {
  readonly decision: Decision;
  /** Without the time in which the machine did not let this process run. */
  readonly tookMs: number;
}

const LANES = 32;
const PAUSE_MS = 2;

const policy = tokenBucket({ name: 'api', average: 1_000_000, burst: 1_000_000, period: '1s' });

/** Checks in several lanes until it is stopped. A check that rejects stops its lane, and `stop` rejects with it. */
export class Load {
  readonly answers: Answer[] = [];
  readonly #clock = new RunningClock();
  readonly #lanes: Promise<unknown>;
  #stopped = false;

  constructor(limiter: Limiter) {
    this.#lanes = Promise.all(Array.from({ length: LANES }, async (_, lane) => this.#run(limiter, lane)));
    // Reported by `stop`: a lane that rejects should fail the test, not the process.
    this.#lanes.catch(() => undefined);
  }

  countDegraded(): number {
    return this.answers.filter(({ decision }) => decision.degraded).length;
  }

  isDegraded(): boolean {
    return this.answers.at(-1)?.decision.degraded === true;
  }

  async stop(): Promise<readonly Answer[]> {
    this.#stopped = true;
    await this.#lanes;
    this.#clock.stop();
    return this.answers;
  }

  async #run(limiter: Limiter, lane: number): Promise<void> {
    while (!this.#stopped) {
      const startedMs = this.#clock.nowMs();
      const decision = await limiter.check(policy.for(`key-${lane}`));
      this.answers.push({ decision, tookMs: this.#clock.nowMs() - startedMs });
      await sleep(PAUSE_MS);
    }
  }
}
