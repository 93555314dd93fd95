import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';

interface RelayOptions {
  readonly client: Duplex;
  readonly upstream: Duplex;
  /** 0: never. */
  readonly idleTimeoutMs: number;
  /** Per direction. 0: no limit. */
  readonly maxBytes: number;
}

/** Why the gateway ended it; undefined if one of the two did. */
type RelayEnd = 'IDLE_TIMEOUT' | 'TRANSFER_LIMIT' | 'SHUTTING_DOWN' | undefined;

const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
/** From the close frame, or from the end of one direction, to the end of everything. */
const CLOSE_GRACE_MS = 1000;
const HALF_CLOSED_MS = 30_000;

/** Passes bytes between a client and an upstream, each as fast as the other takes them, until both have ended. */
export class Relay {
  private readonly options: RelayOptions;
  private readonly toUpstream: Direction;
  private readonly toClient: Direction;
  private readonly idle: NodeJS.Timeout | undefined;
  private readonly closing: Promise<RelayEnd>;
  private grace: NodeJS.Timeout | undefined;
  private reason: RelayEnd;

  constructor(options: RelayOptions) {
    const { client, upstream, idleTimeoutMs } = options;
    this.options = options;
    this.idle =
      idleTimeoutMs === 0 ? undefined : setTimeout(() => this.close('IDLE_TIMEOUT'), idleTimeoutMs).unref();
    this.toUpstream = this.direct(client, upstream, randomBytes(4));
    this.toClient = this.direct(upstream, client, undefined);
    this.closing = this.untilClosed();
  }

  get bytesFromClient(): number {
    return this.toUpstream.bytes;
  }

  get bytesToClient(): number {
    return this.toClient.bytes;
  }

  /** Resolves when both connections are closed. */
  async ended(): Promise<RelayEnd> {
    return this.closing;
  }

  /** Says goodbye to both sides, each after the frame that is just passing, and ends the connections. */
  close(reason: Exclude<RelayEnd, undefined>): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    const code = reason === 'TRANSFER_LIMIT' ? POLICY_VIOLATION : GOING_AWAY;
    for (const direction of [this.toUpstream, this.toClient]) direction.sayGoodbye(code);
    // Who is in the middle of a frame may finish it at a shutdown, which has a deadline of its own.
    if (reason !== 'SHUTTING_DOWN' || this.bothSaidGoodbye()) this.endWithin(CLOSE_GRACE_MS);
  }

  destroy(): void {
    this.options.client.destroy();
    this.options.upstream.destroy();
  }

  private direct(from: Duplex, to: Duplex, mask: Uint8Array | undefined): Direction {
    return new Direction(from, to, {
      mask,
      maxBytes: this.options.maxBytes,
      onActivity: () => this.idle?.refresh(),
      onLimit: () => this.close('TRANSFER_LIMIT'),
      onGoodbye: () => {
        if (this.bothSaidGoodbye()) this.endWithin(CLOSE_GRACE_MS);
      },
      onEnd: () => this.endWithin(HALF_CLOSED_MS),
    });
  }

  private bothSaidGoodbye(): boolean {
    return this.toUpstream.saidGoodbye && this.toClient.saidGoodbye;
  }

  private endWithin(ms: number): void {
    clearTimeout(this.grace);
    this.grace = setTimeout(() => this.destroy(), ms);
  }

  private async untilClosed(): Promise<RelayEnd> {
    const { client, upstream } = this.options;
    await Promise.all([closed(client, upstream), closed(upstream, client)]);
    clearTimeout(this.idle);
    clearTimeout(this.grace);
    return this.reason;
  }
}

interface DirectionOptions {
  /** What a close frame in this direction is masked with. */
  readonly mask: Uint8Array | undefined;
  readonly maxBytes: number;
  readonly onActivity: () => void;
  readonly onLimit: () => void;
  readonly onGoodbye: () => void;
  readonly onEnd: () => void;
}

class Direction {
  private readonly from: Duplex;
  private readonly to: Duplex;
  private readonly options: DirectionOptions;
  private readonly frames = new FrameTracker();
  private passed = 0;
  private goodbyeCode: number | undefined;
  private goodbyeSaid = false;

  constructor(from: Duplex, to: Duplex, options: DirectionOptions) {
    this.from = from;
    this.to = to;
    this.options = options;
    from.on('data', (chunk: Buffer) => this.pass(chunk));
    from.once('end', () => {
      to.end();
      options.onEnd();
    });
    to.on('drain', () => from.resume());
  }

  get bytes(): number {
    return this.passed;
  }

  get saidGoodbye(): boolean {
    return this.goodbyeSaid;
  }

  /** As soon as no frame is in the way, puts a close frame of our own; what comes later is not passed on. */
  sayGoodbye(code: number): void {
    this.goodbyeCode = code;
    if (this.frames.atBoundary) this.goodbye(code);
  }

  private goodbye(code: number): void {
    this.goodbyeSaid = true;
    // They said it themselves already.
    if (!this.frames.closed && !this.to.writableEnded) this.to.write(closeFrame(code, this.options.mask));
    this.options.onGoodbye();
  }

  private pass(chunk: Buffer): void {
    this.options.onActivity();
    if (this.goodbyeSaid) {
      // Our close frame went the other way, and this may be the answer to it: then the connection can go.
      this.frames.advance(chunk);
      if (this.frames.closed) this.from.end();
      return;
    }
    const { maxBytes } = this.options;
    if (maxBytes > 0 && this.passed + chunk.length > maxBytes) {
      this.options.onLimit();
      return;
    }
    const length = this.frames.advance(chunk, { toBoundary: this.goodbyeCode !== undefined });
    const passed = length === chunk.length ? chunk : chunk.subarray(0, length);
    this.passed += passed.length;
    if (!this.to.write(passed)) this.from.pause();
    if (this.goodbyeCode !== undefined && this.frames.atBoundary) this.goodbye(this.goodbyeCode);
  }
}

/**
 * Resolves when a connection is closed. One that breaks takes the other with it; one that ends lets the other end too.
 */
async function closed(connection: Duplex, other: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      if (connection.readableEnded) other.end();
      else other.destroy();
      resolve();
    };
    if (connection.destroyed) done();
    else connection.once('close', done);
    connection.on('error', () => {});
  });
}

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

  /**
   * Reads a chunk, or with `toBoundary` only as far as the first place between two frames; answers how many bytes that
   * is.
   */
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
