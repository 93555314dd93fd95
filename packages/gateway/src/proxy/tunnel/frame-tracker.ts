const CLOSE = 8;
const BASE_BYTES = 2;
const MASK_BYTES = 4;
const MASKED = 0x80;

/** Follows the frames of a WebSocket (RFC 6455 §5.2) that passes by, to know where one of our own may stand. */
export class FrameTracker {
  readonly #header: number[] = [];
  #payloadLeft = 0;
  #opcode = 0;
  #closed = false;

  /** A frame has just ended, or none has begun. */
  get atBoundary(): boolean {
    return this.#header.length === 0 && this.#payloadLeft === 0;
  }

  /** A whole close frame has passed: nothing may follow it. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Reads a chunk, or with `toBoundary` only as far as the first place between two frames; answers how many bytes that is. */
  advance(chunk: Uint8Array, { toBoundary = false }: { readonly toBoundary?: boolean } = {}): number {
    let at = 0;
    while (at < chunk.length) {
      if (toBoundary && this.atBoundary) return at;
      if (this.#payloadLeft > 0) {
        const bytes = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= bytes;
        at += bytes;
      } else {
        this.#header.push(chunk[at] ?? 0);
        at += 1;
        this.#finishHeader();
      }
      if (this.atBoundary && this.#opcode === CLOSE) this.#closed = true;
    }
    return at;
  }

  #finishHeader(): void {
    const [first = 0, second = 0] = this.#header;
    const length = second & ~MASKED;
    const lengthBytes = length === 126 ? 2 : length === 127 ? 8 : 0;
    const size = BASE_BYTES + lengthBytes + ((second & MASKED) === 0 ? 0 : MASK_BYTES);
    if (this.#header.length < Math.max(size, BASE_BYTES)) return;
    const extended = this.#header.slice(BASE_BYTES, BASE_BYTES + lengthBytes);
    this.#opcode = first & 0x0f;
    // Above 2^53 a number is not exact; that many bytes never pass.
    this.#payloadLeft = lengthBytes === 0 ? length : extended.reduce((sum, byte) => sum * 256 + byte, 0);
    this.#header.length = 0;
  }
}

/** A close frame with a code; one that a client sends is masked. */
export function closeFrame(code: number, mask?: Uint8Array): Buffer {
  const payload = [code >> 8, code & 0xff];
  if (mask === undefined) return Buffer.from([0x88, payload.length, ...payload]);
  const masked = payload.map((byte, index) => byte ^ (mask[index] ?? 0));
  return Buffer.from([0x88, MASKED | payload.length, ...mask, ...masked]);
}
