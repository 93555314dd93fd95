// What a frame has to be, whatever it is about.

// The frames of HTTP/2 (RFC 9113 §4, §6, §7).

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

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
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
