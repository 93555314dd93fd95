const CLOSE = 8;
const BASE_BYTES = 2;
const MASK_BYTES = 4;
const MASKED = 0x80;

/** Follows the frames of a WebSocket (RFC 6455 §5.2) that passes by, to know where one of our own may stand. */
export class FrameTracker {
  /** Bytes of the header that have passed, and how many it has; known from its second byte on. */
  private headerSeen = 0;
  private headerSize = BASE_BYTES;
  private lengthEnd = BASE_BYTES;
  private length = 0;
  private payloadLeft = 0;
  private opcode = 0;
  private closeSeen = false;

  /** A frame has just ended, or none has begun. */
  get atBoundary(): boolean {
    return this.headerSeen === 0 && this.payloadLeft === 0;
  }

  /** A whole close frame has passed: nothing may follow it. */
  get closed(): boolean {
    return this.closeSeen;
  }

  /** Reads a chunk, or with `toBoundary` only as far as the first place between two frames; answers how many bytes that is. */
  advance(chunk: Uint8Array, { toBoundary = false }: { readonly toBoundary?: boolean } = {}): number {
    let at = 0;
    while (at < chunk.length) {
      if (toBoundary && this.atBoundary) return at;
      if (this.payloadLeft > 0) {
        const bytes = Math.min(this.payloadLeft, chunk.length - at);
        this.payloadLeft -= bytes;
        at += bytes;
      } else {
        this.readHeader(chunk[at] ?? 0);
        at += 1;
      }
      if (this.opcode === CLOSE && this.atBoundary) this.closeSeen = true;
    }
    return at;
  }

  private readHeader(byte: number): void {
    if (this.headerSeen === 0) {
      this.opcode = byte & 0x0f;
    } else if (this.headerSeen === 1) {
      const length = byte & ~MASKED;
      this.lengthEnd = BASE_BYTES + (length === 126 ? 2 : length === 127 ? 8 : 0);
      this.headerSize = this.lengthEnd + ((byte & MASKED) === 0 ? 0 : MASK_BYTES);
      this.length = this.lengthEnd === BASE_BYTES ? length : 0;
    } else if (this.headerSeen < this.lengthEnd) {
      // Above 2^53 a number is not exact; that many bytes never pass.
      this.length = this.length * 256 + byte;
    }
    this.headerSeen += 1;
    if (this.headerSeen < BASE_BYTES || this.headerSeen < this.headerSize) return;
    this.headerSeen = 0;
    this.payloadLeft = this.length;
  }
}

/** A close frame with a code; one that a client sends is masked. */
export function closeFrame(code: number, mask?: Uint8Array): Buffer {
  const payload = [code >> 8, code & 0xff];
  if (mask === undefined) return Buffer.from([0x88, payload.length, ...payload]);
  const masked = payload.map((byte, index) => byte ^ (mask[index] ?? 0));
  return Buffer.from([0x88, MASKED | payload.length, ...mask, ...masked]);
}
