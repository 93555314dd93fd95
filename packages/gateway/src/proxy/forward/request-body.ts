import { Readable } from 'node:stream';
import { BodyScan, type BodyFacts, type BodyReading } from '../../cost/body-fields.ts';

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

/** How much of a body is known before it is read. */
interface PeekOptions {
  readonly reading: BodyReading;
  /** As it was announced; undefined if it was not. */
  readonly length: number | undefined;
  readonly timeoutMs: number;
  readonly timedOut: () => void;
}

/**
 * A body whose beginning was read for the rules. Whoever reads it gets all of it, byte by byte as it came; what follows
 * is looked at as it passes, so that nobody says one thing to the rules and another to the backend.
 */
export class PeekedBody extends Readable {
  private readonly source: Readable;
  private readonly scan: BodyScan;
  private kept: Buffer[] = [];
  private keptBytes = 0;
  /** Came behind the bound: it is not for the rules. */
  private unread: Buffer | undefined;
  private following = false;

  constructor(source: Readable, reading: BodyReading) {
    super();
    this.source = source;
    this.scan = new BodyScan(reading);
    // Whoever reads it hears of it; without a listener it would end the process.
    this.on('error', () => undefined);
  }

  /** Reads up to the bound, or to the end. Never rejects: a client that goes away has said what it has said. */
  async peek({ reading, length, timeoutMs, timedOut }: PeekOptions): Promise<BodyFacts> {
    const { source } = this;
    await new Promise<void>((resolve) => {
      const late = setTimeout(timedOut, timeoutMs);
      const over = (): void => {
        clearTimeout(late);
        source.pause();
        source.off('data', arrived).off('end', over).off('close', over).off('error', over);
        resolve();
      };
      const arrived = (chunk: Buffer): void => {
        const room = reading.maxBytes - this.keptBytes;
        this.kept.push(chunk);
        this.keptBytes += chunk.length;
        this.scan.feed(chunk.subarray(0, room));
        if (chunk.length < room) return;
        this.unread = chunk.subarray(room);
        over();
      };
      source.on('data', arrived).on('end', over).on('close', over).on('error', over);
      source.resume();
    });
    return this.scan.facts(length ?? this.keptBytes);
  }

  override _read(): void {
    if (this.following) this.source.resume();
    else this.follow();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.source.off('data', this.arrived).off('end', this.complete).off('close', this.cutOff);
    this.kept = [];
    callback(error);
  }

  private follow(): void {
    this.following = true;
    if (this.unread !== undefined && !this.scan.feed(this.unread)) {
      this.destroy(new BodyFailure('AMBIGUOUS_BODY'));
      return;
    }
    for (const chunk of this.kept.splice(0)) this.push(chunk);
    // It may have come to its end before anybody asked for more.
    if (this.source.readableEnded) this.push(null);
    else if (this.source.destroyed) this.cutOff();
    else this.listen();
  }

  private listen(): void {
    this.source
      .on('data', this.arrived)
      .on('end', this.complete)
      .on('close', this.cutOff)
      .on('error', this.cutOff);
    this.source.resume();
  }

  private readonly arrived = (chunk: Buffer): void => {
    if (!this.scan.feed(chunk)) {
      this.source.pause();
      this.destroy(new BodyFailure('AMBIGUOUS_BODY'));
    } else if (!this.push(chunk)) this.source.pause();
  };

  private readonly complete = (): void => {
    this.push(null);
  };

  private readonly cutOff = (): void => {
    if (!this.source.readableEnded) this.destroy(new BodyFailure('CLIENT_GONE'));
  };
}
