import { constants, fstatSync, openSync, write } from 'node:fs';
import { Socket } from 'node:net';

/** Writes a part of the bytes, as `fs.write` does. */
export type WriteBytes = (
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
export class QueuedLines {
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
export function writeTo(descriptor: number): WriteBytes {
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
