import { drop, HuffmanCode, MORE_BITS, type BitBuffer } from './huffman-code.ts';

const WINDOW_BYTES = 32_768;
const END_OF_BLOCK = 256;
const LITERALS = 288;
const DISTANCES = 32;
const LENGTH_CODES = 19;
/** In which order the lengths of the code come that says the other lengths. */
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/** The least length of a code, and how many bits say how much more it is (RFC 1951 §3.2.5). */
const LENGTHS = [
  3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
  227, 258,
];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_STARTS = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097,
  6145, 8193, 12_289, 16_385, 24_577,
];
const DISTANCE_BITS = [
  0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
];
/** How a repeated length is told: by how many bits, and how often at least. */
const REPEATS = { 16: [2, 3], 17: [3, 3], 18: [7, 11] } as const;

type InflateStep =
  | 'block'
  | 'storedLength'
  | 'stored'
  | 'counts'
  | 'lengthCode'
  | 'lengths'
  | 'symbol'
  | 'length'
  | 'distance'
  | 'distanceBits'
  | 'done'
  | 'broken';

/**
 * Unpacks deflate (RFC 1951) as it comes. Node.js' own takes more than 60 KB a stream, in a thread of its own; this one
 * takes its window of 32 KiB and three small tables. What it hears of is a part of that window: to be read at once.
 */
export class Inflate {
  private readonly listener: (bytes: Buffer) => void;
  private readonly window = Buffer.allocUnsafeSlow(WINDOW_BYTES);
  private readonly literals = new HuffmanCode(LITERALS);
  private readonly distances = new HuffmanCode(DISTANCES);
  private readonly lengthCode = new HuffmanCode(LENGTH_CODES);
  private readonly lengths = new Uint8Array(LITERALS + DISTANCES);
  private readonly buffer: BitBuffer = { held: 0, bits: 0 };
  private step: InflateStep = 'block';
  private isLast = false;
  private isStopped = false;
  private position = 0;
  private told = 0;
  private written = 0;
  /** Of a stored block, or of a copy: what is still to come. */
  private length = 0;
  private code = 0;
  private counts = { literals: 0, distances: 0, lengths: 0 };
  private known = 0;
  private bytes: Buffer = Buffer.alloc(0);
  private at = 0;

  constructor(listener: (bytes: Buffer) => void) {
    this.listener = listener;
  }

  get isDone(): boolean {
    return this.step === 'done';
  }

  get isBroken(): boolean {
    return this.step === 'broken';
  }

  /** Nobody wants more of it. */
  stop(): void {
    this.isStopped = true;
  }

  /** Reads other data from here on, in the same memory. */
  restart(): void {
    Object.assign(this.buffer, { held: 0, bits: 0 });
    this.step = 'block';
    this.isLast = false;
    this.position = 0;
    this.told = 0;
    this.written = 0;
  }

  /** Bytes that came and belong to what follows. */
  get ahead(): number {
    return this.buffer.bits >> 3;
  }

  /** Reads up to the end of the data, and says where it stands. */
  feed(bytes: Buffer, from: number): number {
    this.bytes = bytes;
    this.at = from;
    while (!this.isStopped && !this.isDone && !this.isBroken && this.advance());
    this.tell();
    this.bytes = EMPTY;
    return this.at;
  }

  /** False: more has to come first. */
  private advance(): boolean {
    switch (this.step) {
      case 'block':
        return this.readBlock();
      case 'storedLength':
        return this.readStoredLength();
      case 'stored':
        return this.copyStored();
      case 'counts':
        return this.readCounts();
      case 'lengthCode':
        return this.readLengthCode();
      case 'lengths':
        return this.readLengths();
      case 'symbol':
        return this.readSymbols();
      case 'length':
        return this.readLength();
      case 'distance':
        return this.readDistance();
      case 'distanceBits':
        return this.copy();
      default:
        return false;
    }
  }

  private need(count: number): boolean {
    const { buffer } = this;
    while (buffer.bits < count) {
      if (this.at >= this.bytes.length) return false;
      buffer.held |= (this.bytes[this.at] ?? 0) << buffer.bits;
      buffer.bits += 8;
      this.at += 1;
    }
    return true;
  }

  private take(count: number): number {
    const value = this.buffer.held & ((1 << count) - 1);
    drop(this.buffer, count);
    return value;
  }

  private goTo(step: InflateStep): true {
    this.step = step;
    return true;
  }

  private readBlock(): boolean {
    if (this.isLast) return this.goTo('done');
    if (!this.need(3)) return false;
    this.isLast = this.take(1) === 1;
    switch (this.take(2)) {
      case 0:
        drop(this.buffer, this.buffer.bits & 7);
        return this.goTo('storedLength');
      case 1:
        this.literals.build(FIXED_LITERALS);
        this.distances.build(FIXED_DISTANCES);
        return this.goTo('symbol');
      case 2:
        return this.goTo('counts');
      default:
        return this.goTo('broken');
    }
  }

  private readStoredLength(): boolean {
    // Twice 16 bits, the second the complement of the first: one after the other, as 32 are more than are kept.
    if (this.known === 0) {
      if (!this.need(16)) return false;
      this.length = this.take(16);
      this.known = 1;
    }
    if (!this.need(16)) return false;
    this.known = 0;
    return this.goTo(this.take(16) === (~this.length & 0xffff) ? 'stored' : 'broken');
  }

