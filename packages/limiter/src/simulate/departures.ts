interface Departure {
  readonly atMs: number;
  readonly depart: () => Promise<void>;
}

/** What ends at some time: a heap, the next one first. */
export class Departures {
  private readonly heap: Departure[] = [];

  get size(): number {
    return this.heap.length;
  }

  add(atMs: number, depart: () => Promise<void>): void {
    const { heap } = this;
    const added = { atMs, depart };
    let at = heap.push(added) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above];
      if (parent === undefined || parent.atMs <= atMs) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = added;
  }

  /** Lets go what ends before or at this time, in its order; `passing` hears when. */
  async until(atMs: number, passing: (departedMs: number) => void): Promise<void> {
    for (let first = this.heap[0]; first !== undefined && first.atMs <= atMs; first = this.heap[0]) {
      this.dropFirst();
      passing(first.atMs);
      await first.depart();
    }
  }

  private dropFirst(): void {
    const { heap } = this;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      const left = heap[2 * at + 1];
      const right = heap[2 * at + 2];
      const [child, below] =
        right !== undefined && left !== undefined && right.atMs < left.atMs
          ? [right, 2 * at + 2]
          : [left, 2 * at + 1];
      if (child === undefined || child.atMs >= last.atMs) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }
}
