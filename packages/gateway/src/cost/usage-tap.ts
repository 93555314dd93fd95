import { contentDecoder, type ContentDecoder, type DecodedBytes } from './content-decoder.ts';
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

/** Hears where events of a stream end. */
interface EventListener {
  /** The data of an event has ended. */
  eventEnded(): void;
}

type LinePart = 'lineStart' | 'field' | 'valueStart' | 'data' | 'ignored';

const LF = 0x0a;
const CR = 0x0d;
const DATA_FIELD = Buffer.from('data');
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), of which only the data counts:
 * it goes to the scanner as it comes, one JSON text per event, and nothing of it is kept.
 */
class EventStream {
  private readonly scanner: JsonScanner;
  private readonly listener: EventListener;
  private at: LinePart = 'lineStart';
  /** Of the name of the field: how much of `data` was there. */
  private matched = 0;
  private hasData = false;
  /** Something of an event has come, if only a comment. */
  private begun = false;
  private afterCarriageReturn = false;
  private markSeen = 0;

  constructor(scanner: JsonScanner, listener: EventListener) {
    this.scanner = scanner;
    this.listener = listener;
  }

  /** Between two events: another one may be put here. */
  get between(): boolean {
    return this.at === 'lineStart' && !this.begun;
  }

  /** Reads what came next. With `untilBoundary` it stops behind the end of an event, and says where; else -1. */
  feed(bytes: Buffer, untilBoundary = false): number {
    let at = this.skipMark(bytes);
    while (at < bytes.length) {
      if (this.at === 'data' || this.at === 'ignored') {
        at = this.readValue(bytes, at);
        continue;
      }
      const ended = this.step(bytes[at] ?? 0);
      at += 1;
      if (!ended || !untilBoundary) continue;
      if (bytes[at - 1] === CR && bytes[at] === LF) {
        this.afterCarriageReturn = false;
        at += 1;
      }
      return at;
    }
    return -1;
  }

  /** No more comes. An event without its blank line counts: those who read such streams take it, too. */
  end(): void {
    this.endEvent();
  }

  /** True where an event has ended. */
  private step(byte: number): boolean {
    if (byte === LF && this.afterCarriageReturn) {
      this.afterCarriageReturn = false;
      return false;
    }
    this.afterCarriageReturn = byte === CR;
    if (byte === LF || byte === CR) return this.endLine();
    this.begun = true;
    this.readField(byte);
    return false;
  }

  private readField(byte: number): void {
    if (this.at === 'valueStart') {
      this.at = 'data';
      // One space belongs to the colon.
      if (byte !== 0x20) this.scanner.feed(Buffer.from([byte]));
      return;
    }
    if (this.at === 'lineStart') {
      this.at = 'field';
      this.matched = 0;
    }
    if (byte === 0x3a && this.matched === DATA_FIELD.length) this.beginData();
    else if (byte === DATA_FIELD[this.matched]) this.matched += 1;
    else this.at = 'ignored';
  }

  private beginData(): void {
    this.at = 'valueStart';
    // Lines of data belong together, with a line feed between them, which is space in JSON.
    if (this.hasData) this.scanner.feed(LINE_FEED);
    else this.scanner.reset();
    this.hasData = true;
  }

  private readValue(bytes: Buffer, from: number): number {
    let to = from;
    while (to < bytes.length && bytes[to] !== LF && bytes[to] !== CR) to += 1;
    if (this.at === 'data') this.scanner.feed(bytes, from, to);
    if (to === bytes.length) return to;
    this.afterCarriageReturn = bytes[to] === CR;
    this.endLine();
    return to + 1;
  }

  private endLine(): boolean {
    const isBlank = this.at === 'lineStart';
    this.at = 'lineStart';
    if (isBlank) this.endEvent();
    return isBlank;
  }

  private endEvent(): void {
    this.begun = false;
    if (!this.hasData) return;
    this.hasData = false;
    this.scanner.end();
    this.listener.eventEnded();
  }

  /** A byte order mark at the very beginning is not part of the first line. */
  private skipMark(bytes: Buffer): number {
    let at = 0;
    while (this.markSeen < BYTE_ORDER_MARK.length && at < bytes.length) {
      if (bytes[at] !== BYTE_ORDER_MARK[this.markSeen]) {
        this.markSeen = BYTE_ORDER_MARK.length;
        break;
      }
      this.markSeen += 1;
      at += 1;
    }
    return at;
  }
}

const LINE_FEED = Buffer.from([LF]);
