import type { StatePacking } from './packing.ts';

/** Places per segment: small enough that splitting or sweeping one takes microseconds. */
export const SEGMENT_PLACES = 128;
/** Linear probing stays short up to this fill. */
const SEGMENT_CAPACITY = 112;
/** The place inside a segment comes from the top bits of the hash, the segment from the bottom bits. */
const PLACE_SHIFT = 25;
const PLACE_MASK = SEGMENT_PLACES - 1;
/** A segment's id is its chunk and its number there. The first chunks are small, so that small tables are small. */
const CHUNK_BITS = 8;
const MAX_CHUNK_SEGMENTS: number = 2 ** CHUNK_BITS;
const SEGMENT_BITS = 7;
const VACANT = 0;

/** The memory of many segments: three arrays instead of three per segment, which is what a processor's caches like. */
interface Chunk<State> {
  readonly hashes: Int32Array;
  readonly keys: string[];
  readonly cells: Float64Array;
  readonly objects: (State | undefined)[];
}

/**
 * Segments of a hash table, each a small open-addressing table of its own: keys as they are, states packed as their
 * algorithm's doubles. `find` leaves a cursor on the key it found; `read` and `write` use it.
 */
export class Slab<State> {
  private readonly packing: StatePacking<State>;
  private readonly chunks: Chunk<State>[] = [];
  private readonly free: number[] = [];
  private readonly sizes: number[] = [];
  private readonly depths: number[] = [];
  private chunk: Chunk<State>;
  private place = -1;

  constructor(packing: StatePacking<State>) {
    this.packing = packing;
    this.chunk = this.addChunk();
  }

  /** A new, empty segment whose keys share `depth` low bits of their hash. */
  allocate(depth: number): number {
    if (this.free.length === 0) this.addChunk();
    const segment = this.free.pop() ?? 0;
    this.sizes[segment] = 0;
    this.depths[segment] = depth;
    return segment;
  }

  release(segment: number): void {
    const { hashes, keys, objects } = this.chunkOf(segment);
    const base = baseOf(segment);
    hashes.fill(VACANT, base, base + SEGMENT_PLACES);
    keys.fill('', base, base + SEGMENT_PLACES);
    if (objects.length > 0) objects.fill(undefined, base, base + SEGMENT_PLACES);
    this.free.push(segment);
  }

  sizeOf(segment: number): number {
    return this.sizes[segment] ?? 0;
  }

  depthOf(segment: number): number {
    return this.depths[segment] ?? 0;
  }

  isFull(segment: number): boolean {
    return this.sizeOf(segment) >= SEGMENT_CAPACITY;
  }

  /** Moves the cursor to a key. False if the segment does not have it. */
  find(segment: number, hash: number, key: string): boolean {
    const chunk = this.chunkOf(segment);
    const { hashes, keys } = chunk;
    const base = baseOf(segment);
    for (let at = hash >>> PLACE_SHIFT; ; at = (at + 1) & PLACE_MASK) {
      const found = hashes[base + at];
      if (found === hash && keys[base + at] === key) {
        this.chunk = chunk;
        this.place = base + at;
        return true;
      }
      if (found === VACANT) return false;
    }
  }

  /** Moves the cursor to a place, 0 to SEGMENT_PLACES - 1. False if it is vacant. */
  seek(segment: number, at: number): boolean {
    this.chunk = this.chunkOf(segment);
    this.place = baseOf(segment) + at;
    return this.chunk.hashes[this.place] !== VACANT;
  }

  read(): State {
    const kept = this.chunk.objects[this.place];
    return kept === undefined ? this.packing.read(this.chunk.cells, this.place * this.packing.cells) : kept;
  }

  write(state: State): void {
    if (this.packing.cells === 0) this.chunk.objects[this.place] = state;
    else this.packing.write(this.chunk.cells, this.place * this.packing.cells, state);
  }

  /** The caller has made sure that the key is not there and that there is room. */
  insert(segment: number, hash: number, key: string, state: State): void {
    const chunk = this.chunkOf(segment);
    const base = baseOf(segment);
    let at = hash >>> PLACE_SHIFT;
    while (chunk.hashes[base + at] !== VACANT) at = (at + 1) & PLACE_MASK;
    chunk.hashes[base + at] = hash;
    chunk.keys[base + at] = key;
    this.chunk = chunk;
    this.place = base + at;
    this.write(state);
    this.sizes[segment] = this.sizeOf(segment) + 1;
  }

  /** Removes the key under the cursor and closes the gap, so that no probe ever has to step over a tombstone. */
  remove(segment: number): void {
    const { hashes, keys, objects } = this.chunk;
    const base = baseOf(segment);
    let gap = this.place - base;
    for (let next = (gap + 1) & PLACE_MASK; hashes[base + next] !== VACANT; next = (next + 1) & PLACE_MASK) {
      const home = (hashes[base + next] ?? VACANT) >>> PLACE_SHIFT;
      // The next entry moves into the gap unless its home lies behind the gap.
      if (((next - home) & PLACE_MASK) >= ((next - gap) & PLACE_MASK)) {
        this.move(base + next, base + gap);
        gap = next;
      }
    }
    hashes[base + gap] = VACANT;
    keys[base + gap] = '';
    if (objects.length > 0) objects[base + gap] = undefined;
    this.sizes[segment] = this.sizeOf(segment) - 1;
  }

  /** Copies every entry of a segment to the segment that `target` chooses by its hash. */
  distribute(segment: number, target: (hash: number) => number): void {
    const { hashes, keys } = this.chunkOf(segment);
    const base = baseOf(segment);
    for (let at = 0; at < SEGMENT_PLACES; at += 1) {
      const hash = hashes[base + at] ?? VACANT;
      if (hash === VACANT) continue;
      this.seek(segment, at);
      this.insert(target(hash), hash, keys[base + at] ?? '', this.read());
    }
  }

  private move(from: number, to: number): void {
    const { hashes, keys } = this.chunk;
    hashes[to] = hashes[from] ?? VACANT;
    keys[to] = keys[from] ?? '';
    this.place = from;
    const state = this.read();
    this.place = to;
    this.write(state);
  }

  private chunkOf(segment: number): Chunk<State> {
    const chunk = this.chunks[segment >>> CHUNK_BITS];
    if (chunk === undefined) throw new RangeError(`there is no segment ${segment}`);
    return chunk;
  }

  private addChunk(): Chunk<State> {
    const number = this.chunks.length;
    const segments = Math.min(2 ** number, MAX_CHUNK_SEGMENTS);
    const places = segments * SEGMENT_PLACES;
    const chunk: Chunk<State> = {
      hashes: new Int32Array(places),
      keys: Array.from({ length: places }, () => ''),
      cells: new Float64Array(places * this.packing.cells),
      objects: this.packing.cells === 0 ? Array.from({ length: places }, () => undefined) : [],
    };
    this.chunks.push(chunk);
    for (let at = segments - 1; at >= 0; at -= 1) this.free.push((number << CHUNK_BITS) | at);
    return chunk;
  }
}

function baseOf(segment: number): number {
  return (segment & (MAX_CHUNK_SEGMENTS - 1)) << SEGMENT_BITS;
}
