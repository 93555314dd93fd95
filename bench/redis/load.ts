import type { Slice } from '../frame/rounds.ts';
import type { Subject } from './candidate.ts';
import { Latencies, type Percentiles } from './latencies.ts';
import type { Request, Workload } from './workload.ts';

/**
 * How requests come. Steady: as soon as one is answered the next is asked, so many are always in flight. Bursts: so
 * many are asked in one turn of the event loop, and the next burst when all of them are answered.
 */
export type Arrival = 'steady' | 'bursts';

export interface Traffic {
  readonly workload: Workload;
  readonly arrival: Arrival;
  readonly inFlight: number;
}

export interface Answered extends Slice {
  readonly latencyUs: Percentiles;
  readonly admitted?: number;
}

/** Asks one limiter and checks every answer: fast answers that are wrong answers are no measurement. */
export class Load {
  readonly #subject: Subject;
  readonly #latencies = new Latencies();
  #operations = 0;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  async run({ workload, arrival, inFlight }: Traffic, budgetMs: number): Promise<Answered> {
    this.#latencies.clear();
    this.#operations = 0;
    const startMs = performance.now();
    const endMs = startMs + budgetMs;
    if (arrival === 'steady') {
      await atOnce(inFlight, () => this.#askUntil(endMs, workload));
    } else {
      do {
        await atOnce(inFlight, () => this.#ask(workload.next()));
      } while (performance.now() < endMs);
    }
    const elapsedMs = performance.now() - startMs;
    return { operations: this.#operations, elapsedMs, latencyUs: this.#latencies.percentiles() };
  }

  async #askUntil(endMs: number, workload: Workload): Promise<void> {
    do {
      await this.#ask(workload.next());
    } while (performance.now() < endMs);
  }

  async #ask({ policy, key }: Request): Promise<void> {
    const awaitable = this.#subject[policy];
    const startMs = performance.now();
    let allowed = false;
    try {
      allowed = awaitable.allowed(await awaitable.call(key));
    } catch (reason) {
      if (!awaitable.denied(reason)) throw reason;
    }
    this.#latencies.add((performance.now() - startMs) * 1000);
    this.#operations++;
    if (allowed !== (policy === 'ample')) {
      throw new Error(`A request of the ${policy} policy was ${allowed ? 'allowed' : 'denied'}.`);
    }
  }
}

async function atOnce(count: number, start: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, start));
}
