import type { AnyNumbers, AnyState } from '../../algorithms/algorithm.ts';
import type { AnyAlgorithm } from '../../algorithms/index.ts';
import type { Plan } from '../../limit.ts';
import { PackedKey, NO_ROW, SEGMENT_PLACES, Slab } from './slab.ts';

/** Roughly how many keys a segment holds after a split. */
const SPLIT_KEYS = 56;
/** Two sparse neighbours become one again at this many keys together: far from the next split. */
const MERGE_KEYS = 28;
/** A directory may be this much deeper than evenly spread keys need: only crafted collisions get there. */
const SPARE_DEPTH = 5;

/** Noting a key costs more than it saves those who do not come back at once, so only some are. */
const FINDS_PER_HOT_KEY = 64;

/**
 * The states of one policy by key. Extendible hashing: a directory of small segments, each of which splits on its own
 * when it is full. Growing to millions of keys never copies more than one segment at a time, where a `Map` would stop
 * the event loop to rehash everything.
 */
export class StateTable {
  size = 0;
  /** True if the last `find` found its key; `update` and `insert` speak of that key. */
  found = false;
  private readonly algorithm: AnyAlgorithm;
  /** Numbers of any policy with this state id: what `absentAtUs` needs is the same for all of them. */
  private readonly numbers: AnyNumbers;
  private readonly slab: Slab<AnyState>;
  private maxDepth = 0;
  /** Low bits of a hash that name a crowd: as many as a segment can have at most. They stay when the bound changes. */
  private readonly crowdMask: number;
  private readonly segmentsByDepth: number[] = [];
  private directory: Int32Array;
  private directoryDepth = 0;
  private sweepAt = 0;
  private sweepPlace = 0;
  /** A key that was asked for not long ago, and where its row is: most likely the one that is asked for most. */
  private hotKey = '';
  private hotRow = NO_ROW;
  private finds = 0;
  /** The key that was last located; not that of a hot one, for which nobody has to find a place. */
  private readonly key: PackedKey;

  constructor(plan: Plan, maxKeys: number) {
    this.algorithm = plan.algorithm;
    this.numbers = plan.numbers;
    this.allow(maxKeys);
    this.crowdMask = 2 ** this.maxDepth - 1;
    this.key = new PackedKey(crypto.getRandomValues(new Int32Array(1))[0] ?? 0);
    this.slab = new Slab(plan.algorithm.packing(plan.numbers));
    this.directory = Int32Array.of(this.newSegment(0));
  }

  /** So many keys may come; those that are here stay. */
  allow(maxKeys: number): void {
    this.maxDepth = Math.ceil(Math.log2(1 + maxKeys / SPLIT_KEYS)) + SPARE_DEPTH;
  }

  find(key: string): AnyState | undefined {
    if (key === this.hotKey && this.slab.revisit(this.hotRow)) this.found = true;
    else this.locate(key);
    return this.found ? this.slab.read() : undefined;
  }

  /** Replaces the state of the key that `find` found. */
  update(state: AnyState): void {
    this.slab.write(state);
  }

  /** The keys that may collide with the one that `find` was last asked for, as a number. */
  get crowd(): number {
    return this.key.hash & this.crowdMask;
  }

  /** Whether so many keys collide with the one that `find` was last asked for that there is no place for it. */
  get isCrowded(): boolean {
    const segment = this.segmentOf(this.key.hash);
    return this.slab.isFull(segment) && this.slab.depthOf(segment) >= this.maxDepth;
  }

  /** Adds the key that `find` did not find. False if so many keys collide with it that there is no place. */
  insert(key: string, state: AnyState): boolean {
    let segment = this.segmentOf(this.key.hash);
    while (this.slab.isFull(segment)) {
      if (this.slab.depthOf(segment) >= this.maxDepth) return false;
      this.split(segment);
      segment = this.segmentOf(this.key.hash);
    }
    this.slab.insert(segment, this.key, key, state);
    this.size += 1;
    return true;
  }

  /** True if the key was there. */
  remove(key: string): boolean {
    this.locate(key);
    if (!this.found) return false;
    this.slab.remove(this.segmentOf(this.key.hash));
    this.size -= 1;
    return true;
  }

