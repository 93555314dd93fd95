import { Readable } from 'node:stream';
import { BodyScan, type BodyFacts, type BodyReading } from '../../cost/body-fields.ts';
import { BodyFailure } from './request-body.ts';

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
