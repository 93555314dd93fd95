import type { AnyAlgorithm, AnyNumbers, AnyState } from '../../algorithms/index.ts';
import type { Plan } from '../../limit.ts';
import { PACKINGS, type StatePacking } from './packing.ts';
import { placesFor, Segment } from './segment.ts';

/** A directory may be this many times as deep as evenly spread keys need: only crafted collisions get there. */
const SPARE_DEPTH = 5;
/** Roughly how many keys a segment holds after a split. */
const SPLIT_KEYS = 224;
/** Two sparse neighbours become one again at this many keys together: far from the next split. */
const MERGE_KEYS = 112;

/**
 * The states of one policy by key. Extendible hashing: a directory of small segments, each of which splits on its own
 * when it is full. Growing to millions of keys never copies more than one segment at a time, where a `Map` would stop
 * the event loop to rehash everything.
 */
export class StateTable {
  readonly algorithm: AnyAlgorithm;
  /** Numbers of any policy with this state id: what `absentAtUs` needs is the same for all of them. */
  readonly numbers: AnyNumbers;
  /** What new keys share while the store is full. */
  overflow: AnyState | undefined = undefined;
  size = 0;
  private readonly packing: StatePacking<AnyState>;
  private readonly seed: number;
  private directory: Segment<AnyState>[];
  private readonly maxDepth: number;
  private readonly segmentsByDepth: number[] = [];
  private directoryDepth = 0;
  private sweepAt = 0;
  private sweepPlace = 0;
  // Where the last lookup ended. Fields instead of a returned object keep the hot path free of garbage.
  private hash = 0;
  private segment: Segment<AnyState>;
  private place = -1;

  constructor(plan: Plan, maxKeys: number) {
    this.algorithm = plan.algorithm;
    this.numbers = plan.numbers;
    this.packing = PACKINGS[plan.algorithm.name];
    this.maxDepth = Math.ceil(Math.log2(1 + maxKeys / SPLIT_KEYS)) + SPARE_DEPTH;
    // Secret per table: nobody outside can choose keys that collide.
    this.seed = crypto.getRandomValues(new Int32Array(1))[0] ?? 0;
    this.segment = this.newSegment(0, 0);
    this.directory = [this.segment];
  }

  /** Looks a key up; `found`, `update` and `insert` then speak of this key. */
  find(key: string): AnyState | undefined {
    this.hash = hashOf(key, this.seed);
    this.segment = this.segmentOf(this.hash);
    this.place = this.segment.find(this.hash, key);
    return this.place < 0 ? undefined : this.segment.read(this.place);
  }

  get found(): boolean {
    return this.place >= 0;
  }

  /** Replaces the state of the key that `find` found. */
  update(state: AnyState): void {
    this.segment.write(this.place, state);
  }

  /** Adds the key that `find` did not find. False if so many keys collide with it that there is no place. */
  insert(key: string, state: AnyState): boolean {
    while (this.segment.isFull) {
      if (this.segment.canGrow) this.grow(this.hash);
      else if (this.segment.depth < this.maxDepth) this.split(this.hash);
      else return false;
      this.segment = this.segmentOf(this.hash);
    }
    this.segment.insert(this.hash, ownText(key), state);
    this.size += 1;
    return true;
  }

  /** True if the key was there. */
  remove(key: string): boolean {
    this.find(key);
    if (this.place < 0) return false;
    this.segment.remove(this.place);
    this.size -= 1;
    return true;
  }

  /** The overflow state while it still decides anything. */
  overflowAt(nowUs: number): AnyState | undefined {
    if (this.overflow !== undefined && this.isAbsent(this.overflow, nowUs)) this.overflow = undefined;
    return this.overflow;
  }

