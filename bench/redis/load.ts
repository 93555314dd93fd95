import type { Slice } from '../frame/rounds.ts';
import type { Subject } from './candidate.ts';
import { Latencies, type Percentiles } from './latencies.ts';
import type { Workload } from './workload.ts';

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
  /** Of the process that asked, for asking alone; undefined where it was not ours. */
  readonly nodeCpuMs?: number;
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
    const cpuBefore = process.cpuUsage();
    const startMs = performance.now();
    const endMs = startMs + budgetMs;
    // Steady: each asks until the end. Bursts: each asks once.
    const untilMs = arrival === 'steady' ? endMs : startMs;
    do {
      await atOnce(inFlight, () => this.#askUntil(untilMs, workload));
    } while (performance.now() < endMs);
    const elapsedMs = performance.now() - startMs;
    const nodeCpuMs = cpuMsSince(cpuBefore);
    return {
      operations: this.#operations,
      elapsedMs,
      nodeCpuMs,
      latencyUs: this.#latencies.percentiles(),
    };
  }

  /** At least once. One async function and two looks at the clock: what it costs counts for whoever is measured. */
  async #askUntil(endMs: number, workload: Workload): Promise<void> {
    let answeredMs = 0;
    do {
      const { policy, key } = workload.next();
      const awaitable = this.#subject[policy];
      const startMs = performance.now();
      let allowed = false;
      try {
        allowed = awaitable.allowed(await awaitable.call(key));
      } catch (reason) {
        if (!awaitable.denied(reason)) throw reason;
      }
      answeredMs = performance.now();
      this.#latencies.add((answeredMs - startMs) * 1000);
      this.#operations++;
      if (allowed !== (policy === 'ample')) {
        throw new Error(`A request of the ${policy} policy was ${allowed ? 'allowed' : 'denied'}.`);
      }
    } while (answeredMs < endMs);
  }
}

export function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function atOnce(count: number, start: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, start));
}
