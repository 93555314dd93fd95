import { recognizeFormat } from './formats/index.ts';
import { LINE_END, readLogLines, UnreadableLog, type LogName } from './log-lines.ts';
import type { AccessLogFormat, LoggedRequest } from './logged-request.ts';
import { printed } from '../config/shown.ts';

/** A line that could not be read. */
export interface UnreadLine {
  readonly log: LogName;
  readonly number: number;
  readonly text: string;
}

/** What a reading of logs came to. */
export interface LogReading {
  lines: number;
  /** Empty, or about something else than a request. */
  otherLines: number;
  unreadable: number;
  /** The first of those that could not be read. */
  readonly examples: UnreadLine[];
  /** By log. */
  readonly formats: Map<LogName, string>;
  lateRequests: number;
  requests: number;
  fromMs: number | undefined;
  toMs: number | undefined;
}

const LINES_TO_RECOGNIZE = 200;
const MAX_EXAMPLES = 5;
const EXAMPLE_LENGTH = 200;
const RETURN = 0x0d;

/** One log, a portion at a time. */
export class LogSource {
  ended = false;
  /** When the last request arrived that was read so far. */
  lastMs = -Infinity;
  private readonly log: LogName;
  private readonly reading: LogReading;
  private readonly portions: AsyncGenerator<Buffer>;
  private format: AccessLogFormat | undefined;
  private requests: LoggedRequest[] = [];
  private lines = 0;

  constructor(
    log: LogName,
    reading: LogReading,
    format: AccessLogFormat | undefined,
    took: (bytes: number) => void,
  ) {
    this.log = log;
    this.reading = reading;
    this.format = format;
    this.portions = readLogLines(log, took);
  }

  get wholeSeconds(): boolean {
    return this.format?.wholeSeconds ?? false;
  }

  async open(): Promise<void> {
    await this.next();
  }

  take(): readonly LoggedRequest[] {
    const { requests } = this;
    this.requests = [];
    return requests;
  }

  /** Reads the next portion. */
  async next(): Promise<void> {
    const portion = await this.portions.next();
    if (portion.done === true) {
      this.ended = true;
      return;
    }
    const bytes = this.lines === 0 ? withoutMark(portion.value) : portion.value;
    this.format ??= this.recognized(bytes);
    this.reading.formats.set(this.log, this.format.name);
    const before = this.lines;
    for (let from = 0; from <= bytes.length;) {
      const found = bytes.indexOf(LINE_END, from);
      const end = found === -1 ? bytes.length : found;
      this.read(this.format, bytes, from, bytes[end - 1] === RETURN && end > from ? end - 1 : end);
      from = end + 1;
    }
    this.reading.lines += this.lines - before;
    const last = this.requests.at(-1);
    if (last !== undefined) this.lastMs = Math.max(this.lastMs, last.atMs);
  }

  private recognized(bytes: Buffer): AccessLogFormat {
    const lines = bytes
      .toString('utf8')
      .split('\n', LINES_TO_RECOGNIZE)
      .map((line) => line.replace(/\r$/, ''));
    const format = recognizeFormat(lines);
    if (format !== undefined) return format;
    const [first = ''] = lines;
    throw new UnreadableLog(
      `${this.log} is in no format that is known: name it with --format, or describe it with --pattern. Its first line is ${JSON.stringify(printed(first.slice(0, EXAMPLE_LENGTH)))}`,
    );
  }

  private read(format: AccessLogFormat, bytes: Buffer, from: number, to: number): void {
    this.lines += 1;
    const found =
      from === to
        ? 'other'
        : (format.readBytes?.(bytes, from, to) ?? format.read(bytes.toString('utf8', from, to)));
    if (found === 'other') this.reading.otherLines += 1;
    else if (found !== undefined && isPossible(found)) this.add(found, format);
    else this.unreadable(bytes, from, to);
  }

  private add(request: LoggedRequest, { wholeSeconds }: AccessLogFormat): void {
    if (wholeSeconds) request.isRounded = true;
    this.requests.push(request);
  }

  private unreadable(bytes: Buffer, from: number, to: number): void {
    const { examples } = this.reading;
    this.reading.unreadable += 1;
    if (examples.length >= MAX_EXAMPLES) return;
    const text = bytes
      .toString('utf8', from, Math.min(to, from + 4 * EXAMPLE_LENGTH))
      .slice(0, EXAMPLE_LENGTH);
    examples.push({ log: this.log, number: this.lines, text });
  }
}

/** The clock of the library ends not long after; what is later than this was written wrong. */
const LAST_MS = Date.UTC(2100, 0);

/** A time that cannot be must not let all other requests be too late. */
function isPossible({ atMs, endMs = atMs }: LoggedRequest): boolean {
  return atMs >= 0 && atMs <= LAST_MS && endMs <= LAST_MS;
}

const MARK = [0xef, 0xbb, 0xbf];

/** Some programs on Windows put the mark of UTF-8 before the first line. */
function withoutMark(bytes: Buffer): Buffer {
  return MARK.every((byte, at) => bytes[at] === byte) ? bytes.subarray(MARK.length) : bytes;
}
