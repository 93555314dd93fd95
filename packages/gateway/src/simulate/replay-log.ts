import type { Config } from '../config/config.ts';
import { DenialTally, verdictOf, verdictWithoutRule, type RequestVerdict } from './denial-tally.ts';
import type { KeyClass } from './key-class.ts';
import { ArrivalOrder } from './arrival-order.ts';
import { UnreadableLog, type LogName } from './log-lines.ts';
import { LogSource, type LogReading } from './log-source.ts';
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

/** Of each log some requests are in the memory, and its file is open, until it ends: which is earliest is not known. */
const MAX_LOGS = 500;

/** Gives the requests of all logs in the order in which they arrived. Rejects with `UnreadableLog`. */
export async function readInOrder(
  { logs, format, onProgress = () => undefined }: LogsToRead,
  use: (requests: readonly LoggedRequest[]) => Promise<void> | void,
): Promise<LogReading> {
  if (logs.length > MAX_LOGS) {
    throw new UnreadableLog(
      `${logs.length} logs are more than the ${MAX_LOGS} that can be read at once: join those that follow each other with \`cat\`, which may be gzipped`,
    );
  }
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
  const order = new ArrivalOrder(sources.some(({ wholeSeconds }) => wholeSeconds));
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
