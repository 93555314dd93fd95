import { LimiterError, parseDuration } from 'spillgate';
import { EXIT, type ExitCode, type Host, paintFor, type Paint, CommandFailure } from '../host.ts';
import { emptyResult, generateLoad, type LatencyRecord, type Load, type LoadResult } from './load.ts';

export interface BenchOptions {
  readonly connections: string;
  readonly duration: string;
  readonly rate?: string | undefined;
  readonly method: string;
  readonly header?: readonly string[] | undefined;
  readonly body?: string | undefined;
  readonly timeout: string;
  readonly json?: boolean | undefined;
}

const MAX_CONNECTIONS = 1000;
const MAX_RATE = 1_000_000;
const MAX_DURATION_MS = 3_600_000;
const MAX_TIMEOUT_MS = 60_000;
const LIMITED = 429;
const PERCENTILES = [
  ['p50', 0.5],
  ['p90', 0.9],
  ['p99', 0.99],
  ['p99.9', 0.999],
] as const;
/** Below this share of the wanted rate, the numbers are not about that rate. */
const HELD_RATE = 0.95;
/** Above this share, the generator was the bottleneck. */
const TOO_BUSY = 0.9;

/** Sends load to a URL and says how it was answered. */
export async function bench(host: Host, url: string, options: BenchOptions): Promise<ExitCode> {
  const load = loadOf(url, options);
  const result = emptyResult();
  const interrupted = whenInterrupted(host);
  const stop = showProgress(host, load, result);
  await generateLoad(load, result, interrupted).finally(stop);
  const summary = { ...summaryOf(load, result), interrupted: interrupted.aborted };
  host.write(
    options.json === true
      ? `${JSON.stringify(summary, undefined, 2)}\n`
      : describe(summary, paintFor(host.env, host.outputIsTerminal)),
  );
  return result.latency.count > 0 ? EXIT.ok : EXIT.usage;
}

/** The first interrupt ends the load and shows what there is; the second ends the program. */
function whenInterrupted(host: Host): AbortSignal {
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    host.onSignal(signal, () => {
      if (interruption.signal.aborted) host.exit(EXIT.usage);
      interruption.abort();
    });
  }
  return interruption.signal;
}

function loadOf(text: string, options: BenchOptions): Load {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new CommandFailure(`URL is ${JSON.stringify(text)}; expected one such as http://127.0.0.1:8080/.`);
  }
  if (!/^[A-Z]{1,16}$/.test(options.method)) {
    throw new CommandFailure(`--method is ${JSON.stringify(options.method)}; expected one such as GET.`);
  }
  return {
    url,
    method: options.method,
    headers: headersOf(options.header ?? []),
    body: options.body,
    connections: integer('--connections', options.connections, MAX_CONNECTIONS),
    durationMs: duration('--duration', options.duration, MAX_DURATION_MS),
    rate: options.rate === undefined ? undefined : integer('--rate', options.rate, MAX_RATE),
    timeoutMs: duration('--timeout', options.timeout, MAX_TIMEOUT_MS),
  };
}

function headersOf(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+): *([\x20-\x7e]*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) return [name, value];
    throw new CommandFailure(`--header is ${JSON.stringify(line)}; expected "Name: value".`);
  });
}

function integer(option: string, text: string, max: number): number {
  const value = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (value >= 1 && value <= max) return value;
  throw new CommandFailure(`${option} is ${JSON.stringify(text)}; expected a whole number from 1 to ${max}.`);
}

function duration(option: string, text: string, maxMs: number): number {
  try {
    return parseDuration(text, { name: option, minUs: 1000, maxUs: maxMs * 1000 }) / 1000;
  } catch (failure) {
    if (failure instanceof LimiterError) throw new CommandFailure(failure.message);
    throw failure;
  }
}

/** One line that is written over, for people who wait at a terminal. */
function showProgress(host: Host, { durationMs }: Load, result: LoadResult): () => void {
  if (!host.errorIsTerminal) return () => undefined;
  const startMs = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - startMs) / 1000);
    host.writeError(`\r${seconds} of ${Math.round(durationMs / 1000)} s, ${result.latency.count} answers `);
  }, 1000);
  return () => {
    clearInterval(timer);
    host.writeError('\r\u001b[K');
  };
}

