// The headers of HTTP/2 (HPACK, RFC 7541): its tables (appendices A and B), its Huffman code (§5.2), reading, and
// writing without a table: what is sent always can be written beforehand.
import { callHeadOf, type HeaderField, type CallHead } from './call-head.ts';

/** Names and values; the first one has the index 1. */
const STATIC_FIELDS: readonly (readonly [name: string, value: string])[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ['accept-language', ''],
  ['accept-ranges', ''],
  ['accept', ''],
  ['access-control-allow-origin', ''],
  ['age', ''],
  ['allow', ''],
  ['authorization', ''],
  ['cache-control', ''],
  ['content-disposition', ''],
  ['content-encoding', ''],
  ['content-language', ''],
  ['content-length', ''],
  ['content-location', ''],
  ['content-range', ''],
  ['content-type', ''],
  ['cookie', ''],
  ['date', ''],
  ['etag', ''],
  ['expect', ''],
  ['expires', ''],
  ['from', ''],
  ['host', ''],
  ['if-match', ''],
  ['if-modified-since', ''],
  ['if-none-match', ''],
  ['if-range', ''],
  ['if-unmodified-since', ''],
  ['last-modified', ''],
  ['link', ''],
  ['location', ''],
  ['max-forwards', ''],
  ['proxy-authenticate', ''],
  ['proxy-authorization', ''],
  ['range', ''],
  ['referer', ''],
  ['refresh', ''],
  ['retry-after', ''],
  ['server', ''],
  ['set-cookie', ''],
  ['strict-transport-security', ''],
  ['transfer-encoding', ''],
  ['user-agent', ''],
  ['vary', ''],
  ['via', ''],
  ['www-authenticate', ''],
];

/**
 * How long the code of each symbol is, 32 a line; the last one ends a text. The code is canonical: its lengths are
 * enough.
 */
// oxfmt-ignore
const HUFFMAN_LENGTHS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
];

const END_OF_TEXT = 256;
const NODES = HUFFMAN_LENGTHS.length - 1;
/** By node and bit: a node if it is positive, else the complement of a symbol. */
const TREE = treeOf(HUFFMAN_LENGTHS);
const MAX_PADDING_BITS = 7;
/** The shortest code has five bits. */
const MOST_SYMBOLS_PER_BYTE = 8 / 5;

let scratch = Buffer.allocUnsafe(256);

/** The text in a piece of `bytes`; undefined if it is not one in this code. */
function decodeHuffman(bytes: Buffer, start: number, end: number): string | undefined {
  const most = Math.ceil((end - start) * MOST_SYMBOLS_PER_BYTE);
  if (scratch.length < most) scratch = Buffer.allocUnsafe(most);
  let written = 0;
  let node = 0;
  // What stands behind the last symbol has to be the beginning of the longest code: ones, and less than a byte.
  let pending = 0;
  let onlyOnes = true;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0;
    for (let shift = 7; shift >= 0; shift -= 1) {
      const bit = (byte >> shift) & 1;
      const next = TREE[2 * node + bit] ?? 0;
      if (next > 0) {
        node = next;
        pending += 1;
        onlyOnes &&= bit === 1;
        continue;
      }
      const symbol = ~next;
      if (symbol === END_OF_TEXT) return undefined;
      scratch[written] = symbol;
      written += 1;
      node = 0;
      pending = 0;
      onlyOnes = true;
    }
  }
  if (pending > MAX_PADDING_BITS || !onlyOnes) return undefined;
  return scratch.toString('latin1', 0, written);
}

