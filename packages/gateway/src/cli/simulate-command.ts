import { statSync } from 'node:fs';
import type { Policy } from 'spillgate';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { canLease, type PolicyConfig } from '../config/schema/policy.ts';
import { formatProblem, whyUnreadable } from '../config/problem.ts';
import { failCondition, UnusableCondition, type FailCondition } from '../simulate/fail-if.ts';
import { ACCESS_LOG_FORMATS } from '../simulate/formats/index.ts';
import { patternFormat, UnusablePattern } from '../simulate/formats/pattern.ts';
import { htmlReport } from '../simulate/html-report.ts';
import { jsonReport, readingJson, textReport, suggestionText } from '../simulate/text-report.ts';
import { STANDARD_INPUT, UnreadableLog } from '../simulate/log-lines.ts';
import type { AccessLogFormat } from '../simulate/logged-request.ts';
import { outage, UnusableOutage } from '../simulate/outage.ts';
import type { SimulatedSetup } from '../simulate/simulated-gateway.ts';
import { replayLogs, type LogsToRead, type ReadingProgress } from '../simulate/replay-log.ts';
import { suggestLimits } from '../simulate/suggested-limits.ts';
import { EXIT, type ExitCode, type Host } from './host.ts';

interface LogOptions {
  readonly format?: string | undefined;
  readonly pattern?: string | undefined;
  readonly json?: boolean | undefined;
}

export interface SimulateCommandOptions extends LogOptions {
  readonly config: string;
  readonly against?: string | undefined;
  readonly failIf?: readonly string[] | undefined;
  readonly html?: string | undefined;
  readonly instances?: string | undefined;
  readonly skew?: string | undefined;
  readonly outage?: readonly string[] | undefined;
  readonly leases?: string | undefined;
}

export interface SuggestLimitsOptions extends LogOptions {
  readonly header?: string | undefined;
}

/** Replays access logs through a configuration, and tells who would have been denied. */
export async function simulate(
  host: Host,
  logs: readonly string[],
  options: SimulateCommandOptions,
): Promise<ExitCode> {
  return whileReadable(host, async () => {
    requireOneInput(logs);
    const conditions = (options.failIf ?? []).map(failCondition);
    const leases = leaseMode(options.leases);
    const setup = setupOf(options);
    const config = withLeases(configAt(host, options.config), leases);
    const against =
      options.against === undefined ? undefined : withLeases(configAt(host, options.against), leases);
    if (config === undefined || (options.against !== undefined && against === undefined))
      return EXIT.problems;
    requireRedis(options, [config, against ?? config]);
    requirePossible(conditions, config, against !== undefined);
    const classes = conditions.flatMap(({ of }) => of ?? []);
    const replay = await replayLogs({ ...logsToRead(host, logs, options), config, against, setup, classes });
    clearProgress(host);
    host.write(
      options.json === true ? `${JSON.stringify(jsonReport(replay), undefined, 2)}\n` : textReport(replay),
    );
    if (options.html !== undefined) writeReport(host, options.html, htmlReport(replay));
    const exceeded = conditions.flatMap((condition) => {
      const found = condition.exceeded(replay);
      return found === undefined ? [] : [`failed: ${condition.text}: ${found}\n`];
    });
    for (const line of exceeded) host.writeError(line);
    return exceeded.length > 0 ? EXIT.problems : EXIT.ok;
  });
}

/** Proposes limits from what clients did, and says whom each would have denied. */
export async function suggest(
  host: Host,
  logs: readonly string[],
  options: SuggestLimitsOptions,
): Promise<ExitCode> {
  return whileReadable(host, async () => {
    if (logs.includes(STANDARD_INPUT))
      throw new UnreadableLog('standard input cannot be read twice: name files');
    const found = await suggestLimits({ ...logsToRead(host, logs, options), header: options.header });
    clearProgress(host);
    const { reading, ...suggestions } = found;
    const json = { reading: readingJson(reading), ...suggestions };
    host.write(options.json === true ? `${JSON.stringify(json, undefined, 2)}\n` : suggestionText(found));
    return EXIT.ok;
  });
}

/** Turns what a user can mend into a message, and leaves the rest. */
async function whileReadable(host: Host, work: () => Promise<ExitCode>): Promise<ExitCode> {
  try {
    return await work();
  } catch (failure) {
    const known = [UnreadableLog, UnusableCondition, UnusablePattern, UnusableOutage, UnusableOption].some(
      (kind) => failure instanceof kind,
    );
    if (!known || !(failure instanceof Error)) throw failure;
    clearProgress(host);
    host.writeError(`${failure.message}.\n`);
    return EXIT.usage;
  }
}

class UnusableOption extends Error {}

const MAX_INSTANCES = 1000;
const MAX_SKEW_MS = 3_600_000;
const LEASE_MODES: ReadonlyMap<string, Policy['leases']> = new Map<string, Policy['leases']>([
  ['on', true],
  ['off', false],
  ['auto', 'auto'],
]);

function setupOf({ instances = '1', skew = '0', outage: outages }: SimulateCommandOptions): SimulatedSetup {
  const count = Number(instances);
  if (!/^\d+$/.test(instances) || count < 1 || count > MAX_INSTANCES)
    throw new UnusableOption(`--instances ${instances}: write a number from 1 to ${MAX_INSTANCES}`);
  const skewMs = Number(/^(\d+(?:\.\d+)?)(?:ms)?$/.exec(skew)?.[1] ?? NaN);
  const seconds = Number(/^(\d+(?:\.\d+)?)s$/.exec(skew)?.[1] ?? NaN);
  const foundMs = Number.isNaN(skewMs) ? 1000 * seconds : skewMs;
  if (!(foundMs <= MAX_SKEW_MS))
    throw new UnusableOption(`--skew ${skew}: write a duration up to 1 h, such as 200ms or 2s`);
  const spans = (outages ?? []).map(outage);
  return {
    instances: count,
    skewMs: foundMs,
    isAway: spans.length === 0 ? undefined : (atMs) => spans.some((isAway) => isAway(atMs)),
  };
}

