import {
  badResponse,
  MAX_HEAD_BYTES,
  parseHead,
  parseTrailers,
  type AskedFor,
  type ResponseHead,
} from './response-head.ts';

/** Who hears what was read. Whatever it throws comes out of `read` and `end`. */
export interface ResponseListener {
  /** Of the answer, and of each 1xx before it. */
  head(head: ResponseHead): void;
  /** The chunk is the listener's own. */
  data(chunk: Buffer): void;
  /** The last call. `clean`: not a byte came after the response. */
  complete(trailers: readonly string[], clean: boolean): void;
  /** The last call after a 101 that was asked for: what follows is not HTTP, and `rest` is what came of it so far. */
  upgraded(head: ResponseHead, rest: Buffer): void;
}

const MAX_INFORMATIONAL = 32;
const EMPTY_LINE = '\r\n';
const BLOCK_END = '\r\n\r\n';
const NO_TRAILERS: readonly string[] = [];
const VERSION = 'HTTP/1.';
/** A line that does not end with CR LF, or a byte that no head has. */
const NO_HEAD = /[^\r]\n|\r[^\n]|[^\t\n\r -~\x80-\xff]/;

type ParserState = 'nothing' | 'upgraded' | 'head' | 'length' | 'chunked' | 'trailers' | 'close';

/**
 * Reads one response after the other. An error that it throws is final: nothing is known about the rest of the bytes.
 */
export class ResponseParser {
  private readonly listener: ResponseListener;
  private readonly chunks = new ChunkedBody();
  private state: ParserState = 'nothing';
  private asked: AskedFor = { method: '', mayUpgrade: false };
  /** Of a head or of trailers that have not arrived whole. */
  private text = '';
  private left = 0;
  private informational = 0;
  private trailers = NO_TRAILERS;

  constructor(listener: ResponseListener) {
    this.listener = listener;
  }

  /** The response to such a request comes next. */
  expect(asked: AskedFor): void {
    this.asked = asked;
    this.state = 'head';
    this.text = '';
    this.informational = 0;
    this.trailers = NO_TRAILERS;
  }

  /** Reads the first `length` bytes, and may move them around. */
  read(bytes: Buffer, length: number): void {
    if (!this.isExpected()) throw badResponse('nobody asked for it');
    let at = 0;
    // Every step takes bytes or ends the response.
    while (at < length && this.isExpected()) at = this.step(bytes, at, length);
    if (!this.isExpected()) this.listener.complete(this.trailers, at === length);
  }

  /** The server will send nothing more: throws unless that is how this response ends. */
  end(): void {
    if (this.state !== 'close') throw badResponse('it breaks off');
    this.state = 'nothing';
    this.listener.complete(NO_TRAILERS, true);
  }

  /** Whether the end of the connection is the end of the response. */
  get endsWithConnection(): boolean {
    return this.state === 'close';
  }

  private isExpected(): boolean {
    return this.state !== 'nothing';
  }

  private step(bytes: Buffer, at: number, length: number): number {
    switch (this.state) {
      case 'head':
        return this.readHead(bytes, at, length);
      case 'length':
        return this.readLength(bytes, at, length);
      case 'chunked':
        return this.readChunks(bytes, at, length);
      case 'trailers':
        return this.readTrailers(bytes, at, length);
      case 'close':
        this.listener.data(copyOf(bytes, at, length));
        break;
      case 'upgraded':
        throw badResponse('it is not HTTP any more');
      case 'nothing':
    }
    return length;
  }

  private readHead(bytes: Buffer, at: number, length: number): number {
    const known = this.text.length;
    const text = this.withMore(bytes, at, length);
    const end = text.indexOf(BLOCK_END, Math.max(0, known - 3));
    if (end === -1) {
      if (
        !text.startsWith(VERSION.slice(0, text.length)) ||
        NO_HEAD.test(text.slice(Math.max(0, known - 1)))
      ) {
        throw badResponse('its head is not one of HTTP/1');
      }
      return this.keep(text, at, length);
    }
    this.text = '';
    const head = parseHead(text.slice(0, end + 2), this.asked);
    if (head.status === 101) return this.upgrade(head, copyOf(bytes, at + end + 4 - known, length), length);
    this.begin(head);
    this.listener.head(head);
    return at + end + 4 - known;
  }

  private upgrade(head: ResponseHead, rest: Buffer, length: number): number {
    this.state = 'upgraded';
    this.listener.upgraded(head, rest);
    return length;
  }

  private begin({ status, framing, length }: ResponseHead): void {
    if (status < 200) {
      this.informational += 1;
      if (this.informational > MAX_INFORMATIONAL) {
        throw badResponse(`more than ${MAX_INFORMATIONAL} responses come before the answer`);
      }
      return;
    }
    this.left = length;
    this.chunks.reset();
    this.state = framing === 'none' || (framing === 'length' && length === 0) ? 'nothing' : framing;
  }

  private readLength(bytes: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.left);
    this.left -= end - at;
    if (this.left === 0) this.state = 'nothing';
    this.listener.data(copyOf(bytes, at, end));
    return end;
  }

  private readChunks(bytes: Buffer, at: number, length: number): number {
    const { chunks } = this;
    try {
      return chunks.read(bytes, at, length);
    } finally {
      if (chunks.finished) this.state = 'trailers';
      // Also what came before a chunk that is none.
      if (chunks.contentEnd > chunks.contentStart) {
        this.listener.data(copyOf(bytes, chunks.contentStart, chunks.contentEnd));
      }
    }
  }

  private readTrailers(bytes: Buffer, at: number, length: number): number {
    const known = this.text.length;
    const text = this.withMore(bytes, at, length);
    if (text.startsWith(EMPTY_LINE)) {
      this.state = 'nothing';
      return at + EMPTY_LINE.length - known;
    }
    const end = text.indexOf(BLOCK_END, Math.max(0, known - 3));
    if (end === -1) {
      if (text.startsWith('\n') || NO_HEAD.test(text.slice(Math.max(0, known - 1))))
        throw badResponse('its trailers are malformed');
      return this.keep(text, at, length);
    }
    this.trailers = parseTrailers(text.slice(0, end + 2));
    this.state = 'nothing';
    return at + end + 4 - known;
  }

  /** What is known of a head, with as much of the new bytes as a head may have. */
  private withMore(bytes: Buffer, at: number, length: number): string {
    const { text } = this;
    const end = Math.min(length, at + MAX_HEAD_BYTES - text.length);
    return text + bytes.toString('latin1', at, end);
  }

  private keep(text: string, at: number, length: number): number {
    if (text.length >= MAX_HEAD_BYTES) throw badResponse(`its head is larger than ${MAX_HEAD_BYTES} bytes`);
    const taken = text.length - this.text.length;
    this.text = text;
    return Math.min(length, at + taken);
  }
}

/** The bytes are overwritten by whatever arrives next, perhaps on another connection. */
function copyOf(bytes: Buffer, start: number, end: number): Buffer {
  const copy = Buffer.allocUnsafe(end - start);
  bytes.copy(copy, 0, start, end);
  return copy;
}

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
class ChunkedBody {
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
