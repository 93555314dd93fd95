import { Readable } from 'node:stream';

/** Whose turn it is: the client has to send, the upstream has to take, or all has been sent. */
export type BodyTurn = 'client' | 'upstream' | 'nobody';

export interface BodyWatcher {
  /** Once, before the first byte is asked for. */
  bodyWanted(): void;
  bodyTurn(turn: BodyTurn): void;
  /** While it is held back: so much has come that it is worth a connection to an upstream, or all of it. */
  bodyReady(): void;
  /** While it is held back: it will not come to its end. */
  bodyFailed(failure: BodyFailure): void;
}

export interface RequestBodyOptions {
  /** 0: no limit. */
  readonly maxBytes: number;
  /** How much is kept until somebody reads it. */
  readonly bufferBytes: number;
}

/** Why a body ended early, where that is the client's doing. */
export class BodyFailure extends Error {
  override name = 'BodyFailure';
  readonly code: 'BODY_TOO_LARGE' | 'BODY_TIMEOUT' | 'AMBIGUOUS_BODY' | 'CLIENT_GONE';

  constructor(code: BodyFailure['code']) {
    super(code);
    this.code = code;
  }
}

/**
 * Pieces that are smaller than this and arrive together are passed on as one: each write costs as much as many bytes.
 */
const SMALL_BYTES = 512;
const MAX_JOINED_PIECES = 1024;

/**
 * The body of a request on its way to an upstream. Reads the client only when it is wanted, so that little is buffered
 * here, and counts. Destroying it leaves the client's connection alone.
 */
export class RequestBody extends Readable {
  received = 0;
  private readonly source: Readable;
  private readonly maxBytes: number;
  private readonly watcher: BodyWatcher;
  private wanted = false;
  private held = false;
  /** Small ones that came in this turn of the event loop. */
  private pieces: Buffer[] = [];

  constructor(source: Readable, { maxBytes, bufferBytes }: RequestBodyOptions, watcher: BodyWatcher) {
    super({ highWaterMark: bufferBytes });
    this.source = source;
    this.maxBytes = maxBytes;
    this.watcher = watcher;
    // Whoever reads it hears of it, and before that the watcher does; without a listener it would end the process.
    this.on('error', ignore);
  }

  /**
   * Begins to read the client, before anybody wants what it sends: `bodyReady` or `bodyFailed` follows once, unless
   * `release` comes first.
   */
  hold(): void {
    this.held = true;
    this.read(0);
  }

  /** What has come is enough. */
  release(): void {
    if (!this.held) return;
    this.held = false;
    this.watcher.bodyReady();
  }

  override _read(): void {
    if (!this.wanted) {
      this.wanted = true;
      this.watcher.bodyWanted();
      this.source
        .on('data', this.arrived)
        .on('end', this.complete)
        .on('close', this.cutOff)
        .on('error', this.cutOff);
    }
    this.watcher.bodyTurn('client');
    this.source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.source.off('data', this.arrived).off('end', this.complete).off('close', this.cutOff);
    this.pieces = [];
    callback(error);
    if (this.held && error instanceof BodyFailure) this.watcher.bodyFailed(error);
    this.held = false;
  }

  private readonly arrived = (chunk: Buffer): void => {
    this.received += chunk.length;
    if (this.maxBytes > 0 && this.received > this.maxBytes) {
      this.source.pause();
      this.destroy(new BodyFailure('BODY_TOO_LARGE'));
    } else if (chunk.length < SMALL_BYTES) {
      if (this.pieces.push(chunk) === 1) setImmediate(this.join);
      else if (this.pieces.length >= MAX_JOINED_PIECES) this.join();
    } else {
      this.join();
      this.pass(chunk);
    }
  };

  private readonly join = (): void => {
    const { pieces } = this;
    const [first] = pieces;
    if (first === undefined || this.destroyed) return;
    this.pieces = [];
    this.pass(pieces.length === 1 ? first : Buffer.concat(pieces));
  };

  private pass(chunk: Buffer): void {
    if (this.push(chunk)) {
      this.watcher.bodyTurn('client');
      return;
    }
    this.source.pause();
    this.watcher.bodyTurn('upstream');
    this.release();
  }

  private readonly complete = (): void => {
    this.join();
    this.watcher.bodyTurn('nobody');
    this.push(null);
    this.release();
  };

  private readonly cutOff = (error?: Error): void => {
    if (this.readableEnded || this.source.readableEnded) return;
    this.destroy(error instanceof BodyFailure ? error : new BodyFailure('CLIENT_GONE'));
  };
}

function ignore(): void {
  // Nothing to do: see where it is used.
}
