/** How often a key was seen: at most `count`, and at least `count - error`. */
export interface CountedKey {
  readonly policy: string;
  readonly key: string;
  readonly count: number;
  readonly error: number;
}

/** The counters of a sketch, most first. */
export interface SketchSnapshot {
  readonly keys: readonly CountedKey[];
  /** A key that is not listed was seen at most so often. */
  readonly floor: number;
}

interface Counter {
  id: string;
  policy: string;
  key: string;
  count: number;
  error: number;
  /** Its place in the heap. */
  at: number;
}

/**
 * The most frequent keys of a stream in constant memory (Space-Saving, Metwally and others 2005): a key without a
 * counter takes over the smallest one. Every key that was seen more often than the total divided by `capacity` has a
 * counter.
 */
export class KeySketch {
  private readonly capacity: number;
  private readonly byId = new Map<string, Counter>();
  /** The smallest count first; the counters at 2n + 1 and 2n + 2 are not smaller than the one at n. */
  private readonly heap: Counter[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  add(policy: string, key: string): void {
    // The name of a policy has no such character.
    const id = `${policy} ${key}`;
    const known = this.byId.get(id);
    if (known !== undefined) {
      known.count += 1;
      this.sink(known);
      return;
    }
    const [smallest] = this.heap;
    if (this.heap.length < this.capacity || smallest === undefined) {
      this.insert({ id, policy, key, count: 1, error: 0, at: this.heap.length });
      return;
    }
    this.byId.delete(smallest.id);
    smallest.error = smallest.count;
    smallest.count += 1;
    smallest.id = id;
    smallest.policy = policy;
    smallest.key = key;
    this.byId.set(id, smallest);
    this.sink(smallest);
  }

  snapshot(most: number = this.capacity): SketchSnapshot {
    const sorted = this.heap.toSorted(mostFirst);
    const isWhole = sorted.length <= most;
    return {
      keys: sorted.slice(0, most).map(({ policy, key, count, error }) => ({ policy, key, count, error })),
      floor: isWhole ? this.floor() : (sorted[most]?.count ?? 0),
    };
  }

  private floor(): number {
    return this.heap.length < this.capacity ? 0 : (this.heap[0]?.count ?? 0);
  }

  private insert(counter: Counter): void {
    this.byId.set(counter.id, counter);
    this.heap.push(counter);
    let { at } = counter;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.heap[above];
      if (parent === undefined || parent.count <= counter.count) break;
      this.place(parent, at);
      at = above;
    }
    this.place(counter, at);
  }

  /** The count has grown: counters that are smaller now move up. */
  private sink(counter: Counter): void {
    const { heap } = this;
    let { at } = counter;
    for (;;) {
      const left = heap[2 * at + 1];
      const right = heap[2 * at + 2];
      if (left === undefined) break;
      const child = right !== undefined && right.count < left.count ? right : left;
      if (child.count >= counter.count) break;
      const next = child.at;
      this.place(child, at);
      at = next;
    }
    this.place(counter, at);
  }

  private place(counter: Counter, at: number): void {
    counter.at = at;
    this.heap[at] = counter;
  }
}

/** Equal counts in one order, so that a list that is shown again does not jump. */
function mostFirst(one: CountedKey, other: CountedKey): number {
  if (one.count !== other.count) return other.count - one.count;
  return `${one.policy} ${one.key}` < `${other.policy} ${other.key}` ? -1 : 1;
}

/**
 * One snapshot of several streams. What a sketch does not list it may have seen up to its floor, so that is added to
 * the count and to the error: the bounds stay true.
 */
export function mergeSketches(snapshots: readonly SketchSnapshot[], most: number): SketchSnapshot {
  const merged = new Map<string, { policy: string; key: string; count: number; error: number }>();
  const floor = snapshots.reduce((sum, snapshot) => sum + snapshot.floor, 0);
  for (const snapshot of snapshots) {
    for (const { policy, key, count, error } of snapshot.keys) {
      const id = `${policy} ${key}`;
      const sum = merged.get(id) ?? { policy, key, count: floor, error: floor };
      sum.count += count - snapshot.floor;
      sum.error += error - snapshot.floor;
      merged.set(id, sum);
    }
  }
  const sorted = [...merged.values()].toSorted(mostFirst);
  return { keys: sorted.slice(0, most), floor: Math.max(floor, sorted[most]?.count ?? 0) };
}
