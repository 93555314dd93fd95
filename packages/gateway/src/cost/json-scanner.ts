/** Hears what a scanner finds, in the order of the text. */
export interface JsonListener {
  /** The name of a member begins a value; `scanner.depth` is that of the object. */
  member?(scanner: JsonScanner): void;
  /** A string has ended; `scanner.text()` is its value, as far as that was short. */
  string?(scanner: JsonScanner): void;
  /** A number has ended. */
  number?(scanner: JsonScanner): void;
  /** `true`, `false` or `null` has ended. */
  literal?(scanner: JsonScanner): void;
}

/**
 * Longer strings and numbers are passed over; their length is known. A name of 64 characters has room, also if each of
 * them is escaped.
 */
const MAX_SCANNED_TEXT_BYTES = 512;
/** What is nested deeper is not read any further. */
const MAX_DEPTH = 512;
/** Names of members are known so many levels deep. */
const KNOWN_LEVELS = 4;

type ScanState =
  | 'valueOrEnd'
  | 'value'
  | 'nameOrEnd'
  | 'name'
  | 'colon'
  | 'after'
  | 'string'
  | 'escape'
  | 'word'
  | 'done'
  | 'broken';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const LITERALS: ReadonlySet<string> = new Set(['true', 'false', 'null']);

/**
 * Reads one JSON text (RFC 8259) as its bytes pass, in memory that does not depend on them: no value is kept but the
 * one that is being read, and of that no more than `MAX_SCANNED_TEXT_BYTES`. A parser would need the whole text.
 */
export class JsonScanner {
  /** Of the containers that are open: 1 inside the outermost one. */
  depth = 0;
  /** Of the string that has just ended, escapes as they are written. */
  stringBytes = 0;
  /** The member that leads to the current value; `''` in an array, undefined if it is too long. */
  name: string | undefined = '';
  private readonly listener: JsonListener;
  private readonly names: (string | undefined)[] = [];
  private readonly isObject = new Uint8Array(MAX_DEPTH + 1);
  private readonly kept = Buffer.allocUnsafeSlow(MAX_SCANNED_TEXT_BYTES);
  private keptBytes = 0;
  private escaped = false;
  private readsName = false;
  private state: ScanState = 'value';

  constructor(listener: JsonListener) {
    this.listener = listener;
  }

  /** Another text begins. */
  reset(): void {
    this.depth = 0;
    this.state = 'value';
    this.name = '';
  }

  /** The text was whole, and nothing but space came behind it. A number needs an end to be known as whole. */
  get complete(): boolean {
    return this.state === 'done';
  }

  get broken(): boolean {
    return this.state === 'broken';
  }

  /** The member that leads to the current value at a depth of 1 to 4; `''` in an array, undefined if it is too long. */
  nameAt(depth: number): string | undefined {
    return depth <= this.depth ? this.names[depth] : undefined;
  }

  /** The string, number or literal that has just ended; undefined if it was too long. */
  text(): string | undefined {
    if (this.stringBytes > MAX_SCANNED_TEXT_BYTES) return undefined;
    const raw = this.kept.toString('utf8', 0, this.keptBytes);
    return this.escaped ? unescaped(raw) : raw;
  }

  /** Reads what came next: `bytes` from `from` until `to`. */
  feed(bytes: Buffer, from = 0, to = bytes.length): void {
    let at = from;
    while (at < to && this.state !== 'broken') {
      if (this.state === 'string') at = this.readString(bytes, at, to);
      else if (this.state === 'word') at = this.readWord(bytes, at, to);
      else {
        this.step(bytes[at] ?? 0);
        at += 1;
      }
    }
  }

  /** No more comes: a number at the outermost level has ended. */
  end(): void {
    if (this.state === 'word') this.endWord();
  }

