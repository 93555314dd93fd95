// What a response says, whatever it is compressed with, beside its way to the client.
import * as zlib from 'node:zlib';
import type { Transform } from 'node:stream';

/** What a decoder tells of. */
export interface DecodedBytes {
  data(bytes: Buffer): void;
  /** It took what it was given; only behind a `write` that said no. */
  drained(): void;
  /** Nothing more comes: all was read, or what came cannot be read. */
  ended(readable: boolean): void;
}

export interface ContentDecoder {
  /** False: wait for `drained`. */
  write(bytes: Buffer): boolean;
  end(): void;
}

/** So much is decoded at a time. */
const CHUNK_BYTES = 2048;
/** What is decoded of a response, beside its length: more than that is a bomb, and is left alone. */
const ALLOWED_DECODED_BYTES = 4 * 2 ** 20;
const ALLOWED_GROWTH = 32;
/** The largest window that a client has to bear (RFC 9659 §3). */
const MAX_WINDOW_BITS = 23;

/** Undefined for an encoding that nobody here can read. */
export function contentDecoder(encoding: string, listener: DecodedBytes): ContentDecoder | undefined {
  switch (encoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return new PlainBytes(listener);
    case 'gzip':
    case 'x-gzip':
    case 'deflate':
      return new Decompressor(inflater, listener);
    case 'br':
      return new Decompressor(
        () =>
          zlib.createBrotliDecompress({
            chunkSize: CHUNK_BYTES,
            finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH,
          }),
        listener,
      );
    case 'zstd':
      return createZstd === undefined ? undefined : new Decompressor(zstd, listener);
    default:
      return undefined;
  }
}

/** `deflate` is meant to be zlib's format (RFC 9110 §8.4.1.2), and some send it without that. */
function inflater(first: Buffer): Transform {
  const options = { chunkSize: CHUNK_BYTES, finishFlush: zlib.constants.Z_SYNC_FLUSH };
  const isWrapped = first[0] === 0x1f || ((first[0] ?? 0) & 0x0f) === 8;
  return isWrapped ? zlib.createUnzip(options) : zlib.createInflateRaw(options);
}

/** Node.js has it since 22.15, and the types of Node.js 20 do not know of it. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as Node.js documents it
const createZstd = Reflect.get(zlib, 'createZstdDecompress') as ((options: object) => Transform) | undefined;

function zstd(): Transform {
  if (createZstd === undefined) throw new TypeError('this Node.js has no zstd');
  const numbers: unknown = zlib.constants;
  const constant = (name: string): number => Number(Reflect.get(Object(numbers), name));
  return createZstd({
    chunkSize: CHUNK_BYTES,
    finishFlush: constant('ZSTD_e_flush'),
    params: { [constant('ZSTD_d_windowLogMax')]: MAX_WINDOW_BITS },
  });
}

class PlainBytes implements ContentDecoder {
  private readonly listener: DecodedBytes;

  constructor(listener: DecodedBytes) {
    this.listener = listener;
  }

  write(bytes: Buffer): boolean {
    this.listener.data(bytes);
    return true;
  }

  end(): void {
    this.listener.ended(true);
  }
}

class Decompressor implements ContentDecoder {
  private readonly open: (first: Buffer) => Transform;
  private readonly listener: DecodedBytes;
  private stream: Transform | undefined;
  private allowedBytes = ALLOWED_DECODED_BYTES;
  private over = false;

  constructor(open: (first: Buffer) => Transform, listener: DecodedBytes) {
    this.open = open;
    this.listener = listener;
  }

  write(bytes: Buffer): boolean {
    if (this.over || bytes.length === 0) return true;
    this.allowedBytes += ALLOWED_GROWTH * bytes.length;
    this.stream ??= this.opened(bytes);
    return this.stream.write(bytes);
  }

  end(): void {
    if (this.stream === undefined) this.finish(true);
    else if (!this.over) this.stream.end();
  }

  private opened(first: Buffer): Transform {
    const stream = this.open(first);
    stream
      .on('data', (bytes: Buffer) => this.decoded(bytes))
      .on('drain', () => this.listener.drained())
      .on('end', () => this.finish(true))
      .on('error', () => this.giveUp());
    return stream;
  }

  private decoded(bytes: Buffer): void {
    if (this.over) return;
    this.allowedBytes -= bytes.length;
    if (this.allowedBytes < 0) this.giveUp();
    else this.listener.data(bytes);
  }

  private giveUp(): void {
    this.stream?.destroy();
    this.finish(false);
  }

  private finish(readable: boolean): void {
    if (this.over) return;
    this.over = true;
    this.listener.drained();
    this.listener.ended(readable);
  }
}
