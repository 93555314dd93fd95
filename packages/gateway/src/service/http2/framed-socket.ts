// Frames of HTTP/2 over a socket: what comes is cut into frames, and what is sent in one turn leaves in one piece.
import type { Duplex } from 'node:stream';
import { ConnectionFault, ERROR, HEAD_BYTES, MAX_PAYLOAD_BYTES, MAX_STREAM_ID, PREFACE } from './frames.ts';

export interface FrameListener {
  frame(type: number, flags: number, stream: number, payload: Buffer): void;
  /** What `frame` threw, or what came is no frame. Nothing more is read. */
  fault(failure: unknown): void;
  /** Nothing comes any more, nor can anything be sent. */
  closed(): void;
}

/** With so much unsent, nothing more is read: whoever does not take the answers gets no others. */
const MAX_UNSENT_BYTES = 2 ** 20;
/** How long a peer has to take what was sent to it, and to close. */
const END_GRACE_MS = 10_000;
const NOTHING = Buffer.alloc(0);

export class FramedSocket {
  readonly socket: Duplex;
  private readonly listener: FrameListener;
  private rest: Buffer = NOTHING;
  private greeted = false;
  private unsent: Buffer[] = [];
  private unsentBytes = 0;
  private flushing = false;
  private stopped = false;
  private ended = false;
  private isClosed = false;

  constructor(socket: Duplex, listener: FrameListener) {
    this.socket = socket;
    this.listener = listener;
    socket.on('data', (chunk: Buffer) => this.read(chunk));
    socket.on('drain', () => void socket.resume());
    socket.on('end', () => this.close());
    // 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => this.close());
  }

  send(bytes: Buffer): void {
    if (this.isClosed) return;
    this.unsent.push(bytes);
    this.unsentBytes += bytes.length;
    // Many reads may come before the turn ends.
    if (this.unsentBytes >= MAX_UNSENT_BYTES) this.flush();
    if (this.flushing) return;
    this.flushing = true;
    setImmediate(flush, this);
  }

  /** Ends behind what was sent. What still comes is not read. */
  end(): void {
    if (this.isClosed || this.ended) return;
    this.ended = true;
    this.stopped = true;
    this.flush();
    this.endSocket();
  }

  /** @internal */
  flush(): void {
    this.flushing = false;
    const { unsent, socket } = this;
    const [only] = unsent;
    if (only === undefined) return;
    this.unsent = [];
    this.unsentBytes = 0;
    if (!socket.writable) return;
    socket.write(unsent.length === 1 ? only : Buffer.concat(unsent));
    if (socket.writableLength >= MAX_UNSENT_BYTES) socket.pause();
  }

  private read(chunk: Buffer): void {
    if (this.stopped) return;
    try {
      this.readFrames(this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]));
    } catch (failure) {
      this.stopped = true;
      this.listener.fault(failure);
    }
  }

  private readFrames(bytes: Buffer): void {
    let at = this.greeted ? 0 : this.greet(bytes);
    while (this.greeted && !this.stopped && bytes.length - at >= HEAD_BYTES) {
      const length = bytes.readUIntBE(at, 3);
      if (length > MAX_PAYLOAD_BYTES)
        throw new ConnectionFault(ERROR.frameSize, `a frame has ${length} bytes`);
      const start = at + HEAD_BYTES;
      if (bytes.length - start < length) break;
      const stream = bytes.readUInt32BE(at + 5) & MAX_STREAM_ID;
      const [type, flags] = [bytes[at + 3] ?? 0, bytes[at + 4] ?? 0];
      at = start + length;
      this.listener.frame(type, flags, stream, bytes.subarray(start, at));
    }
    this.rest = at === bytes.length ? NOTHING : bytes.subarray(at);
  }

  /** How much of the bytes is the greeting of a client. */
  private greet(bytes: Buffer): number {
    const compared = Math.min(bytes.length, PREFACE.length);
    if (!bytes.subarray(0, compared).equals(PREFACE.subarray(0, compared)))
      throw new ConnectionFault(ERROR.protocol, 'this is not HTTP/2');
    this.greeted = compared === PREFACE.length;
    return this.greeted ? compared : 0;
  }

  private close(): void {
    if (this.isClosed) return;
    // A peer that sends nothing more gets what is decided already.
    this.flush();
    this.isClosed = true;
    this.stopped = true;
    if (!this.ended && !this.socket.destroyed) this.endSocket();
    this.listener.closed();
  }

  private endSocket(): void {
    const { socket } = this;
    socket.end();
    const timer = setTimeout(() => socket.destroy(), END_GRACE_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  }
}

/** Behind all that is decided in this turn: what belongs together leaves in one piece. */
function flush(socket: FramedSocket): void {
  socket.flush();
}
