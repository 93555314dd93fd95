import { Readable } from 'node:stream';

/** Whose turn it is: the client has to send, the upstream has to take, or all has been sent. */
export type BodyTurn = 'client' | 'upstream' | 'nobody';

export interface BodyWatcher {
  /** Once, before the first byte is asked for. */
  bodyWanted(): void;
  bodyTurn(turn: BodyTurn): void;
}

/** Why a body ended early, where that is the client's doing. */
export class BodyFailure extends Error {
  override name = 'BodyFailure';
  readonly code: 'BODY_TOO_LARGE' | 'BODY_TIMEOUT' | 'CLIENT_GONE';

  constructor(code: BodyFailure['code']) {
    super(code);
    this.code = code;
  }
}

/**
 * The body of a request on its way to an upstream. Reads the client only when it is wanted, so that nothing is buffered here, and counts.
 * Destroying it leaves the client's connection alone.
 */
export class RequestBody extends Readable {
  received = 0;
  private readonly source: Readable;
  private readonly maxBytes: number;
  private readonly watcher: BodyWatcher;
  private wanted = false;

  /** `maxBytes` 0: no limit. */
  constructor(source: Readable, maxBytes: number, watcher: BodyWatcher) {
    super();
    this.source = source;
    this.maxBytes = maxBytes;
    this.watcher = watcher;
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
    callback(error);
  }

  private readonly arrived = (chunk: Buffer): void => {
    this.received += chunk.length;
    if (this.maxBytes > 0 && this.received > this.maxBytes) {
      this.source.pause();
      this.destroy(new BodyFailure('BODY_TOO_LARGE'));
      return;
    }
    if (this.push(chunk)) {
      this.watcher.bodyTurn('client');
      return;
    }
    this.source.pause();
    this.watcher.bodyTurn('upstream');
  };

  private readonly complete = (): void => {
    this.watcher.bodyTurn('nobody');
    this.push(null);
  };

  private readonly cutOff = (): void => {
    if (!this.readableEnded && !this.source.readableEnded) this.destroy(new BodyFailure('CLIENT_GONE'));
  };
}
