// One call on a connection of HTTP/2: its windows, and what is sent and read of it.
import {
  ERROR,
  FLAG,
  FRAME,
  frameOf,
  HEAD_BYTES,
  MAX_PAYLOAD_BYTES,
  MAX_WINDOW,
  numberFrame,
  writeHead,
} from './frames.ts';
import type { CallHead } from './call-head.ts';

/** Who serves a call. */
export interface StreamListener {
  /** A piece of the body. Whoever keeps it says later, by `credit`, that it is used; true: it is used already. */
  data(chunk: Buffer): boolean;
  /** The body is complete. */
  end(): void;
  /** The call is over; `code`: the one that it was reset with. */
  closed(code: number | undefined): void;
}

/** What a stream needs of its connection. */
export interface StreamCarrier {
  /** How much of all bodies the peer takes now. */
  sendWindow: number;
  readonly send: (bytes: Buffer) => void;
  /** So many bytes of bodies were used: the peer may send as many more. */
  readonly credit: (bytes: number) => void;
  /** There are so many more bytes of bodies that are not complete, or less. */
  readonly hold: (bytes: number) => void;
  readonly forget: (stream: ServiceStream) => void;
  /** Resets a call for what the peer did; who does that too often is cut off. */
  readonly breakCall: (stream: ServiceStream, code: number) => void;
}

/** The peer is told in steps of this size that it may send more. */
const CREDIT_STEP = 32_768;
/** What may still come of a body after the answer, before the call is reset. */
const MAX_LEFTOVER_BYTES = 2 ** 20;

interface StreamStart {
  readonly id: number;
  readonly head: CallHead;
  readonly sendWindow: number;
  readonly receiveWindow: number;
}

export class ServiceStream {
  readonly id: number;
  readonly head: CallHead;
  listener: StreamListener | undefined;
  sendWindow: number;
  remoteEnded = false;
  /** Nothing can be sent any more. */
  isOver = false;
  headersSent = false;
  private readonly carrier: StreamCarrier;
  private receiveWindow: number;
  private used = 0;
  private received = 0;
  /** Of the body, while it is not complete. */
  private held = 0;
  private localEnded = false;
  /** What waits until the peer takes more. */
  private waiting: WaitingChunk[] = [];
  /** How it ends behind that; undefined: not yet. */
  private ending: { readonly trailers: Buffer | undefined } | undefined;

  constructor(carrier: StreamCarrier, { id, head, sendWindow, receiveWindow }: StreamStart) {
    this.carrier = carrier;
    this.id = id;
    this.head = head;
    this.sendWindow = sendWindow;
    this.receiveWindow = receiveWindow;
  }

  /** The whole answer at once: two blocks of headers, and a body between them. */
  answer(headers: Buffer, body: Buffer, trailers: Buffer): void {
    if (this.isOver || this.headersSent) return;
    const { length } = body;
    if (length > this.sendWindow || length > this.carrier.sendWindow || length > MAX_PAYLOAD_BYTES) {
      this.respond(headers, false);
      this.write(body);
      this.finish(trailers);
      return;
    }
    this.headersSent = true;
    this.sendWindow -= length;
    this.carrier.sendWindow -= length;
    const { id: stream } = this;
    const bytes = Buffer.allocUnsafe(3 * HEAD_BYTES + headers.length + length + trailers.length);
    writeHead(bytes, 0, { type: FRAME.headers, flags: FLAG.endHeaders, stream, length: headers.length });
    bytes.set(headers, HEAD_BYTES);
    let at = HEAD_BYTES + headers.length;
    writeHead(bytes, at, { type: FRAME.data, flags: 0, stream, length });
    bytes.set(body, at + HEAD_BYTES);
    at += HEAD_BYTES + length;
    writeHead(bytes, at, { type: FRAME.headers, flags: LAST_HEADERS, stream, length: trailers.length });
    bytes.set(trailers, at + HEAD_BYTES);
    this.carrier.send(bytes);
    this.endLocally();
  }

  /** Headers of an answer that is still to come. */
  inform(headers: Buffer): void {
    if (!this.isOver && !this.headersSent) this.sendHeaders(headers, false);
  }

  /** `isLast`: there is no body. */
  respond(headers: Buffer, isLast: boolean): void {
    if (this.isOver || this.headersSent) return;
    this.headersSent = true;
    this.sendHeaders(headers, isLast);
    if (isLast) this.endLocally();
  }

  /** `sent` is called when the peer has taken all of it, or when that cannot happen any more. */
  write(bytes: Buffer, sent?: () => void): void {
    if (this.isOver || this.localEnded) sent?.();
    else {
      this.waiting.push({ bytes, sent });
      this.pump();
    }
  }

