import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import type { Percentiles } from './latencies.ts';
import type { Answered } from './load.ts';
import type { RecordedCall } from './recorded-call.ts';
import { KEY_COUNT } from './workload.ts';

/** What redis-benchmark replaces by a random number, each time it stands in a command. */
const RANDOM_NUMBER = '__rand_int__';
/** Enough that one is always being worked on while the answers of another travel. */
const MAX_CONNECTIONS = 4;
const FIRST_GUESS_PER_SECOND = 10_000;
const CSV_NUMBERS = 7;

/**
 * Redis' own load generator running the store's own script: what the server can do when nobody has to encode a question
 * or read an answer.
 */
export class RedisBenchmark {
  readonly #port: number;
  readonly #call: RecordedCall;
  #callsPerSecond = FIRST_GUESS_PER_SECOND;

  constructor(port: number, call: RecordedCall) {
    this.#port = port;
    this.#call = { ...call, args: withRandomKeys(call.args) };
  }

  async run(inFlight: number, budgetMs: number): Promise<Answered> {
    const { args, decisions } = this.#call;
    const callsInFlight = Math.max(1, Math.floor(inFlight / decisions));
    const connections = Math.min(MAX_CONNECTIONS, callsInFlight);
    const calls = Math.max(callsInFlight, Math.round((this.#callsPerSecond * budgetMs) / 1000));
    const options = {
      '-p': this.#port,
      '-n': calls,
      '-c': connections,
      '-P': Math.floor(callsInFlight / connections),
      '-r': KEY_COUNT,
    };
    const settings = Object.entries(options).flatMap(([name, value]) => [name, String(value)]);
    const { stdout } = await promisify(execFile)('redis-benchmark', ['--csv', ...settings, ...args]);
    const { callsPerSecond, latencyUs } = parseBenchmarkCsv(stdout);
    this.#callsPerSecond = callsPerSecond;
    return {
      operations: calls * decisions,
      elapsedMs: (calls / callsPerSecond) * 1000,
      latencyUs,
    };
  }
}

/** Every key by another random number, in the place where the store puts the hash of the limit's key. */
export function withRandomKeys(args: readonly string[]): readonly string[] {
  const [command = '', sha1 = '', count = '', ...rest] = args;
  const keys = rest.slice(0, Number(count)).map((key) => {
    const random = key.replace(/\{.*\}/, `{${RANDOM_NUMBER}}`);
    if (random === key) throw new Error(`The key '${key}' has no place for a random number.`);
    return random;
  });
  return [command, sha1, count, ...keys, ...rest.slice(keys.length)];
}

export interface BenchmarkResult {
  readonly callsPerSecond: number;
  readonly latencyUs: Percentiles;
}

/** The last line: the command, calls per second, and the average, least, p50, p95, p99 and most milliseconds. */
export function parseBenchmarkCsv(csv: string): BenchmarkResult {
  const line = csv.trim().split('\n').at(-1) ?? '';
  const numbers = line
    .split('","')
    .slice(-CSV_NUMBERS)
    .map((field) => Number(field.replaceAll('"', '')));
  const [callsPerSecond, , , p50, p95, p99] = numbers;
  if (
    callsPerSecond === undefined ||
    p50 === undefined ||
    p95 === undefined ||
    p99 === undefined ||
    !numbers.every(Number.isFinite)
  ) {
    throw new Error(`redis-benchmark answered ${JSON.stringify(csv.slice(-300))}.`);
  }
  return { callsPerSecond, latencyUs: { p50: p50 * 1000, p95: p95 * 1000, p99: p99 * 1000 } };
}
