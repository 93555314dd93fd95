import { setTimeout as sleep } from 'node:timers/promises';
import { tokenBucket, type Decision, type Limit, type Limiter } from 'spillgate';
import { RunningClock } from '../running-clock.ts';

export interface Answer {
  readonly limits: readonly Limit[];
  readonly decision: Decision;
  readonly atMs: number;
  /** How long after its deadline, by a timer that was set for the same time just before the check. */
  readonly lateMs: number;
}

const LANES = 40;
const PAUSE_MS = 8;
const KEYS = 16;

/** No bucket here gets a token back during a test, so that every admission can be accounted for. */
const wide = tokenBucket({ name: 'wide', average: 1, burst: 1_000_000, period: '1h' });
const narrow = tokenBucket({ name: 'narrow', average: 1, burst: 15, period: '1h' });
const tight = tokenBucket({ name: 'tight', average: 1, burst: 200, period: '1h' });

/** Half of the keys never run out, half of them soon do. */
export const SINGLE_LIMITS: readonly (readonly Limit[])[] = Array.from({ length: KEYS }, (_, at) => [
  (at % 2 === 0 ? wide : narrow).for(`key-${at}`),
]);

export const NARROW_LIMITS: readonly Limit[] = SINGLE_LIMITS.flat().filter(
  ({ policy }) => policy.name === narrow.name,
);

/** Two limits that lie in the same slot, under different names. */
export const NEIGHBOURING_LIMITS: readonly (readonly Limit[])[] = Array.from({ length: KEYS }, (_, at) => [
  wide.for(`pair-${at}`),
  tight.for(`pair-${at}`),
]);

/** Each check needs room on both sides, which lie in different slots and perhaps on different servers. */
export const TWO_SIDED_LIMITS: readonly (readonly Limit[])[] = Array.from({ length: KEYS }, (_, at) => [
  wide.for(`left-${at}`),
  (at % 2 === 0 ? wide : narrow).for(`right-${at}`),
]);

/** Dozens of checks in flight until it is stopped. A check that rejects ends its lane, and `stop` rejects with it. */
export class Traffic {
  readonly answers: Answer[] = [];
  readonly limits: readonly (readonly Limit[])[];
  readonly #limiter: Limiter;
  readonly #deadlineMs: number;
  readonly #clock = new RunningClock();
  readonly #lanes: Promise<unknown>;
  #stopped = false;

  constructor(limiter: Limiter, deadlineMs: number, limits = SINGLE_LIMITS) {
    this.#limiter = limiter;
    this.#deadlineMs = deadlineMs;
    this.limits = limits;
    this.#lanes = Promise.all(Array.from({ length: LANES }, async (_, lane) => this.#run(lane)));
    // Reported by `stop`: a lane that rejects should fail the test, not the process.
    this.#lanes.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#lanes;
    this.#clock.stop();
  }

  async #run(lane: number): Promise<void> {
    for (let turn = lane; !this.#stopped; turn += 1) {
      await this.#check(this.limits[turn % this.limits.length] ?? []);
      await sleep(PAUSE_MS);
    }
  }

  async #check(limits: readonly Limit[]): Promise<void> {
    let dueMs: number | undefined;
    const control = setTimeout(() => {
      dueMs = this.#clock.nowMs();
    }, this.#deadlineMs);
    const decision = await this.#limiter.check(limits);
    clearTimeout(control);
    const lateMs = dueMs === undefined ? 0 : this.#clock.nowMs() - dueMs;
    this.answers.push({ limits, decision, atMs: this.#clock.nowMs(), lateMs });
  }
}