  private readString(bytes: Buffer, from: number, to: number): number {
    for (let at = from; at < to; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte !== QUOTE && byte !== BACKSLASH && byte >= 0x20) continue;
      this.keep(bytes, from, at);
      if (byte === QUOTE) this.endString();
      else if (byte === BACKSLASH) {
        this.escaped = true;
        this.keep(bytes, at, at + 1);
        this.state = 'escape';
      } else this.state = 'broken';
      return at + 1;
    }
    this.keep(bytes, from, to);
    return to;
  }

  private readWord(bytes: Buffer, from: number, to: number): number {
    let at = from;
    while (at < to && isWordByte(bytes[at] ?? 0)) at += 1;
    this.keep(bytes, from, at);
    if (at < to) this.endWord();
    return at;
  }

  /** Keeps the beginning, and counts the rest. */
  private keep(bytes: Buffer, from: number, to: number): void {
    if (this.stringBytes < MAX_SCANNED_TEXT_BYTES) {
      this.keptBytes += bytes.copy(this.kept, this.keptBytes, from, to);
    }
    this.stringBytes += to - from;
  }

  private begin(state: 'string' | 'word', readsName: boolean): void {
    this.state = state;
    this.readsName = readsName;
    this.keptBytes = 0;
    this.stringBytes = 0;
    this.escaped = false;
  }

  private endString(): void {
    if (!this.readsName) {
      this.state = this.depth === 0 ? 'done' : 'after';
      this.listener.string?.(this);
      return;
    }
    this.name = this.text();
    if (this.depth <= KNOWN_LEVELS) this.names[this.depth] = this.name;
    this.state = 'colon';
    this.listener.member?.(this);
  }

  private endWord(): void {
    const word = this.text() ?? '';
    const isNumber = NUMBER.test(word) || this.stringBytes > MAX_SCANNED_TEXT_BYTES;
    if (!isNumber && !LITERALS.has(word)) {
      this.state = 'broken';
      return;
    }
    this.state = this.depth === 0 ? 'done' : 'after';
    if (isNumber) this.listener.number?.(this);
    else this.listener.literal?.(this);
  }

  private step(byte: number): void {
    if (this.state === 'escape') {
      // Which escapes there are is looked at when somebody wants the value.
      this.kept[this.keptBytes] = byte;
      if (this.keptBytes < MAX_SCANNED_TEXT_BYTES) this.keptBytes += 1;
      this.stringBytes += 1;
      this.state = 'string';
      return;
    }
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return;
    switch (this.state) {
      case 'value':
      case 'valueOrEnd':
        this.value(byte);
        return;
      case 'name':
      case 'nameOrEnd':
        if (byte === QUOTE) this.begin('string', true);
        else if (byte === CLOSE_OBJECT && this.state === 'nameOrEnd') this.close(byte);
        else this.state = 'broken';
        return;
      case 'colon':
        this.state = byte === COLON ? 'value' : 'broken';
        return;
      case 'after':
        if (byte === COMMA) this.state = this.isObject[this.depth] === 1 ? 'name' : 'value';
        else this.close(byte);
        return;
      default:
        this.state = 'broken';
    }
  }

  private value(byte: number): void {
    if (byte === QUOTE) this.begin('string', false);
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.open(byte === OPEN_OBJECT);
    else if (byte === CLOSE_ARRAY && this.state === 'valueOrEnd') this.close(byte);
    else if (isWordByte(byte)) {
      this.begin('word', false);
      this.kept[0] = byte;
      this.keptBytes = 1;
      this.stringBytes = 1;
    } else this.state = 'broken';
  }

  private open(isObject: boolean): void {
    if (this.depth >= MAX_DEPTH) {
      this.state = 'broken';
      return;
    }
    this.depth += 1;
    this.isObject[this.depth] = isObject ? 1 : 0;
    this.name = '';
    if (this.depth <= KNOWN_LEVELS) this.names[this.depth] = '';
    this.state = isObject ? 'nameOrEnd' : 'valueOrEnd';
  }

  private close(byte: number): void {
    const expected = this.isObject[this.depth] === 1 ? CLOSE_OBJECT : CLOSE_ARRAY;
    if (byte !== expected) {
      this.state = 'broken';
      return;
    }
    this.depth -= 1;
    // Deeper down only the next value of an array could be taken for that of a member.
    this.name = this.depth <= KNOWN_LEVELS ? this.names[this.depth] : '';
    this.state = this.depth === 0 ? 'done' : 'after';
  }
}

/** What numbers, `true`, `false` and `null` are made of. */
function isWordByte(byte: number): boolean {
  const isDigit = byte >= 0x30 && byte <= 0x39;
  const isLetter = byte >= 0x61 && byte <= 0x7a;
  return isDigit || isLetter || byte === 0x2d || byte === 0x2b || byte === 0x2e || byte === 0x45;
}

function unescaped(raw: string): string | undefined {
  try {
    return String(JSON.parse(`"${raw}"`));
  } catch {
    return undefined;
  }
}