  finish(trailers?: Buffer): void {
    if (this.isOver || this.localEnded || this.ending !== undefined) return;
    this.ending = { trailers };
    this.pump();
  }

  /** Breaks the call off. */
  reset(code: number): void {
    if (this.isOver) return;
    this.carrier.send(numberFrame(FRAME.reset, this.id, code));
    this.close(code);
  }

  /** So many bytes that `data` kept are used. */
  credit(bytes: number): void {
    this.carrier.credit(bytes);
    if (this.isOver || this.remoteEnded) return;
    this.used += bytes;
    if (this.used < CREDIT_STEP) return;
    this.carrier.send(numberFrame(FRAME.windowUpdate, this.id, this.used));
    this.receiveWindow += this.used;
    this.used = 0;
  }

  /** @internal A piece of the body came; `padding` counts for windows and is nobody's. */
  take(chunk: Buffer, padding: number): void {
    const bytes = chunk.length + padding;
    this.receiveWindow -= bytes;
    this.received += chunk.length;
    const { contentLength = Infinity } = this.head;
    if (this.receiveWindow < 0) this.refuse(ERROR.flowControl, bytes);
    else if (this.received > contentLength) this.refuse(ERROR.protocol, bytes);
    else if (this.localEnded && this.received > MAX_LEFTOVER_BYTES) this.refuse(ERROR.none, bytes);
    else {
      this.carrier.hold(chunk.length);
      this.held += chunk.length;
      const isUsed = this.localEnded || chunk.length === 0 || this.listener?.data(chunk) !== false;
      const usedBytes = isUsed ? bytes : padding;
      if (usedBytes > 0) this.credit(usedBytes);
    }
  }

  /** @internal The body is complete. */
  endRemotely(): void {
    if (this.isOver) return;
    this.remoteEnded = true;
    this.release();
    const { contentLength } = this.head;
    if (contentLength !== undefined && contentLength !== this.received) {
      this.carrier.breakCall(this, ERROR.protocol);
    } else if (this.localEnded) this.close(undefined);
    else this.listener?.end();
  }

  /** @internal The peer takes more; false: more than there can be. */
  widen(bytes: number): boolean {
    this.sendWindow += bytes;
    if (this.sendWindow > MAX_WINDOW) return false;
    this.pump();
    return true;
  }

  /** @internal It is over: nothing is sent any more. */
  close(code: number | undefined): void {
    if (this.isOver) return;
    this.isOver = true;
    this.release();
    this.carrier.forget(this);
    const left = this.waiting;
    this.waiting = [];
    for (const { sent } of left) sent?.();
    this.listener?.closed(code);
  }

  /** @internal Sends what the windows have room for. */
  pump(): void {
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const { bytes, sent } = first;
      const room = Math.min(bytes.length, MAX_PAYLOAD_BYTES, this.sendWindow, this.carrier.sendWindow);
      if (room <= 0 && bytes.length > 0) return;
      if (room > 0) this.sendData(bytes.subarray(0, room));
      if (room < bytes.length) this.waiting[0] = { bytes: bytes.subarray(room), sent };
      else {
        this.waiting.shift();
        sent?.();
      }
    }
    if (this.ending === undefined || this.localEnded) return;
    const { trailers } = this.ending;
    if (trailers === undefined) this.carrier.send(frameOf(FRAME.data, FLAG.endStream, this.id));
    else this.sendHeaders(trailers, true);
    this.endLocally();
  }

  private sendData(bytes: Buffer): void {
    this.sendWindow -= bytes.length;
    this.carrier.sendWindow -= bytes.length;
    this.carrier.send(frameOf(FRAME.data, 0, this.id, bytes));
  }

  /** In as many frames as it takes. */
  private sendHeaders(block: Buffer, isLast: boolean): void {
    let type: number = FRAME.headers;
    let flags: number = isLast ? FLAG.endStream : 0;
    let at = 0;
    do {
      const piece = block.subarray(at, at + MAX_PAYLOAD_BYTES);
      at += piece.length;
      if (at === block.length) flags += FLAG.endHeaders;
      this.carrier.send(frameOf(type, flags, this.id, piece));
      type = FRAME.continuation;
      flags = 0;
    } while (at < block.length);
  }

  private endLocally(): void {
    this.localEnded = true;
    if (this.remoteEnded) this.close(undefined);
  }

  private release(): void {
    this.carrier.hold(-this.held);
    this.held = 0;
  }

  private refuse(code: number, bytes: number): void {
    this.carrier.credit(bytes);
    if (code === ERROR.none) this.reset(code);
    else this.carrier.breakCall(this, code);
  }
}

const LAST_HEADERS = FLAG.endHeaders | FLAG.endStream;

interface WaitingChunk {
  readonly bytes: Buffer;
  readonly sent: (() => void) | undefined;
}
