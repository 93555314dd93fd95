/** Microseconds within which 50, 95 and 99 of 100 decisions were answered. */
export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** The latest latencies of one slice; more than a slice takes, so that none is lost in practice. */
const CAPACITY = 2 ** 20;

export class Latencies {
  readonly #us: Float64Array;
  #count = 0;

  constructor(capacity = CAPACITY) {
    this.#us = new Float64Array(capacity);
  }

  add(us: number): void {
    this.#us[this.#count % this.#us.length] = us;
    this.#count++;
  }

  clear(): void {
    this.#count = 0;
  }

  percentiles(): Percentiles {
    const sorted = this.#us.subarray(0, this.#count).toSorted();
    return { p50: nearestRank(sorted, 50), p95: nearestRank(sorted, 95), p99: nearestRank(sorted, 99) };
  }
}

/** The smallest value that at least `percent` of 100 values do not exceed. */
function nearestRank(sorted: Float64Array, percent: number): number {
  return sorted[Math.ceil((sorted.length * percent) / 100) - 1] ?? Number.NaN;
}