interface BenchSummary {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  readonly sent: number;
  readonly answered: number;
  readonly limited: number;
  readonly failed: number;
  readonly requestsPerSecond: number;
  readonly wantedPerSecond: number | null;
  /** How busy the generator itself was, from 0 to 1. */
  readonly generatorBusy: number;
  /** Null if nobody answered. */
  readonly latencyMs: Readonly<Record<string, number>> | null;
  readonly statuses: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
  readonly interrupted: boolean;
}

function summaryOf({ url, connections, rate }: Load, result: LoadResult): Omit<BenchSummary, 'interrupted'> {
  const { latency, statuses, failures, sent, tookMs, busy } = result;
  const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
  return {
    // A query may hold a secret, and results are passed around.
    url: url.origin + url.pathname,
    connections,
    seconds: round(tookMs / 1000),
    sent,
    answered: latency.count,
    limited: statuses.get(LIMITED) ?? 0,
    failed,
    requestsPerSecond: round((latency.count * 1000) / Math.max(1, tookMs)),
    wantedPerSecond: rate ?? null,
    generatorBusy: round(busy),
    latencyMs: latency.count === 0 ? null : latenciesOf(latency),
    statuses: Object.fromEntries([...statuses].toSorted(([a], [b]) => a - b)),
    failures: Object.fromEntries(failures),
  };
}

function latenciesOf(latency: LatencyRecord): Readonly<Record<string, number>> {
  const percentiles = PERCENTILES.map(([name, share]) => [name, round(latency.percentile(share))] as const);
  return Object.fromEntries([...percentiles, ['max', round(latency.maxMs)]]);
}

function describe(summary: BenchSummary, paint: Paint): string {
  const { url, connections, seconds, answered, failed, failures, interrupted } = summary;
  const count = answered === 0 ? 'no answer' : `${answered} answers`;
  const lines = [
    `${paint('bold', url)}: ${count} in ${seconds} s on ${connections} ${connections === 1 ? 'connection' : 'connections'}`,
    ...(answered === 0 ? [] : describeAnswers(summary)),
    ...(failed === 0 ? [] : [paint('red', `  failed      ${pairs(failures)}`)]),
    ...(interrupted ? [paint('yellow', '  Interrupted: this is what was measured until then.')] : []),
    ...(answered === 0 ? [] : describeConditions(summary, paint)),
  ];
  return `${lines.join('\n')}\n`;
}

function describeAnswers({
  answered,
  limited,
  requestsPerSecond,
  wantedPerSecond,
  latencyMs,
  statuses,
}: BenchSummary): readonly string[] {
  const share = round((limited * 100) / answered);
  return [
    `  requests/s  ${requestsPerSecond}${wantedPerSecond === null ? '' : ` of ${wantedPerSecond} wanted`}`,
    `  latency ms  ${pairs(latencyMs ?? {})}`,
    `  statuses    ${pairs(statuses)}`,
    `  limited     ${limited} (${share} %)`,
  ];
}

/** What the numbers are worth. */
function describeConditions(summary: BenchSummary, paint: Paint): readonly string[] {
  const { requestsPerSecond, wantedPerSecond } = summary;
  const held = wantedPerSecond === null || requestsPerSecond >= wantedPerSecond * HELD_RATE;
  return [
    ...(held ? [] : [paint('yellow', '  The rate was not held: the latencies are those of an overload.')]),
    ...(summary.generatorBusy <= TOO_BUSY
      ? []
      : [
          paint(
            'yellow',
            "  The generator was busy all the time: these are its numbers as much as the server's.",
          ),
        ]),
    wantedPerSecond === null
      ? paint(
          'dim',
          '  Each connection waited for its answers; use --rate for what users at a fixed rate see.',
        )
      : paint('dim', '  Latencies count from when a request was due.'),
  ];
}

function pairs(values: Readonly<Record<string, number>>): string {
  const entries = Object.entries(values).map(([name, value]) => `${name} ${value}`);
  return entries.length === 0 ? 'none' : entries.join('  ');
}

/** Three digits behind the point. */
function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