  private copyStored(): boolean {
    while (this.length > 0) {
      if (!this.need(8)) return false;
      this.put(this.take(8));
      this.length -= 1;
    }
    return this.goTo('block');
  }

  private readCounts(): boolean {
    if (!this.need(14)) return false;
    this.counts = { literals: this.take(5) + 257, distances: this.take(5) + 1, lengths: this.take(4) + 4 };
    this.lengths.fill(0);
    this.known = 0;
    return this.goTo(this.counts.literals > 286 || this.counts.distances > 30 ? 'broken' : 'lengthCode');
  }

  private readLengthCode(): boolean {
    while (this.known < this.counts.lengths) {
      if (!this.need(3)) return false;
      this.lengths[LENGTH_ORDER[this.known] ?? 0] = this.take(3);
      this.known += 1;
    }
    this.known = 0;
    const isCode = this.lengthCode.build(this.lengths.subarray(0, LENGTH_CODES));
    this.lengths.fill(0);
    this.code = NO_CODE;
    return this.goTo(isCode ? 'lengths' : 'broken');
  }

  private readLengths(): boolean {
    const { literals, distances } = this.counts;
    while (this.known < literals + distances) {
      if (this.code === NO_CODE) this.code = this.nextOf(this.lengthCode);
      if (this.code === MORE_BITS) return this.wait();
      if (this.code < 0) return this.goTo('broken');
      if (this.code < 16) this.lengths[this.known++] = this.code;
      else if (!this.repeatLength(this.code === 16 ? 16 : this.code === 17 ? 17 : 18)) return false;
      if (this.isBroken) return true;
      this.code = NO_CODE;
    }
    this.known = 0;
    const isCode =
      this.literals.build(this.lengths.subarray(0, literals)) &&
      this.distances.build(this.lengths.subarray(literals, literals + distances));
    return this.goTo(isCode ? 'symbol' : 'broken');
  }

  private wait(): false {
    this.code = NO_CODE;
    return false;
  }

  private repeatLength(code: 16 | 17 | 18): boolean {
    const [bits, least] = REPEATS[code];
    if (!this.need(bits)) return false;
    const end = this.known + least + this.take(bits);
    const { literals, distances } = this.counts;
    if (end > literals + distances || (code === 16 && this.known === 0)) return this.goTo('broken');
    const repeated = code === 16 ? (this.lengths[this.known - 1] ?? 0) : 0;
    this.lengths.fill(repeated, this.known, end);
    this.known = end;
    return true;
  }

  private readSymbols(): boolean {
    for (;;) {
      const symbol = this.nextOf(this.literals);
      if (symbol === MORE_BITS) return false;
      if (symbol < 0 || symbol > END_OF_BLOCK + LENGTHS.length) return this.goTo('broken');
      if (symbol === END_OF_BLOCK) return this.goTo('block');
      if (symbol > END_OF_BLOCK) {
        this.code = symbol - END_OF_BLOCK - 1;
        return this.goTo('length');
      }
      this.put(symbol);
    }
  }

  private readLength(): boolean {
    const bits = LENGTH_BITS[this.code] ?? 0;
    if (!this.need(bits)) return false;
    this.length = (LENGTHS[this.code] ?? 0) + this.take(bits);
    return this.goTo('distance');
  }

  private readDistance(): boolean {
    const code = this.nextOf(this.distances);
    if (code === MORE_BITS) return false;
    this.code = code;
    return this.goTo(code < 0 || code >= DISTANCE_STARTS.length ? 'broken' : 'distanceBits');
  }

  private copy(): boolean {
    const bits = DISTANCE_BITS[this.code] ?? 0;
    if (!this.need(bits)) return false;
    const distance = (DISTANCE_STARTS[this.code] ?? 0) + this.take(bits);
    if (distance > this.written) return this.goTo('broken');
    for (; this.length > 0; this.length -= 1) {
      this.put(this.window[(this.position - distance) & (WINDOW_BYTES - 1)] ?? 0);
    }
    return this.goTo('symbol');
  }

  /** Reads ahead as far as a code can reach, if so much has come. */
  private nextOf(code: HuffmanCode): number {
    this.need(15);
    return code.next(this.buffer);
  }

  private put(byte: number): void {
    this.window[this.position] = byte;
    this.position += 1;
    // As much as a copy can reach back; how much it was in all does not matter.
    if (this.written < WINDOW_BYTES) this.written += 1;
    if (this.position < WINDOW_BYTES) return;
    this.tell();
    this.position = 0;
    this.told = 0;
  }

  private tell(): void {
    if (this.position > this.told) this.listener(this.window.subarray(this.told, this.position));
    this.told = this.position;
  }
}

const EMPTY = Buffer.alloc(0);
const NO_CODE = -3;
const FIXED_LITERALS = Uint8Array.from({ length: LITERALS }, (_, symbol) => {
  if (symbol < 144) return 8;
  if (symbol < 256) return 9;
  return symbol < 280 ? 7 : 8;
});
const FIXED_DISTANCES = new Uint8Array(DISTANCES).fill(5);