function treeOf(lengths: readonly number[]): Int16Array {
  const tree = new Int16Array(2 * NODES);
  const order = [...lengths.keys()].toSorted(
    (one, other) => (lengths[one] ?? 0) - (lengths[other] ?? 0) || one - other,
  );
  let nodes = 1;
  let code = 0;
  let length = lengths[order[0] ?? 0] ?? 0;
  for (const symbol of order) {
    const own = lengths[symbol] ?? 0;
    code *= 2 ** (own - length);
    length = own;
    let node = 0;
    for (let shift = length - 1; shift > 0; shift -= 1) {
      const slot = 2 * node + (Math.floor(code / 2 ** shift) % 2);
      if (tree[slot] === 0) {
        tree[slot] = nodes;
        nodes += 1;
      }
      node = tree[slot] ?? 0;
    }
    tree[2 * node + (code % 2)] = ~symbol;
    code += 1;
  }
  return tree;
}

/** What both sides begin with, and we never announce more. */
const MAX_TABLE_BYTES = 4096;
/** Of all headers of a request, as RFC 9113 §6.5.2 counts them. */
export const MAX_LIST_BYTES = 65_536;
const MAX_FIELDS = 128;
/** What an entry of the table counts for besides its name and value. */
const ENTRY_BYTES = 32;
const MAX_INTEGER = 2 ** 28;

/** The headers of one block, in order. */
export class HeaderBlock {
  readonly fields: readonly HeaderField[];
  /** There were more than we take: the others are missing here. */
  readonly tooLarge: boolean;
  private known: CallHead | undefined;
  private asked = false;

  constructor(fields: readonly HeaderField[], tooLarge: boolean) {
    this.fields = fields;
    this.tooLarge = tooLarge;
  }

  /** What they ask for; undefined if they are malformed. */
  get request(): CallHead | undefined {
    if (!this.asked) this.known = callHeadOf(this.fields);
    this.asked = true;
    return this.known;
  }
}

/** The bytes are no headers. The table of the peer and ours differ from now on: the connection is of no more use. */
export class CompressionError extends Error {}

const STATIC: readonly HeaderField[] = STATIC_FIELDS.map(([name, value]) => fieldOf(name, value));

/** Reads the header blocks of one direction of one connection, all of them and in order. */
export class HeaderDecoder {
  /** The newest one is last. */
  private readonly table: HeaderField[] = [];
  private tableBytes = 0;
  private limitBytes = MAX_TABLE_BYTES;
  private bytes: Buffer = Buffer.alloc(0);
  private at = 0;
  private fields: HeaderField[] = [];
  private listBytes = 0;
  private tooLarge = false;
  /** How often the table was changed. */
  private changes = 0;
  /** The last block, if it changed nothing: the same bytes mean the same again until another one does. */
  private last: { readonly bytes: Buffer; readonly list: HeaderBlock } | undefined;

  decode(block: Buffer): HeaderBlock {
    if (this.last?.bytes.equals(block) === true) return this.last.list;
    this.bytes = block;
    this.at = 0;
    this.fields = [];
    this.listBytes = 0;
    this.tooLarge = false;
    const { changes } = this;
    while (this.at < block.length) this.readField();
    const list = new HeaderBlock(this.fields, this.tooLarge);
    this.last = this.changes === changes ? { bytes: Buffer.from(block), list } : undefined;
    return list;
  }

  private readField(): void {
    const first = this.bytes[this.at] ?? 0;
    if (first >= 0x80) this.add(this.fieldAt(this.integer(0x7f)));
    else if (first >= 0x40) this.insert(this.literal(0x3f));
    else if (first >= 0x20) this.resize(this.integer(0x1f));
    else this.add(this.literal(0x0f));
  }

  private literal(mask: number): HeaderField {
    const index = this.integer(mask);
    const name = index === 0 ? this.text() : this.fieldAt(index).name;
    return fieldOf(name, this.text());
  }

  private fieldAt(index: number): HeaderField {
    const field =
      index <= STATIC.length ? STATIC[index - 1] : this.table[this.table.length - (index - STATIC.length)];
    if (field === undefined) throw new CompressionError(`no header has the index ${index}`);
    return field;
  }

  private add(field: HeaderField): void {
    this.listBytes += field.bytes;
    if (this.listBytes > MAX_LIST_BYTES || this.fields.length >= MAX_FIELDS) this.tooLarge = true;
    else this.fields.push(field);
  }

