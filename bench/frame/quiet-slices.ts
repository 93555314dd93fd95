import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Disturbance } from './suite.ts';

/** Others may use so much of a core while a slice runs. */
const TOLERATED_SHARE = 0.25;
const PAUSE_MS = 200;
/** The unit of /proc: a hundredth of a second on every Linux. */
const TICK_MS = 10;

interface Timed {
  readonly elapsedMs: number;
}

/**
 * Repeats a slice that ran while other programs were busy. Only Linux tells; elsewhere every slice counts. Repeats are
 * bounded over all slices: a machine that is never quiet gets its numbers too, and the report says so.
 */
export class QuietSlices {
  #repeatsLeft: number;
  #repeated = 0;
  #disturbed = 0;
  #count = 0;

  constructor(maxRepeats: number) {
    this.#repeatsLeft = maxRepeats;
  }

  /** `othersMs` is the processor time of measured programs that this process did not start. */
  async run<Result extends Timed>(
    slice: () => Promise<Result>,
    othersMs: (result: Result) => number,
  ): Promise<Result> {
    for (;;) {
      const before = processorTimes();
      const result = await slice();
      const after = processorTimes();
      const foreignMs = after.busyMs - before.busyMs - (after.ownMs - before.ownMs) - othersMs(result);
      const disturbed = foreignMs > TOLERATED_SHARE * result.elapsedMs;
      if (!disturbed || this.#repeatsLeft === 0) {
        this.#count++;
        if (disturbed) this.#disturbed++;
        return result;
      }
      this.#repeatsLeft--;
      this.#repeated++;
      await sleep(PAUSE_MS);
    }
  }

  disturbance(): Disturbance {
    return { kept: this.#count, disturbed: this.#disturbed, repeated: this.#repeated };
  }

  /** One sentence for the report. */
  summary(): string {
    return (
      `Slices during which other programs used more than a quarter of a core were repeated (${this.#repeated}); ` +
      `of the ${this.#count} kept, ${this.#disturbed} were disturbed all the same.`
    );
  }
}

/** What share of one core other programs use right now; 0 where nothing tells. */
export async function othersShare(sampleMs: number): Promise<number> {
  const before = processorTimes();
  const startedMs = performance.now();
  await sleep(sampleMs);
  const elapsedMs = performance.now() - startedMs;
  const after = processorTimes();
  const othersMs = after.busyMs - before.busyMs - (after.ownMs - before.ownMs);
  return Math.max(0, othersMs / elapsedMs);
}

interface ProcessorTimes {
  /** Of the whole machine, all cores together. */
  readonly busyMs: number;
  /** Of this process and the ended ones that it started. */
  readonly ownMs: number;
}

function processorTimes(): ProcessorTimes {
  try {
    return {
      busyMs: parseBusyMs(readFileSync('/proc/stat', 'utf8')),
      ownMs: parseOwnMs(readFileSync('/proc/self/stat', 'utf8')),
    };
  } catch {
    return { busyMs: 0, ownMs: 0 };
  }
}

/** From /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guests are counted as users already. */
export function parseBusyMs(stat: string): number {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = stat
    .slice(0, stat.indexOf('\n'))
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) * TICK_MS;
}

/** From /proc/<pid>/stat. The name of the program may contain anything, so fields count from the bracket after it. */
export function parseOwnMs(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return ticks * TICK_MS;
}
