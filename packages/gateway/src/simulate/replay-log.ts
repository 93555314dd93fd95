import type { Config } from '../config/config.ts';
import { DenialTally, verdictOf, verdictWithoutRule, type RequestVerdict } from './denial-tally.ts';
import type { KeyClass } from './key-class.ts';
import { recognizeFormat } from './formats/index.ts';
import { readLogLines, UnreadableLog, type LogName } from './log-lines.ts';
import type { AccessLogFormat, LoggedRequest } from './logged-request.ts';
import { unknowns } from './unknowns.ts';
import { SimulatedGateway, type SimulatedSetup } from './simulated-gateway.ts';

export interface LogsToRead {
  readonly logs: readonly LogName[];
  /** Default: each log is recognized by its first lines. */
  readonly format?: AccessLogFormat | undefined;
  /** Hears of what was read so far, again and again. */
  readonly onProgress?: ((progress: ReadingProgress) => void) | undefined;
}

export interface ReadingProgress {
  readonly bytes: number;
  readonly lines: number;
}

export interface ReplayOptions extends LogsToRead {
  readonly config: Config;
  /** Decides the same requests, to be compared with. */
  readonly against?: Config | undefined;
  /** How many gateways there are, and what goes wrong. */
  readonly setup?: SimulatedSetup | undefined;
  /** Clients to be counted apart from the others, too. */
  readonly classes?: readonly KeyClass[] | undefined;
}

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

export interface Replay {
  readonly reading: LogReading;
  readonly tally: DenialTally;
  readonly comparison: Comparison | undefined;
  /** What was simulated besides, and what the logs do not say, in sentences. */
  readonly notes: readonly string[];
}

export interface Comparison {
  readonly current: DenialTally;
  /** Requests that only the new configuration refuses. */
  readonly newlyDenied: DenialTally;
  /** Requests that only the current configuration refuses. */
  readonly newlyAdmitted: DenialTally;
}

/** Replays logs through the rules of a configuration, in the time of the logs. Rejects with `UnreadableLog`. */
export async function replayLogs(options: ReplayOptions): Promise<Replay> {
  const { setup, classes = [] } = options;
  const gateway = new SimulatedGateway(options.config, setup);
  const current = options.against === undefined ? undefined : new SimulatedGateway(options.against, setup);
  const tally = new DenialTally();
  const comparison =
    current === undefined
      ? undefined
      : { current: new DenialTally(), newlyDenied: new DenialTally(), newlyAdmitted: new DenialTally() };
  const reading = await readInOrder(options, async (requests) => {
    for (const request of requests) {
      const decided = verdictFrom(gateway, request);
      const verdict = decided instanceof Promise ? await decided : decided;
      tally.add(verdict, request.atMs);
      for (const { name, includes } of classes) {
        if (includes({ request, keys: verdict.keys, plan: gateway.planOf(request) }))
          tally.addToClass(name, verdict);
      }
      if (current === undefined || comparison === undefined) continue;
      const before = verdictFrom(current, request);
      compare(comparison, verdict, before instanceof Promise ? await before : before, request.atMs);
    }
  });
  await gateway.end();
  await current?.end();
  const notes = [...setupNotes(options), ...unknowns(options.config, reading.formats.values())];
  return { reading, tally, comparison, notes };
}

function setupNotes({ config: { redis, rate_limit: limits }, setup }: ReplayOptions): readonly string[] {
  const { instances = 1, skewMs = 0, isAway } = setup ?? {};
  const notes: string[] = [];
  if (instances > 1) {
    const how = redis === undefined ? 'each counts for itself, as without Redis' : 'they share a Redis';
    const clocks = skewMs === 0 ? '' : `; the clock of the last is ${skewMs} ms ahead of the first one's`;
    notes.push(`${instances} gateways take the requests in turn: ${how}${clocks}.`);
  }
  if (isAway !== undefined) notes.push(`While Redis is away, ${limits.failure_policy} answers.`);
  return notes;
}

