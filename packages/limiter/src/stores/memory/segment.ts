import type { StatePacking } from './packing.ts';

/** A segment starts with this many places and doubles with its keys ... */
const MIN_PLACES = 16;
/** ... up to this many: small enough that splitting or sweeping one takes microseconds. */
const MAX_PLACES = 512;
const MAX_FILL = 0.875;
const VACANT = 0;

/** A small open-addressing hash table: keys as they are, states packed by the algorithm's own layout. */
export class Segment<State> {
  /** How many low bits of the hash all keys in here share. */
  readonly depth: number;
  readonly places: number;
  size = 0;
  private readonly mask: number;
  /** The place inside a segment comes from the top bits of the hash, the segment from the bottom bits. */
  private readonly shift: number;
  private readonly packing: StatePacking<State>;
  private readonly hashes: Int32Array;
  private readonly keys: string[];
  private readonly cells: Float64Array;
  private readonly objects: (State | undefined)[];

  constructor(depth: number, packing: StatePacking<State>, places: number) {
    this.depth = depth;
    this.places = places;
    this.mask = places - 1;
    this.shift = 32 - Math.log2(places);
    this.packing = packing;
    this.hashes = new Int32Array(places);
    this.keys = Array.from({ length: places }, () => '');
    this.cells = new Float64Array(places * packing.cells);
    this.objects = packing.cells === 0 ? Array.from({ length: places }, () => undefined) : [];
  }

  /** Linear probing stays short up to this fill. */
  get isFull(): boolean {
    return this.size >= this.places * MAX_FILL;
  }

  get canGrow(): boolean {
    return this.places < MAX_PLACES;
  }

  /** The place of a key, or -1. */
  find(hash: number, key: string): number {
    const { hashes, keys, mask, shift } = this;
    for (let place = hash >>> shift; ; place = (place + 1) & mask) {
      const found = hashes[place];
      if (found === hash && keys[place] === key) return place;
      if (found === VACANT) return -1;
    }
  }

  occupied(place: number): boolean {
    return this.hashes[place] !== VACANT;
  }

  read(place: number): State {
    const kept = this.objects[place];
    return kept === undefined ? this.packing.read(this.cells, place * this.packing.cells) : kept;
  }

  write(place: number, state: State): void {
    if (this.packing.cells === 0) this.objects[place] = state;
    else this.packing.write(this.cells, place * this.packing.cells, state);
  }

  /** The caller has made sure that the key is not here and that there is room. */
  insert(hash: number, key: string, state: State): void {
    let place = hash >>> this.shift;
    while (this.hashes[place] !== VACANT) place = (place + 1) & this.mask;
    this.hashes[place] = hash;
    this.keys[place] = key;
    this.write(place, state);
    this.size += 1;
  }

  /** Empties a place and closes the gap, so that no probe ever has to step over a tombstone. */
  remove(place: number): void {
    const { hashes, mask, shift } = this;
    let gap = place;
    for (let next = (gap + 1) & mask; hashes[next] !== VACANT; next = (next + 1) & mask) {
      const home = (hashes[next] ?? VACANT) >>> shift;
      // Move the next entry into the gap unless its home lies behind the gap.
      if (((next - home) & mask) >= ((next - gap) & mask)) {
        this.move(next, gap);
        gap = next;
      }
    }
    this.hashes[gap] = VACANT;
    this.keys[gap] = '';
    if (this.packing.cells === 0) this.objects[gap] = undefined;
    this.size -= 1;
  }

  /** Copies every entry whose hash `accepts` into another segment. */
  copyInto(target: Segment<State>, accepts: (hash: number) => boolean): void {
    for (let place = 0; place < this.places; place += 1) {
      const hash = this.hashes[place] ?? VACANT;
      if (hash !== VACANT && accepts(hash)) target.insert(hash, this.keys[place] ?? '', this.read(place));
    }
  }

  private move(from: number, to: number): void {
    this.hashes[to] = this.hashes[from] ?? VACANT;
    this.keys[to] = this.keys[from] ?? '';
    this.write(to, this.read(from));
  }
}

/** The fewest places that hold this many keys. */
export function placesFor(keys: number): number {
  let places = MIN_PLACES;
  while (keys >= places * MAX_FILL && places < MAX_PLACES) places *= 2;
  return places;
}
