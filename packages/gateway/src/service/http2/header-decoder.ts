// Reads the headers of HTTP/2 (HPACK, RFC 7541).
import { decodeHuffman } from './huffman.ts';
import { STATIC_FIELDS } from './hpack-tables.ts';
import { callHeadOf, type HeaderField, type CallHead } from './call-head.ts';

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