/** What becomes of a request. Where the log says that no rule was asked about it, none is now. */
export function verdictFrom(
  gateway: SimulatedGateway,
  request: LoggedRequest,
): RequestVerdict | Promise<RequestVerdict> {
  if (request.withoutRule !== undefined) return verdictWithoutRule(request.withoutRule);
  const outcome = gateway.decide(request);
  return outcome instanceof Promise ? outcome.then(verdictOf) : verdictOf(outcome);
}

function compare(
  { current, newlyDenied, newlyAdmitted }: Comparison,
  now: RequestVerdict,
  before: RequestVerdict,
  atMs: number,
): void {
  current.add(before, atMs);
  if (now.denied && !before.denied) newlyDenied.add(now, atMs);
  if (before.denied && !now.denied) newlyAdmitted.add(before, atMs);
}

/** Gives the requests of all logs in the order in which they arrived. */
export async function readInOrder(
  { logs, format, onProgress = () => undefined }: LogsToRead,
  use: (requests: readonly LoggedRequest[]) => Promise<void> | void,
): Promise<LogReading> {
  const reading: LogReading = {
    lines: 0,
    otherLines: 0,
    unreadable: 0,
    examples: [],
    formats: new Map(),
    lateRequests: 0,
    requests: 0,
    fromMs: undefined,
    toMs: undefined,
  };
  const progress = { bytes: 0 };
  const sources = logs.map(
    (log) => new LogSource(log, reading, format, (bytes) => (progress.bytes += bytes)),
  );
  for (const source of sources) await source.open();
  const order = new ArrivalOrder(sources.every(({ wholeSeconds }) => wholeSeconds));
  const give = async (requests: readonly LoggedRequest[]): Promise<void> => {
    if (requests.length === 0) return;
    reading.requests += requests.length;
    reading.fromMs ??= requests[0]?.atMs;
    reading.toMs = requests.at(-1)?.atMs;
    await use(requests);
  };
  for (let source = earliest(sources); source !== undefined; source = earliest(sources)) {
    order.add(source.take());
    await source.next();
    await give(order.ready(earliest(sources)?.lastMs ?? Infinity));
    onProgress({ bytes: progress.bytes, lines: reading.lines });
  }
  await give(order.rest());
  reading.lateRequests = order.lateRequests;
  return reading;
}

/** The log that is furthest behind, of those that have more. */
function earliest(sources: readonly LogSource[]): LogSource | undefined {
  let found: LogSource | undefined;
  for (const source of sources) {
    if (!source.ended && (found === undefined || source.lastMs < found.lastMs)) found = source;
  }
  return found;
}

const LINES_TO_RECOGNIZE = 200;
const MAX_EXAMPLES = 5;
const EXAMPLE_LENGTH = 200;

/** One log, a portion at a time. */
class LogSource {
  ended = false;
  /** When the last request arrived that was read so far. */
  lastMs = -Infinity;
  private readonly log: LogName;
  private readonly reading: LogReading;
  private readonly portions: AsyncGenerator<readonly string[]>;
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
    const lines = portion.value;
    this.format ??= this.recognized(lines);
    this.reading.formats.set(this.log, this.format.name);
    for (const line of lines) this.read(line, this.format);
    this.reading.lines += lines.length;
    const last = this.requests.at(-1);
    if (last !== undefined) this.lastMs = Math.max(this.lastMs, last.atMs);
  }

  private recognized(lines: readonly string[]): AccessLogFormat {
    const format = recognizeFormat(lines.slice(0, LINES_TO_RECOGNIZE));
    if (format !== undefined) return format;
    const [first = ''] = lines;
    throw new UnreadableLog(
      `${this.log} is in no format that is known: name it with --format, or describe it with --pattern. Its first line is ${JSON.stringify(first.slice(0, EXAMPLE_LENGTH))}`,
    );
  }

  private read(written: string, format: AccessLogFormat): void {
    this.lines += 1;
    const line = written.endsWith('\r') ? written.slice(0, -1) : written;
    const found = line === '' ? 'other' : format.read(line);
    if (found === 'other') this.reading.otherLines += 1;
    else if (found !== undefined) this.requests.push(found);
    else this.unreadable(line);
  }

  private unreadable(line: string): void {
    const { examples } = this.reading;
    this.reading.unreadable += 1;
    if (examples.length >= MAX_EXAMPLES) return;
    examples.push({ log: this.log, number: this.lines, text: line.slice(0, EXAMPLE_LENGTH) });
  }
}