  /** Drops states that equal "absent" among the next `places` places. True when it has come round to the start. */
  sweep(places: number, asOfUs: number): boolean {
    for (let left = places; left > 0; left -= 1) {
      const segment = this.segmentOf(this.sweepAt);
      if (this.slab.sizeOf(segment) === 0 || this.sweepPlace >= SEGMENT_PLACES) {
        this.merge(segment);
        this.nextSegment();
        if (this.sweepAt === 0) return true;
      } else if (this.slab.seek(segment, this.sweepPlace) && this.isAbsent(this.slab.read(), asOfUs)) {
        // The gap may have been filled from behind: look at this place again.
        this.slab.remove(segment);
        this.size -= 1;
      } else {
        this.sweepPlace += 1;
      }
    }
    return false;
  }

  private locate(key: string): void {
    this.key.pack(key);
    this.found = this.slab.find(this.segmentOf(this.key.hash), this.key, key);
    this.finds += 1;
    if (!this.found || this.finds % FINDS_PER_HOT_KEY !== 0) return;
    this.hotKey = key;
    this.hotRow = this.slab.mark();
  }

  private isAbsent(state: AnyState, nowUs: number): boolean {
    return this.algorithm.absentAtUs(state, this.numbers) <= nowUs;
  }

  private segmentOf(hash: number): number {
    return this.directory[hash & (this.directory.length - 1)] ?? 0;
  }

  /** The directory repeats a shallow segment; only its first entry counts as its position. */
  private nextSegment(): void {
    this.sweepPlace = 0;
    do this.sweepAt = (this.sweepAt + 1) & (this.directory.length - 1);
    while (this.sweepAt >>> this.slab.depthOf(this.segmentOf(this.sweepAt)) !== 0);
  }

  private split(full: number): void {
    const depth = this.slab.depthOf(full);
    const bit = 1 << depth;
    if (depth === this.directoryDepth) {
      const doubled = new Int32Array(this.directory.length * 2);
      doubled.set(this.directory);
      doubled.set(this.directory, this.directory.length);
      this.directory = doubled;
      this.directoryDepth += 1;
    }
    const low = this.newSegment(depth + 1);
    const high = this.newSegment(depth + 1);
    this.slab.distribute(full, (hash) => ((hash & bit) === 0 ? low : high));
    this.assign(low, this.key.hash & (bit - 1));
    this.assign(high, (this.key.hash & (bit - 1)) | bit);
    this.retire(full);
  }

  private merge(segment: number): void {
    const depth = this.slab.depthOf(segment);
    if (depth === 0) return;
    const bit = 1 << (depth - 1);
    const neighbour = this.segmentOf(this.sweepAt ^ bit);
    if (this.slab.depthOf(neighbour) !== depth) return;
    if (this.slab.sizeOf(neighbour) + this.slab.sizeOf(segment) > MERGE_KEYS) return;
    const joined = this.newSegment(depth - 1);
    this.slab.distribute(segment, () => joined);
    this.slab.distribute(neighbour, () => joined);
    this.assign(joined, this.sweepAt & (bit - 1));
    this.retire(segment);
    this.retire(neighbour);
    if (this.segmentsByDepth[this.directoryDepth] === 0) {
      this.directoryDepth -= 1;
      this.directory = this.directory.slice(0, this.directory.length / 2);
      this.sweepAt &= this.directory.length - 1;
    }
  }

  /** Points every directory entry that ends in these bits to the segment. */
  private assign(segment: number, bits: number): void {
    const step = 1 << this.slab.depthOf(segment);
    for (let at = bits; at < this.directory.length; at += step) this.directory[at] = segment;
  }

  private newSegment(depth: number): number {
    this.segmentsByDepth[depth] = (this.segmentsByDepth[depth] ?? 0) + 1;
    return this.slab.allocate(depth);
  }

  private retire(segment: number): void {
    const depth = this.slab.depthOf(segment);
    this.segmentsByDepth[depth] = (this.segmentsByDepth[depth] ?? 0) - 1;
    this.slab.release(segment);
  }
}