  private insert(field: HeaderField): void {
    this.changes += 1;
    this.evict(this.limitBytes - field.bytes);
    // One that is larger than the table leaves it empty (RFC 7541 §4.4).
    if (field.bytes <= this.limitBytes) {
      this.table.push(field);
      this.tableBytes += field.bytes;
    }
    this.add(field);
  }

  private resize(limitBytes: number): void {
    if (limitBytes > MAX_TABLE_BYTES) throw new CompressionError(`a table of ${limitBytes} bytes`);
    if (this.listBytes > 0) throw new CompressionError('the table is resized behind a header');
    this.changes += 1;
    this.limitBytes = limitBytes;
    this.evict(limitBytes);
  }

  private evict(leftBytes: number): void {
    let count = 0;
    while (this.tableBytes > leftBytes && count < this.table.length) {
      this.tableBytes -= this.table[count]?.bytes ?? 0;
      count += 1;
    }
    if (count > 0) this.table.splice(0, count);
  }

  /** An integer that begins in the low bits of a byte (RFC 7541 §5.1). */
  private integer(mask: number): number {
    let value = this.byte() & mask;
    if (value < mask) return value;
    let factor = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      // No number of ours is as large; and a number of many empty bytes is not read to its end.
      if (value > MAX_INTEGER || factor > MAX_INTEGER) throw new CompressionError('a number is too large');
      if (byte < 0x80) return value;
      factor *= 0x80;
    }
  }

  private text(): string {
    const isHuffman = (this.bytes[this.at] ?? 0) >= 0x80;
    const length = this.integer(0x7f);
    const start = this.at;
    const end = start + length;
    if (end > this.bytes.length) throw new CompressionError('a text is longer than its block');
    this.at = end;
    if (!isHuffman) return this.bytes.toString('latin1', start, end);
    const text = decodeHuffman(this.bytes, start, end);
    if (text === undefined) throw new CompressionError('a text is not in the code of Huffman');
    return text;
  }

  private byte(): number {
    const byte = this.bytes[this.at];
    if (byte === undefined) throw new CompressionError('a block ends within a header');
    this.at += 1;
    return byte;
  }
}

function fieldOf(name: string, value: string): HeaderField {
  return { name, value, bytes: name.length + value.length + ENTRY_BYTES };
}

const STATUS = new Map(
  STATIC_FIELDS.flatMap(([name, value], at) =>
    name === ':status' ? [[Number(value), at + 1] as const] : [],
  ),
);
/** The first of each name. */
const NAMES = new Map(STATIC_FIELDS.map(([name], at) => [name, at + 1] as const).toReversed());
const LITERAL_BITS = 4;
const TEXT_BITS = 7;

type HeaderPairs = readonly (readonly [name: string, value: string])[];

/** Names in small letters. */
export function encodeHeaders(pairs: HeaderPairs, status?: number): Buffer {
  const bytes: number[] = [];
  if (status !== undefined) {
    const index = STATUS.get(status);
    if (index === undefined) literal(bytes, ':status', String(status));
    else bytes.push(0x80 + index);
  }
  for (const [name, value] of pairs) literal(bytes, name, value);
  return Buffer.from(bytes);
}

function literal(bytes: number[], name: string, value: string): void {
  const index = NAMES.get(name) ?? 0;
  integer(bytes, index, LITERAL_BITS);
  if (index === 0) writeText(bytes, name);
  writeText(bytes, value);
}

function writeText(bytes: number[], value: string): void {
  integer(bytes, value.length, TEXT_BITS);
  for (let at = 0; at < value.length; at += 1) bytes.push(value.charCodeAt(at) & 0xff);
}

function integer(bytes: number[], value: number, bits: number): void {
  const most = 2 ** bits - 1;
  if (value < most) {
    bytes.push(value);
    return;
  }
  bytes.push(most);
  let rest = value - most;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  bytes.push(rest);
}
