const MAX_BITS = 15;
/** Codes of up to so many bits are found at once, longer ones bit by bit: a table for all would take 64 KiB. */
const FAST_BITS = 9;
const FAST_MASK = (1 << FAST_BITS) - 1;

/** Bits that came and were not used yet, the earliest lowest. */
export interface BitBuffer {
  held: number;
  bits: number;
}

/** There are too few bits to tell. */
export const MORE_BITS = -1;
/** No code begins like that. */
const NO_SYMBOL = -2;

/** A canonical Huffman code of deflate (RFC 1951 §3.2.2). */
export class HuffmanCode {
  private readonly counts = new Uint16Array(MAX_BITS + 1);
  private readonly symbols: Uint16Array;
  /** By the next bits: the symbol, and in the lowest four bits how long its code is; 0 if that is longer. */
  private readonly fast = new Uint16Array(1 << FAST_BITS);

  constructor(mostSymbols: number) {
    this.symbols = new Uint16Array(mostSymbols);
  }

  /** False if no code has such lengths: there are more codes than bits can tell apart. */
  build(lengths: Uint8Array): boolean {
    this.counts.fill(0);
    this.fast.fill(0);
    for (const length of lengths) if (length > 0) this.increase(length);
    let left = 1;
    for (let length = 1; length <= MAX_BITS; length += 1) {
      left = left * 2 - (this.counts[length] ?? 0);
      if (left < 0) return false;
    }
    const offsets = new Uint16Array(MAX_BITS + 2);
    const codes = new Uint16Array(MAX_BITS + 2);
    for (let length = 1; length <= MAX_BITS; length += 1) {
      const count = this.counts[length] ?? 0;
      offsets[length + 1] = (offsets[length] ?? 0) + count;
      codes[length + 1] = ((codes[length] ?? 0) + count) << 1;
    }
    for (const [symbol, length] of lengths.entries()) {
      if (length === 0) continue;
      this.symbols[offsets[length] ?? 0] = symbol;
      offsets[length] = (offsets[length] ?? 0) + 1;
      if (length <= FAST_BITS) this.enterFast(codes[length] ?? 0, length, symbol);
      codes[length] = (codes[length] ?? 0) + 1;
    }
    return true;
  }

  /** Takes the next symbol out of the buffer. */
  next(buffer: BitBuffer): number {
    const entry = this.fast[buffer.held & FAST_MASK] ?? 0;
    const length = entry & 15;
    if (length === 0 || length > buffer.bits) return this.nextSlowly(buffer);
    drop(buffer, length);
    return entry >> 4;
  }

  private nextSlowly(buffer: BitBuffer): number {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length <= MAX_BITS; length += 1) {
      if (length > buffer.bits) return MORE_BITS;
      code |= (buffer.held >> (length - 1)) & 1;
      const count = this.counts[length] ?? 0;
      if (code - first < count) {
        drop(buffer, length);
        return this.symbols[index + code - first] ?? NO_SYMBOL;
      }
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    return NO_SYMBOL;
  }

  private increase(length: number): void {
    this.counts[length] = (this.counts[length] ?? 0) + 1;
  }

  /** Codes come with their first bit first, so that they are found backwards. */
  private enterFast(code: number, length: number, symbol: number): void {
    let backwards = 0;
    for (let bit = 0; bit < length; bit += 1) backwards |= ((code >> bit) & 1) << (length - 1 - bit);
    for (let at = backwards; at <= FAST_MASK; at += 1 << length) this.fast[at] = (symbol << 4) | length;
  }
}

/** Forgets the earliest bits. */
export function drop(buffer: BitBuffer, count: number): void {
  buffer.held >>>= count;
  buffer.bits -= count;
}
