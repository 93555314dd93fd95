import type { StatePacking } from '../../algorithms/algorithm.ts';

/** The longest text under which a state is kept (`toStateKey`), four characters to a word. */
const MAX_WORDS = 32;

/**
 * The key that a table is asked for: its hash, and its bytes as words. Reading a character of a text costs more than
 * anything else about it, so each is read once, for both.
 */
export class PackedKey {
  hash = 0;
  /** Four characters each, the first in the lowest byte; zeros after the last. Only if `isNarrow`. */
  readonly words: Int32Array = new Int32Array(MAX_WORDS);
  /** Every character fits into a byte. */
  isNarrow = true;
  private readonly seed: number;

  /** The seed has to be secret: then nobody outside can choose keys that collide. */
  constructor(seed: number) {
    this.seed = seed;
  }

  /**
   * Two lanes, because each step of one has to wait for the step before it. The hash is never 0, which marks a vacant
   * place.
   */
  pack(text: string): void {
    const { words } = this;
    const { length } = text;
    let even = this.seed ^ length;
    let odd = ~this.seed;
    let bits = 0;
    let at = 0;
    for (; at + 3 < length; at += 4) {
      const first = text.charCodeAt(at);
      const second = text.charCodeAt(at + 1);
      const third = text.charCodeAt(at + 2);
      const fourth = text.charCodeAt(at + 3);
      even = Math.imul(rotated(Math.imul(rotated(even) ^ first, EVEN)) ^ third, EVEN);
      odd = Math.imul(rotated(Math.imul(rotated(odd) ^ second, ODD)) ^ fourth, ODD);
      words[at >>> 2] = first | (second << 8) | (third << 16) | (fourth << 24);
      bits |= first | second | third | fourth;
    }
    if (at < length) {
      let word = 0;
      for (let shift = 0; at < length; at += 1, shift += 8) {
        const code = text.charCodeAt(at);
        if ((at & 1) === 0) even = Math.imul(rotated(even) ^ code, EVEN);
        else odd = Math.imul(rotated(odd) ^ code, ODD);
        word |= code << shift;
        bits |= code;
      }
      words[(length - 1) >>> 2] = word;
    }
    this.hash = finished(even ^ ((odd << 16) | (odd >>> 16)));
    this.isNarrow = bits <= 0xff;
  }
}

const EVEN = 0x9e3779b1;
const ODD = 0x85ebca6b;

function rotated(lane: number): number {
  return (lane << 5) | (lane >>> 27);
}

function finished(mixed: number): number {
  let hash = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16) || 1;
}

/** Places per segment: small enough that splitting or sweeping one takes microseconds. */
export const SEGMENT_PLACES = 128;
const SEGMENT_BITS = 7;
/** Linear probing stays short up to this fill. */
const SEGMENT_CAPACITY = 118;
/** The place inside a segment comes from the top bits of the hash, the segment from the bottom bits. */
const PLACE_SHIFT = 25;
const PLACE_MASK = SEGMENT_PLACES - 1;
/** A segment's id is its chunk and its number there. The first chunks are small, so that small tables are small. */
const CHUNK_BITS = 8;
const MAX_CHUNK_SEGMENTS: number = 2 ** CHUNK_BITS;

// A row is one cache line: hash, length of the key, kind of the state, the state's doubles, the bytes of the key.
// Finding a key among millions then touches memory once.
const ROW_BYTES = 64;
const ROW_INTS = 16;
const ROW_DOUBLES = 8;
const LENGTH_AT = 4;
const KIND_AT = 5;
const WORD_BYTES = 4;
/** In words, as the key that follows them. */
const CELLS_AT = 2;
const VACANT = 0;
const PACKED = 0;
const KEPT = 1;
/** The length of a key that is kept beside the row: too long, or with characters above U+00FF. */
const LONG_KEY = 255;

/** Where a row was after so many moves. */
export interface RowMark {
  readonly chunk: number;
  readonly row: number;
  readonly moves: number;
}

export const NO_ROW: RowMark = { chunk: 0, row: 0, moves: -1 };

interface Chunk<State> {
  readonly ints: Int32Array;
  readonly bytes: Uint8Array;
  readonly doubles: Float64Array;
  /** By place; only what did not fit into the row. */
  readonly longKeys: Map<number, string>;
  readonly kept: Map<number, State>;
}

/**
 * Segments of a hash table, each a small open-addressing table of its own. `find` and `seek` leave a cursor on a row;
 * `read`, `write` and `remove` use it.
 */
