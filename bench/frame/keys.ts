// Keys as a server sees them: an address read from the wire, a new flat string for every request. A string that
// was used before carries its hash with it and would make every store look faster than it is.

/** Long enough that a slice hardly ever replays the order; short enough to stay cheap to keep. */
const ORDER_LENGTH = 2 ** 21;
const ADDRESS_BYTES = 15;
const DOT = 46;
const ZERO = 48;

/** The order in which keys are asked for: numbers below the key count. */
export type Order = Uint32Array;

export class Keys {
  readonly #order: Order;
  readonly #bytes: Buffer = Buffer.alloc(ADDRESS_BYTES);
  #at = 0;

  constructor(order: Order) {
    this.#order = order;
  }

  /** The next key, as a string object that nobody has seen before. */
  next(): string {
    const index = this.#order[this.#at] ?? 0;
    this.#at = this.#at + 1 === this.#order.length ? 0 : this.#at + 1;
    return this.#bytes.toString('latin1', 0, writeAddress(this.#bytes, index));
  }
}

export function ascending(count: number): Order {
  return Uint32Array.from({ length: count }, (_, index) => index);
}

export function uniform(count: number): Order {
  const random = seededRandom(1);
  return Uint32Array.from({ length: ORDER_LENGTH }, () => Math.floor(random() * count));
}

/** Zipf with s = 1: the k-th most popular key is asked for in proportion to 1/k. */
export function zipf(count: number): Order {
  const random = seededRandom(2);
  const cumulative = new Float64Array(count);
  let total = 0;
  for (let rank = 0; rank < count; rank++) {
    total += 1 / (rank + 1);
    cumulative[rank] = total;
  }
  // Popular keys are spread over the table: their neighbours in memory are unpopular ones, as in production.
  const keyOfRank = shuffled(count, random);
  return Uint32Array.from(
    { length: ORDER_LENGTH },
    () => keyOfRank[firstAtLeast(cumulative, random() * total)] ?? 0,
  );
}

/** Writes the address of a key, 10.x.y.z, and answers its length. Every index below 2^24 gets another one. */
function writeAddress(bytes: Buffer, index: number): number {
  // An odd factor permutes the 24-bit numbers, so that neighbouring indexes do not share their digits.
  const scrambled = Math.imul(index, 0x9e3779b1) & 0xffffff;
  let at = writeOctet(bytes, 0, 10);
  for (let shift = 16; shift >= 0; shift -= 8) {
    bytes[at] = DOT;
    at = writeOctet(bytes, at + 1, (scrambled >> shift) & 0xff);
  }
  return at;
}

function writeOctet(bytes: Buffer, start: number, octet: number): number {
  let at = start;
  if (octet >= 100) bytes[at++] = ZERO + Math.trunc(octet / 100);
  if (octet >= 10) bytes[at++] = ZERO + (Math.trunc(octet / 10) % 10);
  bytes[at++] = ZERO + (octet % 10);
  return at;
}

function firstAtLeast(sorted: Float64Array, wanted: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function shuffled(count: number, random: () => number): Uint32Array {
  const items = ascending(count);
  for (let last = count - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    const held = items[last] ?? 0;
    items[last] = items[other] ?? 0;
    items[other] = held;
  }
  return items;
}

/** mulberry32: every run asks for the same keys in the same order. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
