// What a response says, whatever it is compressed with, beside its way to the client.
import { Inflate } from './inflate.ts';

/** What a decoder tells of. */
export interface DecodedBytes {
  /** To be read at once: it is overwritten afterwards. */
  data(bytes: Buffer): void;
  /** Nothing more comes: all was read, or what came cannot be read. */
  ended(): void;
}

export interface ContentDecoder {
  write(bytes: Buffer): void;
  end(): void;
}

/** What is decoded of a response, beside its length: more than that is a bomb, and is left alone. */
const ALLOWED_DECODED_BYTES = 4 * 2 ** 20;
const ALLOWED_GROWTH = 32;

/**
 * Undefined for an encoding that is not read here. Brotli and zstd are not: their windows alone take megabytes, and a
 * stream has 64 KiB.
 */
export function contentDecoder(encoding: string, listener: DecodedBytes): ContentDecoder | undefined {
  switch (encoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return new PlainBytes(listener);
    case 'gzip':
    case 'x-gzip':
    case 'deflate':
      return new Decompressor(listener);
    default:
      return undefined;
  }
}

class PlainBytes implements ContentDecoder {
  private readonly listener: DecodedBytes;

  constructor(listener: DecodedBytes) {
    this.listener = listener;
  }

  write(bytes: Buffer): void {
    this.listener.data(bytes);
  }

  end(): void {
    this.listener.ended();
  }
}

const GZIP_FIRST_BYTE = 0x1f;
const ZLIB_HEADER_BYTES = 2;
/** A checksum and a length. They are the client's to check: what it gets is not changed by them. */
const GZIP_TRAILER_BYTES = 8;

/** Reads gzip, with all its members, zlib's format, and deflate without a wrapping, which some send as `deflate`. */
class Decompressor implements ContentDecoder {
  private readonly listener: DecodedBytes;
  private allowedBytes = ALLOWED_DECODED_BYTES;
  private format: 'gzip' | 'zlib' | 'raw' | undefined;
  private header: GzipHeader | undefined;
  private inflate: Inflate | undefined;
  /** That of the member before: a response of many small ones does not take its window anew for each. */
  private spare: Inflate | undefined;
  /** Bytes of a header or a trailer that are still to come. */
  private skipped = 0;
  private over = false;

  constructor(listener: DecodedBytes) {
    this.listener = listener;
  }

  write(bytes: Buffer): void {
    this.allowedBytes += ALLOWED_GROWTH * bytes.length;
    let at = 0;
    while (at < bytes.length && !this.over) at = this.read(bytes, at);
  }

  end(): void {
    this.finish();
  }

  private read(bytes: Buffer, at: number): number {
    if (this.skipped > 0) {
      const skipped = Math.min(this.skipped, bytes.length - at);
      this.skipped -= skipped;
      return at + skipped;
    }
    if (this.inflate !== undefined) return this.unpack(this.inflate, bytes, at);
    if (this.header !== undefined) return this.readHeader(this.header, bytes, at);
    this.begin(bytes[at] ?? 0);
    return at;
  }

  /** At the first byte of the response, or of another member. */
  private begin(first: number): void {
    const isMember = this.format === 'gzip';
    if (first === GZIP_FIRST_BYTE) {
      this.format = 'gzip';
      this.header = new GzipHeader();
    } else if (isMember) this.finish();
    else {
      // The format of zlib (RFC 9110 §8.4.1.2), or none.
      this.format = (first & 0x0f) === 8 ? 'zlib' : 'raw';
      this.skipped = this.format === 'zlib' ? ZLIB_HEADER_BYTES : 0;
      this.inflate = this.opened();
    }
  }

  private readHeader(header: GzipHeader, bytes: Buffer, from: number): number {
    const at = header.feed(bytes, from);
    if (header.isBroken) this.finish();
    if (!header.isDone) return at;
    this.header = undefined;
    this.inflate = this.spare ?? this.opened();
    this.inflate.restart();
    return at;
  }

  private unpack(inflate: Inflate, bytes: Buffer, from: number): number {
    const at = inflate.feed(bytes, from);
    if (inflate.isBroken) this.finish();
    if (!inflate.isDone) return at;
    this.inflate = undefined;
    this.spare = inflate;
    if (this.format !== 'gzip') this.finish();
    // It read at most two bytes ahead.
    this.skipped = GZIP_TRAILER_BYTES - inflate.ahead;
    return at;
  }

  private opened(): Inflate {
    const inflate = new Inflate((bytes) => {
      this.allowedBytes -= bytes.length;
      if (this.allowedBytes >= 0) this.listener.data(bytes);
      else {
        inflate.stop();
        this.finish();
      }
    });
    return inflate;
  }

  private finish(): void {
    if (this.over) return;
    this.over = true;
    this.inflate = undefined;
    this.spare = undefined;
    this.listener.ended();
  }
}

const FIXED_BYTES = 10;
const DEFLATE = 8;
const FLAGS_AT = 3;
const HAS_CHECKSUM = 2;
const HAS_EXTRA = 4;
const HAS_NAME = 8;
const HAS_COMMENT = 16;

/** What stands in front of the data of a member of gzip (RFC 1952 §2.3). Nothing of it is kept. */
class GzipHeader {
  isDone = false;
  isBroken = false;
  private fixed = 0;
  private flags = 0;
  private extraLengthBytes = 0;
  private extraBytes = 0;
  private checksumBytes = 0;

  /** Reads up to its end, and says where that is. */
  feed(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length && !this.isDone && !this.isBroken) {
      this.step(bytes[at] ?? 0);
      at += 1;
    }
    return at;
  }

  private step(byte: number): void {
    if (this.fixed < FIXED_BYTES) this.readFixed(byte);
    else if ((this.flags & HAS_EXTRA) !== 0) this.readExtra(byte);
    else if ((this.flags & HAS_NAME) !== 0) this.readText(byte, HAS_NAME);
    else if ((this.flags & HAS_COMMENT) !== 0) this.readText(byte, HAS_COMMENT);
    else if ((this.flags & HAS_CHECKSUM) !== 0) this.readChecksum();
    this.isDone = this.fixed === FIXED_BYTES && this.flags === 0;
  }

  private readFixed(byte: number): void {
    if (this.fixed === 1 && byte !== 0x8b) this.isBroken = true;
    if (this.fixed === 2 && byte !== DEFLATE) this.isBroken = true;
    if (this.fixed === FLAGS_AT) this.flags = byte & (HAS_CHECKSUM | HAS_EXTRA | HAS_NAME | HAS_COMMENT);
    this.fixed += 1;
  }

  /** A length of two bytes, the lower first, and so many bytes. */
  private readExtra(byte: number): void {
    if (this.extraLengthBytes < 2) {
      this.extraBytes += byte << (8 * this.extraLengthBytes);
      this.extraLengthBytes += 1;
    } else this.extraBytes -= 1;
    if (this.extraLengthBytes === 2 && this.extraBytes === 0) this.flags &= ~HAS_EXTRA;
  }

  private readText(byte: number, flag: number): void {
    if (byte === 0) this.flags &= ~flag;
  }

  private readChecksum(): void {
    this.checksumBytes += 1;
    if (this.checksumBytes === 2) this.flags &= ~HAS_CHECKSUM;
  }
}