function leaseMode(text: string | undefined): Policy['leases'] | undefined {
  if (text === undefined) return undefined;
  const mode = LEASE_MODES.get(text);
  if (mode !== undefined) return mode;
  throw new UnusableOption(`--leases ${text}: write one of ${[...LEASE_MODES.keys()].join(', ')}`);
}

/** Every policy that can lease does so, whatever the file says. */
function withLeases(config: Config | undefined, leases: Policy['leases'] | undefined): Config | undefined {
  if (config === undefined || leases === undefined) return config;
  const policies: Record<string, PolicyConfig> = {};
  for (const [name, policy] of Object.entries(config.rate_limit.policies)) {
    policies[name] = canLease(policy.algorithm) ? { ...policy, leases } : policy;
  }
  return { ...config, rate_limit: { ...config.rate_limit, policies } };
}

/** Without Redis there is nothing that could be away or lease. */
function requireRedis({ outage: outages, leases }: SimulateCommandOptions, configs: readonly Config[]): void {
  if (configs.every(({ redis }) => redis !== undefined)) return;
  const option =
    outages !== undefined ? '--outage' : leases !== undefined && leases !== 'off' ? '--leases' : undefined;
  if (option === undefined) return;
  throw new UnusableOption(
    `${option} is about gateways that share a Redis, and the configuration has none: add \`redis\`, or leave the option out`,
  );
}

/** A gate that can never close must not look as if it held. */
function requirePossible(conditions: readonly FailCondition[], config: Config, isCompared: boolean): void {
  for (const condition of conditions) {
    const problem = condition.impossible(config, isCompared);
    if (problem !== undefined) throw new UnusableCondition(problem);
  }
}

function requireOneInput(logs: readonly string[]): void {
  if (logs.indexOf(STANDARD_INPUT) !== logs.lastIndexOf(STANDARD_INPUT))
    throw new UnreadableLog('standard input cannot be read twice: name - once');
}

const WRITE_PROBLEMS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'its folder does not exist'],
  ['EISDIR', 'it is a folder'],
  ['EACCES', 'this user may not write there'],
  ['ENOSPC', 'the disk is full'],
]);

function writeReport(host: Host, path: string, html: string): void {
  try {
    host.writeFile(path, html, true);
  } catch (failure) {
    const code = failure instanceof Error && 'code' in failure ? String(failure.code) : 'unknown error';
    throw new UnusableOption(`${path} cannot be written: ${WRITE_PROBLEMS.get(code) ?? code}`);
  }
}

function logsToRead(host: Host, logs: readonly string[], options: LogOptions): LogsToRead {
  const format = formatOf(options);
  return { logs, format, onProgress: host.errorIsTerminal ? progressOn(host, logs) : undefined };
}

function formatOf({ format, pattern }: LogOptions): AccessLogFormat | undefined {
  if (pattern !== undefined) return patternFormat(pattern);
  if (format === undefined) return undefined;
  const found = ACCESS_LOG_FORMATS.find(({ name }) => name === format);
  if (found !== undefined) return found;
  const names = ACCESS_LOG_FORMATS.map(({ name }) => name).join(', ');
  throw new UnusableOption(`"${format}" is no format of a log: use one of ${names}, or --pattern`);
}

function configAt({ env, readFile, writeError }: Host, path: string): Config | undefined {
  let text: string;
  try {
    text = readFile(path);
  } catch (failure) {
    writeError(`${path} ${whyUnreadable(failure)}.\n`);
    return undefined;
  }
  const loaded = loadConfig({ file: { path, text }, env, readFile });
  if (loaded.ok) return loaded.config;
  for (const problem of loaded.problems) writeError(`${formatProblem(problem)}\n`);
  return undefined;
}

const SHOW_EVERY_MS = 200;

/** A line that is written again and again: how much, how fast, and how long it will take. */
function progressOn(host: Host, logs: readonly string[]): (progress: ReadingProgress) => void {
  const total = logs.map(sizeOf).reduce((sum, size) => sum + size, 0);
  const startedMs = performance.now();
  let shownMs = startedMs;
  return ({ bytes, lines }) => {
    const nowMs = performance.now();
    if (nowMs - shownMs < SHOW_EVERY_MS) return;
    shownMs = nowMs;
    const seconds = (nowMs - startedMs) / 1000;
    const rate = `${Math.round(lines / seconds).toLocaleString('en-US')} lines/s`;
    const left = Number.isFinite(total) ? `, ${percentAndTime(bytes / total, seconds)}` : '';
    host.writeError(`\r\u001b[K${lines.toLocaleString('en-US')} lines, ${rate}${left}`);
  };
}

function percentAndTime(done: number, seconds: number): string {
  // A log may grow while it is read.
  const part = Math.min(1, done);
  return `${Math.floor(100 * part)}%, ${Math.ceil((seconds * (1 - part)) / part)} s left`;
}

/** Infinite where nobody knows. */
function sizeOf(log: string): number {
  try {
    const found = statSync(log);
    return found.isFile() ? found.size : Infinity;
  } catch {
    return Infinity;
  }
}

function clearProgress(host: Host): void {
  if (host.errorIsTerminal) host.writeError('\r\u001b[K');
}