/** So many requests are held back, because logs list requests in the order in which they ended. */
const HELD = 20_000;
/** So many also where requests are short: what is out of order there was only written late. */
const HELD_LEAST = 1000;

/** Puts the requests of several logs in the order of their arrival, within bounded memory. */
class ArrivalOrder {
  private readonly wholeSeconds: boolean;
  private held: LoggedRequest[] = [];
  private lastMs = -Infinity;
  private lastEndMs = -Infinity;
  private longestMs = 0;
  private late = 0;

  constructor(wholeSeconds: boolean) {
    this.wholeSeconds = wholeSeconds;
  }

  /**
   * Requests that came so late in the log that others which arrived after them were decided already. They count as
   * arriving now.
   */
  get lateRequests(): number {
    return this.late;
  }

  add(requests: readonly LoggedRequest[]): void {
    for (const request of requests) {
      const { atMs, endMs = atMs } = request;
      if (endMs > this.lastEndMs) this.lastEndMs = endMs;
      if (endMs - atMs > this.longestMs) this.longestMs = endMs - atMs;
      this.held.push(request);
    }
  }

  /** Those whose turn it is: no log will bring one that arrived before `untilMs`. */
  ready(untilMs: number): readonly LoggedRequest[] {
    if (this.held.length < 2 * HELD_LEAST) return NONE;
    this.sort();
    let count = Math.min(this.held.length - HELD_LEAST, this.settled(), this.arrivedBefore(untilMs));
    if (count <= 0) return NONE;
    // Requests of one second are spread over it, so they go together, unless that second fills the memory.
    const next = this.held[count]?.atMs;
    if (this.wholeSeconds && this.held.length < 4 * HELD) {
      while (count > 0 && this.held[count - 1]?.atMs === next) count -= 1;
    }
    return this.take(count);
  }

  /** All that are left. */
  rest(): readonly LoggedRequest[] {
    this.sort();
    return this.take(this.held.length);
  }

  private sort(): void {
    if (!isSorted(this.held)) this.held.sort((one, other) => one.atMs - other.atMs);
  }

  /** How many arrived so long ago that a request as long as any so far would have been written already. */
  private settled(): number {
    const { length } = this.held;
    return Math.max(length - HELD, this.arrivedBefore(this.lastEndMs - 2 * this.longestMs));
  }

  private arrivedBefore(untilMs: number): number {
    let [low, high] = [0, this.held.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.held[middle]?.atMs ?? Infinity) < untilMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private take(count: number): readonly LoggedRequest[] {
    const taken = this.held.slice(0, count);
    this.held = this.held.slice(count);
    if (this.wholeSeconds) spreadSeconds(taken);
    for (const request of taken) {
      if (request.atMs < this.lastMs) {
        this.late += 1;
        request.atMs = this.lastMs;
      } else this.lastMs = request.atMs;
    }
    return taken;
  }
}

function isSorted(requests: readonly LoggedRequest[]): boolean {
  let lastMs = -Infinity;
  for (const { atMs } of requests) {
    if (atMs < lastMs) return false;
    lastMs = atMs;
  }
  return true;
}

const NONE: readonly LoggedRequest[] = [];
const SECOND_MS = 1000;

/** A log with whole seconds does not say when within one a request came: evenly is the best guess. */
function spreadSeconds(requests: readonly LoggedRequest[]): void {
  for (let from = 0; from < requests.length;) {
    const secondMs = requests[from]?.atMs;
    let to = from + 1;
    while (requests[to]?.atMs === secondMs) to += 1;
    for (let at = from; at < to; at += 1) {
      const request = requests[at];
      if (request !== undefined) request.atMs += (SECOND_MS * (at - from)) / (to - from);
    }
    from = to;
  }
}
