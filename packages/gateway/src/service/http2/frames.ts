// The frames of HTTP/2 (RFC 9113 §4, §6, §7), what they have to be whatever they are about, and the socket over which
// they come: what is sent in one turn leaves in one piece.
import type { Duplex } from 'node:stream';

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

export const ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const;

export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
export const HEAD_BYTES = 9;
/** The largest payload until somebody asks for more; we do not. */
export const MAX_PAYLOAD_BYTES = 16_384;
export const FIRST_WINDOW = 65_535;
export const MAX_WINDOW = 2 ** 31 - 1;
export const MAX_STREAM_ID = 2 ** 31 - 1;

/** The peer broke the protocol: the connection ends with this code. */
export class ConnectionFault extends Error {
  readonly code: number;

  constructor(code: number, why: string) {
    super(why);
    this.code = code;
  }
}

/** The head of a frame, to be written at `at`. */
interface FrameHead {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly length: number;
}

export function writeHead(bytes: Buffer, at: number, { type, flags, stream, length }: FrameHead): void {
  bytes[at] = length >> 16;
  bytes[at + 1] = length >> 8;
  bytes[at + 2] = length;
  bytes[at + 3] = type;
  bytes[at + 4] = flags;
  writeUint32(bytes, at + 5, stream);
}

function writeUint32(bytes: Buffer, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

export function frameOf(type: number, flags: number, stream: number, payload: Buffer = NOTHING): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  writeHead(bytes, 0, { type, flags, stream, length: payload.length });
  bytes.set(payload, HEAD_BYTES);
  return bytes;
}

/** A frame of four bytes: RST_STREAM or WINDOW_UPDATE. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + 4);
  writeHead(bytes, 0, { type, flags: 0, stream, length: 4 });
  writeUint32(bytes, HEAD_BYTES, value);
  return bytes;
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(6 * settings.length);
  for (const [at, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, 6 * at);
    payload.writeUInt32BE(value, 6 * at + 2);
  }
  return frameOf(FRAME.settings, 0, 0, payload);
}

export function goawayFrame(lastStream: number, code: number): Buffer {
  const payload = Buffer.allocUnsafe(8);
  writeUint32(payload, 0, lastStream);
  writeUint32(payload, 4, code);
  return frameOf(FRAME.goaway, 0, 0, payload);
}

const NOTHING = Buffer.alloc(0);

export function requireConnection(stream: number): void {
  if (stream !== 0) throw new ConnectionFault(ERROR.protocol, 'a frame of the connection names a stream');
}

/** We use no table, and never send more in a frame than everybody takes: of what is allowed, only windows matter. */
export function requireSetting(id: number, value: number): void {
  if (id === SETTING.enablePush && value > 1)
    throw new ConnectionFault(ERROR.protocol, `ENABLE_PUSH is ${value}`);
  if (id === SETTING.maxFrameSize && (value < MAX_PAYLOAD_BYTES || value >= 2 ** 24))
    throw new ConnectionFault(ERROR.protocol, `MAX_FRAME_SIZE is ${value}`);
  if (id === SETTING.initialWindowSize && value > MAX_WINDOW)
    throw new ConnectionFault(ERROR.flowControl, `INITIAL_WINDOW_SIZE is ${value}`);
}

export function requireLength(fits: boolean): void {
  if (!fits) throw new ConnectionFault(ERROR.frameSize, 'a frame has a length that it cannot have');
}

/** What stands between the length of the padding and the padding (RFC 9113 §6.1). */
export function unpadded(payload: Buffer): Buffer {
  const padding = payload[0];
  if (padding === undefined) throw new ConnectionFault(ERROR.frameSize, 'a padded frame is empty');
  if (padding >= payload.length)
    throw new ConnectionFault(ERROR.protocol, 'there is more padding than payload');
  return payload.subarray(1, payload.length - padding);
}

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
