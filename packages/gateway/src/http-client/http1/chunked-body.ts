import { badResponse } from './response-head.ts';

/** Bytes that a chunk's extensions may have; nobody uses them. */
const MAX_EXTENSION_BYTES = 256;
/** 2^52 bytes: exact as a number. Zeros in front count too. */
const MAX_SIZE_DIGITS = 13;

const CR = 0x0d;
const LF = 0x0a;
const SEMICOLON = 0x3b;

/** `;name`, `;name=value`, `;name="value"`, and again: RFC 9112 §7.1.1, without the blanks that it calls bad. */
const TOKEN = "[!#$%&'*+\\-.^_`|~\\dA-Za-z]+";
const QUOTED = '"(?:[\\t !#-\\[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"';
const EXTENSIONS = new RegExp(`^(?:;${TOKEN}(?:=(?:${TOKEN}|${QUOTED}))?)+$`);

type ChunkState = 'size' | 'extension' | 'sizeEnd' | 'bytes' | 'bytesEnd' | 'bytesEnded' | 'last';

/** The chunks of a body (RFC 9112 §7.1), up to the trailers. */
export class ChunkedBody {
  private state: ChunkState = 'size';
  private size = 0;
  private digits = 0;
  private extensions = '';
  private start = 0;
  private end = 0;

  /** The last chunk was read: trailers follow. */
  get finished(): boolean {
    return this.state === 'last';
  }

  reset(): void {
    this.state = 'size';
    this.size = 0;
    this.digits = 0;
    this.extensions = '';
  }

  /** Where the content that the last `read` found is, in one piece. */
  get contentStart(): number {
    return this.start;
  }

  get contentEnd(): number {
    return this.end;
  }

  /** Reads until the bytes or the chunks end, and says where that was. Moves the content together within `bytes`. */
  read(bytes: Buffer, from: number, length: number): number {
    let at = from;
    this.start = from;
    this.end = from;
    while (at < length && this.state !== 'last') {
      if (this.state === 'bytes') {
        at = this.takeContent(bytes, at, length);
      } else {
        this.takeFraming(bytes[at] ?? 0);
        at += 1;
      }
    }
    return at;
  }

  private takeContent(bytes: Buffer, at: number, length: number): number {
    const taken = Math.min(this.size, length - at);
    if (this.end === this.start) {
      this.start = at;
      this.end = at;
    } else {
      bytes.copyWithin(this.end, at, at + taken);
    }
    this.end += taken;
    this.size -= taken;
    if (this.size === 0) this.state = 'bytesEnd';
    return at + taken;
  }

  private takeFraming(byte: number): void {
    switch (this.state) {
      case 'size':
        this.takeSize(byte);
        return;
      case 'extension':
        this.takeExtension(byte);
        return;
      case 'sizeEnd':
        expect(byte, LF);
        this.state = this.size === 0 ? 'last' : 'bytes';
        return;
      case 'bytesEnd':
        expect(byte, CR);
        this.state = 'bytesEnded';
        return;
      case 'bytesEnded':
        expect(byte, LF);
        this.reset();
        return;
      case 'bytes':
      case 'last':
    }
  }

  private takeSize(byte: number): void {
    const digit = hexadecimal(byte);
    if (digit !== undefined) {
      this.digits += 1;
      if (this.digits > MAX_SIZE_DIGITS) throw badResponse('the size of a chunk has too many digits');
      this.size = this.size * 16 + digit;
      return;
    }
    if (this.digits === 0) throw badResponse('the size of a chunk is missing');
    if (byte === CR) this.state = 'sizeEnd';
    else if (byte === SEMICOLON) this.beginExtensions();
    else throw badResponse('the size of a chunk is not hexadecimal');
  }

  private beginExtensions(): void {
    this.state = 'extension';
    this.extensions = ';';
  }

  private takeExtension(byte: number): void {
    if (byte !== CR) {
      this.extensions += String.fromCharCode(byte);
      if (this.extensions.length > MAX_EXTENSION_BYTES) throw badResponse('a chunk has too many extensions');
      return;
    }
    if (!EXTENSIONS.test(this.extensions)) throw badResponse('the extension of a chunk is malformed');
    this.state = 'sizeEnd';
  }
}

function expect(byte: number, expected: number): void {
  if (byte !== expected) throw badResponse('a chunk does not end where it should');
}

function hexadecimal(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : undefined;
}
