import { constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';
import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Config } from '../config/config.ts';
import type { Log } from './log.ts';
import type { FinishedRequest } from './traffic.ts';

export interface Logger extends Log {
  /** One line of the access log; nothing while that is off. */
  readonly access: (request: FinishedRequest) => void;
  /** One line of the decision log. The caller knows which decisions are wanted, and has made keys printable. */
  decision(record: object): void;
  /** Takes new settings into use. */
  configure(config: Config['logging']): void;
  /** These texts never appear in a line, wherever they come from. */
  hide(secrets: readonly string[]): void;
  /** Lines that were lost because nobody took them. */
  readonly dropped: () => number;
  /** Waits for the last lines, for a bounded time. */
  flush(): Promise<void>;
}

export interface LoggerParts {
  readonly config: Config['logging'];
  /** Only people at a terminal like them; see `wantsColour`. */
  readonly colours?: boolean;
  /** Somebody reads it as it is written. Default: false. */
  readonly terminal?: boolean | undefined;
  /** Whether other processes, such as workers, write to the same output. Default: true. */
  readonly shared?: boolean | undefined;
  /** Default: the standard output. */
  readonly output?: WriteBytes;
}

const STANDARD_OUTPUT = 1;
const FLUSH_WITHIN_MS = 1000;
const MASK = '********';
const SHORTEST_SECRET = 4;
const MAX_PATH_LENGTH = 1024;
/** Whatever someone may log by accident, at the top and one level below. */
const NEVER_LOGGED = ['authorization', 'cookie', 'password', 'secret', 'token'];

