// HTTP/2 by the byte: frames as RFC 9113 writes them, headers in HPACK without compression.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export const TYPE = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;
export const END_STREAM = 1;
export const END_HEADERS = 4;
export const ACK = 1;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Literal headers that are not indexed (RFC 7541 §6.2.2), so that every byte is as given. */
export function hpack(headers: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(headers.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length: number[] = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128);
  return Buffer.concat([Buffer.from([...length, rest]), bytes]);
}

export const PSEUDO: readonly (readonly [string, string])[] = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':path', '/x'],
  [':authority', 'a'],
];

/** The usual pseudo-headers, but one of them with another value. */
export const replaced = (name: string, value: string): readonly (readonly [string, string])[] =>
  PSEUDO.map(([each, old]) => [each, each === name ? value : old] as const);

export function headersFrame(
  stream: number,
  headers: readonly (readonly [string, string])[],
  flags = END_STREAM | END_HEADERS,
): Buffer {
  return frame(TYPE.headers, flags, stream, hpack(headers));
}

/** A client that sends frames as it is told, and keeps those it gets. */
export class FrameClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  closed = false;
  private rest = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => this.take(chunk));
    socket.on('close', () => (this.closed = true));
    socket.on('error', () => undefined);
  }

  static async connect(port: number, settings: Buffer = Buffer.alloc(0)): Promise<FrameClient> {
    const socket = connect({ port, host: '127.0.0.1' });
    const client = new FrameClient(socket);
    await once(socket, 'connect');
    onTestFinished(() => void socket.destroy());
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(frame(TYPE.settings, 0, 0, settings));
    return client;
  }

  send(...frames: readonly Buffer[]): this {
    this.socket.write(Buffer.concat(frames));
    return this;
  }

  find(type: number, stream?: number): Frame | undefined {
    return this.frames.find((each) => each.type === type && (stream === undefined || each.stream === stream));
  }

  /** The error code of the first GOAWAY. */
  get goaway(): number | undefined {
    return this.find(TYPE.goaway)?.payload.readUInt32BE(4);
  }

  private take(chunk: Buffer): void {
    this.rest = Buffer.concat([this.rest, chunk]);
    while (this.rest.length >= 9) {
      const length = this.rest.readUIntBE(0, 3);
      if (this.rest.length < 9 + length) return;
      this.frames.push({
        type: this.rest.readUInt8(3),
        flags: this.rest.readUInt8(4),
        stream: this.rest.readUInt32BE(5),
        payload: this.rest.subarray(9, 9 + length),
      });
      this.rest = this.rest.subarray(9 + length);
    }
  }
}