  /** Drops states that equal "absent" among the next `places` places. True when it has come round to the start. */
  sweep(places: number, asOfUs: number): boolean {
    for (let left = places; left > 0; left -= 1) {
      const segment = this.segmentOf(this.sweepAt);
      if (segment.size === 0 || this.sweepPlace >= segment.places) {
        this.merge(this.sweepAt);
        this.nextSegment();
        if (this.sweepAt === 0) return true;
      } else if (segment.occupied(this.sweepPlace) && this.isAbsent(segment.read(this.sweepPlace), asOfUs)) {
        // The gap may have been filled from behind: look at this place again.
        segment.remove(this.sweepPlace);
        this.size -= 1;
      } else {
        this.sweepPlace += 1;
      }
    }
    return false;
  }

  private isAbsent(state: AnyState, nowUs: number): boolean {
    return this.algorithm.absentAtUs(state, this.numbers) <= nowUs;
  }

  private segmentOf(hash: number): Segment<AnyState> {
    const segment = this.directory[hash & (this.directory.length - 1)];
    if (segment === undefined) throw new RangeError('a hash table directory has no holes');
    return segment;
  }

  /** The directory repeats a shallow segment; only its first entry counts as its position. */
  private nextSegment(): void {
    this.sweepPlace = 0;
    do this.sweepAt = (this.sweepAt + 1) & (this.directory.length - 1);
    while (this.sweepAt >>> this.segmentOf(this.sweepAt).depth !== 0);
  }

  private grow(hash: number): void {
    const full = this.segmentOf(hash);
    const larger = this.newSegment(full.depth, full.places);
    full.copyInto(larger, () => true);
    this.assign(larger, hash & ((1 << full.depth) - 1));
    this.retire(full);
  }

  private split(hash: number): void {
    const full = this.segmentOf(hash);
    const bit = 1 << full.depth;
    if (full.depth === this.directoryDepth) {
      this.directory = [...this.directory, ...this.directory];
      this.directoryDepth += 1;
    }
    for (const side of [0, bit]) {
      const half = this.newSegment(full.depth + 1, full.size / 2);
      full.copyInto(half, (entry) => (entry & bit) === side);
      this.assign(half, (hash & (bit - 1)) | side);
    }
    this.retire(full);
  }

  private merge(at: number): void {
    const segment = this.segmentOf(at);
    if (segment.depth === 0) return;
    const bit = 1 << (segment.depth - 1);
    const neighbour = this.segmentOf(at ^ bit);
    if (neighbour.depth !== segment.depth || neighbour.size + segment.size > MERGE_KEYS) return;
    const joined = this.newSegment(segment.depth - 1, segment.size + neighbour.size);
    segment.copyInto(joined, () => true);
    neighbour.copyInto(joined, () => true);
    this.assign(joined, at & (bit - 1));
    this.retire(segment);
    this.retire(neighbour);
    if (this.segmentsByDepth[this.directoryDepth] === 0) {
      this.directoryDepth -= 1;
      this.directory.length /= 2;
      this.sweepAt &= this.directory.length - 1;
    }
  }

  /** Points every directory entry that ends in these bits to the segment. */
  private assign(segment: Segment<AnyState>, bits: number): void {
    for (let at = bits; at < this.directory.length; at += 1 << segment.depth) this.directory[at] = segment;
  }

  private newSegment(depth: number, keys: number): Segment<AnyState> {
    this.segmentsByDepth[depth] = (this.segmentsByDepth[depth] ?? 0) + 1;
    return new Segment(depth, this.packing, placesFor(keys));
  }

  private retire(segment: Segment<AnyState>): void {
    this.segmentsByDepth[segment.depth] = (this.segmentsByDepth[segment.depth] ?? 0) - 1;
  }
}

/** Never 0, which marks a vacant place. */
function hashOf(key: string, seed: number): number {
  let hash = seed ^ key.length;
  for (let at = 0; at < key.length; at += 1) {
    hash = Math.imul(((hash << 5) | (hash >>> 27)) ^ key.charCodeAt(at), 0x9e3779b1);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16) || 1;
}

/** Engines keep short texts as copies, but longer parts of a text as a view of all of it. */
const COPIED_LENGTH = 13;

/** A compact copy of a text that may be a view: the table must not keep a whole request alive for one header in it. */
function ownText(key: string): string {
  return key.length < COPIED_LENGTH ? key : [key.charAt(0), key.slice(1)].join('');
}