export function createLogger({
  config,
  colours = false,
  terminal = false,
  shared = true,
  output,
}: LoggerParts): Logger {
  const sink = new QueuedLines(output ?? writeTo(STANDARD_OUTPUT), shared);
  const pretty = prettyFactory({
    colorize: colours,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
  let settings = config;
  let secrets: readonly string[] = [];
  const shown = (line: string): string => {
    const safe = harmlessLine(masked(line, secrets));
    const readable = settings.format === 'auto' ? terminal : settings.format === 'pretty';
    return readable ? pretty(doublyEscaped(safe)) : safe;
  };
  /** A line that will be lost is not even made: in a flood, it would cost more than the answer to its request. */
  const gather = (line: () => string): void => {
    if (sink.isFull()) sink.lose();
    else sink.gather(shown(line()));
  };
  const logger = pino(
    {
      level: config.level,
      // A supervisor knows the process, and a collector the host.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      redact: { paths: NEVER_LOGGED.flatMap((name) => [name, `*.${name}`]), censor: MASK },
    },
    { write: (line: string) => sink.write(shown(line)) },
  );

  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    access(request) {
      if (settings.access_log_enabled) gather(() => infoLine(accessFields(request), 'request'));
    },
    decision: (record) => gather(() => infoLine(record, 'decision')),
    configure(changed) {
      settings = changed;
      logger.level = changed.level;
    },
    hide(texts) {
      secrets = texts.filter((text) => text.length >= SHORTEST_SECRET).flatMap(spellings);
    },
    dropped: () => sink.dropped(),
    flush: () => sink.flush(FLUSH_WITHIN_MS),
  };
}

/** A line is JSON, and may quote JSON or a URL. */
function spellings(secret: string): readonly string[] {
  const inJson = JSON.stringify(secret).slice(1, -1);
  const inQuotedJson = JSON.stringify(inJson).slice(1, -1);
  return [...new Set([inQuotedJson, inJson, secret, encodeURIComponent(secret)])];
}

function masked(line: string, secrets: readonly string[]): string {
  let safe = line;
  for (const secret of secrets) if (safe.includes(secret)) safe = safe.replaceAll(secret, MASK);
  return safe;
}

/** As pino writes it. There is a line per request, its fields are known, and this takes less than half of the time. */
function infoLine(fields: object, message: string): string {
  return `{"level":"info","time":"${new Date().toISOString()}",${JSON.stringify(fields).slice(1, -1)},"msg":"${message}"}\n`;
}

/** Undefined fields are left out of the line. */
function accessFields(request: FinishedRequest): object {
  const { id, outcome, reason, scheme, protocol, status, clientAddress, rule, upstream, traceId } = request;
  return {
    id: loggable(id),
    at: startedAt(request.durationMs),
    outcome,
    reason,
    rejected: request.rejected,
    client: clientAddress,
    method: loggable(request.method, 64),
    scheme,
    host: loggable(request.host, 255),
    path: loggable(request.path, MAX_PATH_LENGTH),
    protocol,
    status,
    rule,
    apiKey: request.apiKey,
    cost: request.cost?.cost,
    costEstimated: request.cost?.estimated,
    upstream,
    received: request.bytesReceived,
    sent: request.bytesSent,
    ms: rounded(request.durationMs),
    upstreamMs: request.upstreamMs === undefined ? undefined : rounded(request.upstreamMs),
    traceId,
  };
}

/**
 * Seconds since 1970 when a request came that has just ended, by the clock that limits in the memory go by: a log can
 * be replayed.
 */
function startedAt(durationMs: number): number {
  return Math.round((performance.timeOrigin + performance.now() - durationMs) * 1000) / 1_000_000;
}

/** To microseconds: more digits say nothing. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/** Characters that break a line, move the cursor or turn the direction of a text. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const PLAIN = /^[\u0020-\u007e]*$/;

/** A text that a client chose, for a log: on one line, harmless to a terminal, and bounded. */
export function loggable(text: string, maxLength = 256): string {
  if (text.length <= maxLength) return PLAIN.test(text) ? text : escaped(text);
  return `${escaped(text.slice(0, maxLength))}... (${text.length} characters)`;
}

/** A line of JSON that means the same, without characters that a terminal could take for its own. */
function harmlessLine(line: string): string {
  const body = line.slice(0, -1);
  return PLAIN.test(body) ? line : `${escaped(body)}\n`;
}

/**
 * JSON that shows its control characters as they are escaped, when it is parsed and printed; stacks keep their lines.
 */
function doublyEscaped(line: string): string {
  return line.replaceAll(/\\(?:u[\da-f]{4}|n {4}at |[bfnrt\\"])/gi, (escape) =>
    /^\\(?:["\\]|n )/.test(escape) ? escape : `\\${escape}`,
  );
}

function escaped(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Writes a part of the bytes, as `fs.write` does. */
type WriteBytes = (
  bytes: Uint8Array,
  done: (error: NodeJS.ErrnoException | null, written: number) => void,
) => void;

const MAX_QUEUED_CHARACTERS = 1_048_576;
/** What a pipe takes as a whole (PIPE_BUF): workers share one, and must not write into each other's lines. */
const MAX_SHARED_WRITE_BYTES = 4096;
/** What a pipe holds: fewer and larger writes lose fewer lines when there are very many. */
const MAX_WRITE_BYTES = 65_536;
/**
 * The least time between two writes that are not full, if nobody is in a hurry: every write wakes a thread, which costs
 * more than many lines.
 */
const GATHER_MS = 10;
/** A reader that is slow. */
const BUSY_RETRY_MS = 50;
/** A disk that is full. */
const ERROR_RETRY_MS = 1000;
/** Nobody will ever read again. */
const GONE: ReadonlySet<string> = new Set(['EPIPE', 'EBADF', 'ECONNRESET']);

/**
 * Lines go to an open file, pipe or terminal one write at a time; what arrives in the meantime is queued up to a bound,
 * and what comes then is lost and counted. A closed pipe, a full disk or a reader that stopped never stops the gateway.
 */
class QueuedLines {
  private readonly writeBytes: WriteBytes;
  private readonly maxWriteBytes: number;
  private readonly queue: string[] = [];
  private queuedCharacters = 0;
  private lost = 0;
  private busy = false;
  private hurried = false;
  private startedAtMs = -Infinity;
  private timer: NodeJS.Timeout | undefined;
  private gone = false;
  private full = false;
  private readonly waiting = new Set<() => void>();

  /** `shared`: other processes write to the same output. */
  constructor(writeBytes: WriteBytes, shared: boolean) {
    this.writeBytes = writeBytes;
    this.maxWriteBytes = shared ? MAX_SHARED_WRITE_BYTES : MAX_WRITE_BYTES;
  }

  /** Takes a line, or loses it: nobody ever waits for the log. */
  write(line: string): void {
    this.hurried = true;
    this.gather(line);
  }

  /** The same for one of very many: it may wait a moment for others, to be written with them. */
  gather(line: string): void {
    if (this.gone || this.queuedCharacters + line.length > MAX_QUEUED_CHARACTERS) {
      // Nothing would ever be written after a line that is too long by itself.
      this.full = this.gone || this.queue.length > 0;
      this.lose();
      return;
    }
    this.queue.push(line);
    this.queuedCharacters += line.length;
    this.next();
  }

  /** Whether the last line was lost, and nothing was written since. */
  isFull(): boolean {
    return this.full;
  }

  /** Counts a line that nobody takes. */
  lose(): void {
    this.lost += 1;
  }

  /** Lines that were lost so far. */
  dropped(): number {
    return this.lost;
  }

  /** Resolves when all lines are written, or when that takes too long. */
  flush(withinMs: number): Promise<void> {
    if (!this.busy && this.queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, withinMs);
      this.waiting.add(end);
      this.next();
    });
  }

  private next(): void {
    if (this.busy) return;
    if (this.queue.length === 0) {
      this.hurried = false;
      for (const end of this.waiting) end();
      return;
    }
    const hurries = this.hurried || this.waiting.size > 0 || this.queuedCharacters >= this.maxWriteBytes;
    const nowMs = performance.now();
    const leftMs = this.startedAtMs + GATHER_MS - nowMs;
    if (!hurries && leftMs > 0) {
      this.timer ??= setTimeout(this.gathered, leftMs);
      return;
    }
    this.busy = true;
    this.startedAtMs = nowMs;
    const lines = this.queue.splice(0, this.linesOfOneWrite());
    const text = lines.join('');
    this.queuedCharacters -= text.length;
    this.full = false;
    this.send(Buffer.from(text), lines.length);
  }

  private readonly gathered = (): void => {
    this.timer = undefined;
    this.next();
  };

  private written(): void {
    this.busy = false;
    this.next();
  }

  /** At least one, however long it is. */
  private linesOfOneWrite(): number {
    let bytes = 0;
    const tooMany = this.queue.findIndex((line) => {
      bytes += Buffer.byteLength(line);
      return bytes > this.maxWriteBytes;
    });
    return tooMany < 0 ? this.queue.length : Math.max(1, tooMany);
  }

  private send(bytes: Uint8Array, lines: number): void {
    this.writeBytes(bytes, (error, written) => {
      if (error !== null) this.cope(error, bytes, lines);
      else if (written < bytes.length) this.send(bytes.subarray(written), lines);
      else this.written();
    });
  }

  private cope(error: NodeJS.ErrnoException, bytes: Uint8Array, lines: number): void {
    if (error.code === 'EAGAIN') {
      later(() => this.send(bytes, lines), BUSY_RETRY_MS);
      return;
    }
    this.lost += lines;
    this.gone = GONE.has(error.code ?? '');
    if (!this.gone) {
      later(() => this.written(), ERROR_RETRY_MS);
      return;
    }
    this.lost += this.queue.length;
    this.queue.length = 0;
    this.queuedCharacters = 0;
    this.written();
  }
}

function later(action: () => void, afterMs: number): void {
  setTimeout(action, afterMs).unref();
}

/** Writes to an open file descriptor, such as 1 for the standard output. */
function writeTo(descriptor: number): WriteBytes {
  const own = unblocked(descriptor);
  return (bytes, done) => {
    write(own, bytes, 0, bytes.length, null, done);
  };
}

/**
 * A pipe that nobody reads would hold a thread of the process in its write, and the process could not even exit. Opened
 * again, a pipe is a description of our own, which answers EAGAIN and leaves those that share the other one alone. A
 * socket (journald's, a parent's in Node) cannot be opened again; a stream on it has the same effect.
 */
function unblocked(descriptor: number): number {
  try {
    const kind = fstatSync(descriptor);
    if (kind.isSocket()) held.push(new Socket({ fd: descriptor, readable: false, writable: true }).unref());
    if (!kind.isFIFO()) return descriptor;
    return openSync(`/dev/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return descriptor;
  }
}

/** A stream that nobody holds is collected, and closes what it was opened on. */
const held: Socket[] = [];