export class Slab<State> {
  private readonly packing: StatePacking<State>;
  private readonly keyAt: number;
  private readonly chunks: Chunk<State>[] = [];
  private readonly free: number[] = [];
  private readonly sizes: number[] = [];
  private readonly depths: number[] = [];
  private chunk: Chunk<State>;
  private row = 0;
  /** Counts what may have put another row, or none, where one was. */
  private moves = 0;

  constructor(packing: StatePacking<State>) {
    this.packing = packing;
    this.keyAt = CELLS_AT + packing.cells * (Float64Array.BYTES_PER_ELEMENT / WORD_BYTES);
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
    const { ints, longKeys, kept } = this.chunkOf(segment);
    const first = firstRow(segment);
    for (let row = first; row < first + SEGMENT_PLACES; row += 1) {
      ints[row * ROW_INTS] = VACANT;
      longKeys.delete(row);
      kept.delete(row);
    }
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
  find(segment: number, key: PackedKey, text: string): boolean {
    const chunk = this.chunkOf(segment);
    const first = firstRow(segment);
    const { hash } = key;
    for (let at = hash >>> PLACE_SHIFT; ; at = (at + 1) & PLACE_MASK) {
      const found = chunk.ints[(first + at) * ROW_INTS];
      if (found === hash && this.holds(chunk, first + at, key, text)) {
        this.chunk = chunk;
        this.row = first + at;
        return true;
      }
      if (found === VACANT) return false;
    }
  }

  /** Moves the cursor to a place, 0 to SEGMENT_PLACES - 1. False if it is vacant. */
  seek(segment: number, at: number): boolean {
    this.chunk = this.chunkOf(segment);
    this.row = firstRow(segment) + at;
    return this.chunk.ints[this.row * ROW_INTS] !== VACANT;
  }

  /** Where the cursor is now. */
  mark(): RowMark {
    return { chunk: this.chunks.indexOf(this.chunk), row: this.row, moves: this.moves };
  }

  /** Moves the cursor to where it was. False if rows have moved since. */
  revisit(mark: RowMark): boolean {
    const chunk = this.chunks[mark.chunk];
    if (chunk === undefined || mark.moves !== this.moves) return false;
    this.chunk = chunk;
    this.row = mark.row;
    return true;
  }

  read(): State {
    const { bytes, doubles, kept } = this.chunk;
    const state = bytes[this.row * ROW_BYTES + KIND_AT] === KEPT ? kept.get(this.row) : undefined;
    return state ?? this.packing.read(doubles, this.row * ROW_DOUBLES + 1);
  }

  write(state: State): void {
    const { bytes, doubles, kept } = this.chunk;
    const kindAt = this.row * ROW_BYTES + KIND_AT;
    if (this.packing.fits(state)) {
      if (bytes[kindAt] === KEPT) kept.delete(this.row);
      bytes[kindAt] = PACKED;
      this.packing.write(doubles, this.row * ROW_DOUBLES + 1, state);
    } else {
      bytes[kindAt] = KEPT;
      kept.set(this.row, state);
    }
  }

  /** The caller has made sure that the key is not there and that there is room. */
  insert(segment: number, key: PackedKey, text: string, state: State): void {
    this.chunk = this.chunkOf(segment);
    this.row = this.vacantRow(segment, key.hash);
    this.chunk.ints[this.row * ROW_INTS] = key.hash;
    this.chunk.bytes[this.row * ROW_BYTES + KIND_AT] = PACKED;
    this.writeKey(key, text);
    this.write(state);
    this.sizes[segment] = this.sizeOf(segment) + 1;
  }

  /** Removes the row under the cursor and closes the gap, so that no probe ever has to step over a tombstone. */
  remove(segment: number): void {
    this.moves += 1;
    const { ints, longKeys, kept } = this.chunk;
    const first = firstRow(segment);
    let gap = this.row - first;
    for (let next = (gap + 1) & PLACE_MASK; ; next = (next + 1) & PLACE_MASK) {
      const hash = ints[(first + next) * ROW_INTS] ?? VACANT;
      if (hash === VACANT) break;
      // The next row moves into the gap unless its home lies behind the gap.
      if (((next - (hash >>> PLACE_SHIFT)) & PLACE_MASK) >= ((next - gap) & PLACE_MASK)) {
        copyRow(this.chunk, first + next, this.chunk, first + gap);
        gap = next;
      }
    }
    ints[(first + gap) * ROW_INTS] = VACANT;
    longKeys.delete(first + gap);
    kept.delete(first + gap);
    this.sizes[segment] = this.sizeOf(segment) - 1;
  }

  /** Copies every row of a segment to the segment that `target` chooses by its hash. */
  distribute(segment: number, target: (hash: number) => number): void {
    this.moves += 1;
    const source = this.chunkOf(segment);
    const first = firstRow(segment);
    for (let row = first; row < first + SEGMENT_PLACES; row += 1) {
      const hash = source.ints[row * ROW_INTS] ?? VACANT;
      if (hash === VACANT) continue;
      const chosen = target(hash);
      copyRow(source, row, this.chunkOf(chosen), this.vacantRow(chosen, hash));
      this.sizes[chosen] = this.sizeOf(chosen) + 1;
    }
  }

  private vacantRow(segment: number, hash: number): number {
    const { ints } = this.chunkOf(segment);
    const first = firstRow(segment);
    let at = hash >>> PLACE_SHIFT;
    while (ints[(first + at) * ROW_INTS] !== VACANT) at = (at + 1) & PLACE_MASK;
    return first + at;
  }

  private holds(chunk: Chunk<State>, row: number, { words, isNarrow }: PackedKey, text: string): boolean {
    const { bytes, ints } = chunk;
    const length = bytes[row * ROW_BYTES + LENGTH_AT];
    if (length === LONG_KEY) return chunk.longKeys.get(row) === text;
    if (length !== text.length || !isNarrow) return false;
    const from = row * ROW_INTS + this.keyAt;
    for (let at = 0; at * WORD_BYTES < length; at += 1) if (ints[from + at] !== words[at]) return false;
    return true;
  }

  private writeKey({ words, isNarrow }: PackedKey, text: string): void {
    const { bytes, ints, longKeys } = this.chunk;
    const fits = isNarrow && text.length <= (ROW_INTS - this.keyAt) * WORD_BYTES;
    bytes[this.row * ROW_BYTES + LENGTH_AT] = fits ? text.length : LONG_KEY;
    if (!fits) {
      longKeys.set(this.row, ownText(text));
      return;
    }
    const from = this.row * ROW_INTS + this.keyAt;
    for (let at = 0; at * WORD_BYTES < text.length; at += 1) ints[from + at] = words[at] ?? 0;
  }

  private chunkOf(segment: number): Chunk<State> {
    const chunk = this.chunks[segment >>> CHUNK_BITS];
    if (chunk === undefined) throw new RangeError(`there is no segment ${segment}`);
    return chunk;
  }

  private addChunk(): Chunk<State> {
    const number = this.chunks.length;
    const segments = Math.min(2 ** number, MAX_CHUNK_SEGMENTS);
    const buffer = new ArrayBuffer(segments * SEGMENT_PLACES * ROW_BYTES);
    const chunk: Chunk<State> = {
      ints: new Int32Array(buffer),
      bytes: new Uint8Array(buffer),
      doubles: new Float64Array(buffer),
      longKeys: new Map(),
      kept: new Map(),
    };
    this.chunks.push(chunk);
    for (let at = segments - 1; at >= 0; at -= 1) this.free.push((number << CHUNK_BITS) | at);
    return chunk;
  }
}

function firstRow(segment: number): number {
  return (segment & (MAX_CHUNK_SEGMENTS - 1)) << SEGMENT_BITS;
}

/** As integers: a double may not keep bytes that happen to look like a NaN. */
function copyRow<State>(source: Chunk<State>, from: number, target: Chunk<State>, to: number): void {
  for (let at = 0; at < ROW_INTS; at += 1)
    target.ints[to * ROW_INTS + at] = source.ints[from * ROW_INTS + at] ?? 0;
  copyBeside(source.longKeys, from, target.longKeys, to);
  copyBeside(source.kept, from, target.kept, to);
}

function copyBeside<Value>(
  source: Map<number, Value>,
  from: number,
  target: Map<number, Value>,
  to: number,
): void {
  const value = source.get(from);
  if (value === undefined) target.delete(to);
  else target.set(to, value);
}

/** Engines keep short texts as copies, but longer parts of a text as a view of all of it. */
const COPIED_LENGTH = 13;

/** A compact copy of a text that may be a view: the table must not keep a whole request alive for one header in it. */
function ownText(key: string): string {
  return key.length < COPIED_LENGTH ? key : [key.charAt(0), key.slice(1)].join('');
}
