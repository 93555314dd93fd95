/** Buckets grow by a hundredth, so a percentile is right to 1 %. */
const GROWTH = Math.log(1.01);
/** From a microsecond to a quarter of an hour. */
const BUCKETS = 2100;

/** Counts latencies in bounded memory, however many there are. */
export class LatencyRecord {
  private readonly buckets = new Float64Array(BUCKETS);
  count = 0;
  maxMs = 0;

  add(ms: number): void {
    const at = Math.min(BUCKETS - 1, Math.max(0, Math.floor(Math.log(Math.max(1, ms * 1000)) / GROWTH)));
    this.buckets[at] = (this.buckets[at] ?? 0) + 1;
    this.count += 1;
    this.maxMs = Math.max(this.maxMs, ms);
  }

  /** The latency that this share of requests did not exceed; 0 without requests. */
  percentile(share: number): number {
    const wanted = Math.ceil(this.count * share);
    let seen = 0;
    for (const [at, count] of this.buckets.entries()) {
      seen += count;
      if (count > 0 && seen >= wanted) return Math.min(this.maxMs, Math.exp((at + 1) * GROWTH) / 1000);
    }
    return this.maxMs;
  }
}
