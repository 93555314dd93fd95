import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Awaitable } from '../frame/awaitable.ts';
import { Latencies } from './latencies.ts';
import { cpuMsSince, type Answered } from './load.ts';

/** Loops that ask one after the other, as many requests of a server do. */
export const LOOPS = 64;
/** Between two looks at the clock. */
const DECISIONS_PER_TURN = 64;

/**
 * For answers that may need no round trip: one in 64 is timed, because reading the clock takes as long as such an
 * answer; then sockets and timers of this process get their turn, as in a server. Which of the 64 rotates: where a
 * lease has to be waited for, the first of the turn waits in all loops, and the others seldom.
 */
export class TurnLoad {
  readonly #asked: Awaitable;
  readonly #nextKey: () => string;
  readonly #latencies = new Latencies();

  constructor(asked: Awaitable, nextKey: () => string) {
    this.#asked = asked;
    this.#nextKey = nextKey;
  }

  async run(budgetMs: number): Promise<Answered & { readonly admitted: number }> {
    this.#latencies.clear();
    const cpuBefore = process.cpuUsage();
    const startMs = performance.now();
    const lanes = Array.from({ length: LOOPS }, () => this.#lane(startMs + budgetMs));
    const answers = await Promise.all(lanes);
    const elapsedMs = performance.now() - startMs;
    const nodeCpuMs = cpuMsSince(cpuBefore);
    return {
      operations: answers.reduce((sum, { operations }) => sum + operations, 0),
      admitted: answers.reduce((sum, { admitted }) => sum + admitted, 0),
      elapsedMs,
      nodeCpuMs,
      latencyUs: this.#latencies.percentiles(),
    };
  }

  async #lane(endMs: number): Promise<{ readonly operations: number; readonly admitted: number }> {
    let [operations, admitted, timed] = [0, 0, 0];
    do {
      for (let each = 0; each < DECISIONS_PER_TURN; each += 1) {
        const askedMs = each === timed ? performance.now() : undefined;
        if (await this.#ask()) admitted += 1;
        if (askedMs !== undefined) this.#latencies.add((performance.now() - askedMs) * 1000);
      }
      operations += DECISIONS_PER_TURN;
      timed = (timed + 1) % DECISIONS_PER_TURN;
      await nextTurn();
    } while (performance.now() < endMs);
    return { operations, admitted };
  }

  async #ask(): Promise<boolean> {
    try {
      return this.#asked.allowed(await this.#asked.call(this.#nextKey()));
    } catch (reason) {
      if (!this.#asked.denied(reason)) throw reason;
      return false;
    }
  }
}
