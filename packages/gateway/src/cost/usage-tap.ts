import { contentDecoder, type ContentDecoder, type DecodedBytes } from './content-decoder.ts';
import { EventStream } from './event-stream.ts';
import { JsonScanner } from './json-scanner.ts';
import {
  tokensOfBytes,
  UsageReader,
  type CountedTokens,
  type LlmProtocol,
  type UsageCount,
} from './token-usage.ts';

/** What a response says of itself. */
export interface TappedHead {
  readonly status: number;
  readonly contentType: string;
  readonly contentEncoding: string;
}

const EVENT_STREAM = /^text\/event-stream\s*(?:;|$)/i;
const JSON_TEXT = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/**
 * Stands beside the response of a model on its way to the client, and finds out what was used. It keeps nothing of what
 * passes, and changes nothing.
 */
export class UsageTap implements DecodedBytes {
  private readonly reader = new UsageReader();
  private readonly scanner = new JsonScanner(this.reader);
  private readonly events: EventStream | undefined;
  private readonly decoder: ContentDecoder | undefined;
  private readonly head: TappedHead;
  private readonly isPlain: boolean;
  private decodedBytes = 0;
  private over = false;

  constructor(head: TappedHead) {
    this.head = head;
    const { contentType, contentEncoding } = head;
    const isEvents = EVENT_STREAM.test(contentType);
    this.isPlain = contentEncoding === '';
    this.events = isEvents
      ? new EventStream(this.scanner, { eventEnded: () => this.reader.messageEnded(this.scanner) })
      : undefined;
    this.decoder =
      isEvents || JSON_TEXT.test(contentType) ? contentDecoder(contentEncoding, this) : undefined;
  }

  /** Nobody can tell what such a response has used. */
  get isUnreadable(): boolean {
    return this.decoder === undefined;
  }

  get protocol(): LlmProtocol {
    return this.reader.protocol;
  }

  /** An event of our own may be put behind what was written. */
  get betweenEvents(): boolean {
    return this.isPlain && this.events?.between === true;
  }

  /** Whether events of our own can be put into the response at all. */
  get takesEvents(): boolean {
    return this.isPlain && this.events !== undefined;
  }

  write(bytes: Buffer): void {
    if (!this.over) this.decoder?.write(bytes);
  }

  /** Reads up to the end of the event, and says where that is; -1 if it is not in there. */
  writeUntilBoundary(bytes: Buffer): number {
    this.decodedBytes += bytes.length;
    return this.events?.feed(bytes, true) ?? -1;
  }

  /** No more comes. */
  end(): void {
    if (this.decoder === undefined) this.ended();
    else this.decoder.end();
  }

  data(bytes: Buffer): void {
    this.decodedBytes += bytes.length;
    if (this.events === undefined) this.scanner.feed(bytes);
    else this.events.feed(bytes);
  }

  ended(): void {
    if (this.over) return;
    this.over = true;
    if (this.events === undefined) {
      this.scanner.end();
      this.reader.messageEnded(this.scanner);
    } else this.events.end();
  }

  /** What was used so far; `prompt` estimates what was asked. */
  used(count: UsageCount, prompt: () => number): CountedTokens {
    const counted = this.reader.counted(count, prompt);
    if (this.reader.isFinal) return counted;
    // Who is told that something went wrong has used nothing.
    if (this.head.status >= 400) return { tokens: 0, estimated: false };
    if (this.events !== undefined || count.count === 'input') return counted;
    return { tokens: counted.tokens + tokensOfBytes(this.decodedBytes), estimated: true };
  }
}
