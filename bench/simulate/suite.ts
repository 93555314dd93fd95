import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Goal, Report, SuiteOptions } from '../frame/suite.ts';
import { LINES, writeLog } from './logs.ts';

const PROGRAM = join(
  dirname(createRequire(import.meta.url).resolve('spillgate-gateway/package.json')),
  'dist',
  'main.js',
);
const WANTED = 300_000;
const CONFIG = `
backend: { url: "http://127.0.0.1:1" }
rate_limit:
  policies:
    everybody: { average: 600, burst: 100, period: 1m }
    writes: { average: 30, burst: 10, period: 1m }
  rules:
    - { name: writes, match: { method: [POST], path: "/api/**" }, policies: [writes] }
    - { name: all, match: { path: "/**" }, policies: [everybody] }
`;

interface Run {
  /** Of a processor: what else runs on the machine costs none of it. */
  readonly cpuMs: number;
  readonly residentMb: readonly number[];
}

/** Log lines per second of a processor's time, by format, and the memory of a long log. */
export async function simulateSuite({ quick }: SuiteOptions): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-bench-simulate-'));
  const config = join(folder, 'config.yaml');
  writeFileSync(config, CONFIG);
  try {
    const lines = quick ? 200_000 : 1_000_000;
    const rates = new Map<string, number>();
    const nothing = join(folder, 'nothing.log');
    await writeLog(nothing, 'combined', 1);
    const startMs = await quickest(config, nothing);
    for (const format of LINES.keys()) {
      const log = join(folder, `${format}.log`);
      await writeLog(log, format, lines);
      rates.set(format, (1000 * lines) / ((await quickest(config, log)) - startMs));
      rmSync(log);
    }
    const long = join(folder, 'long.log');
    const longLines = quick ? 1_000_000 : 10_000_000;
    await writeLog(long, 'combined', longLines);
    const { residentMb } = await run(config, long);
    return report({ lines, rates, longLines, residentMb });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const SAMPLE_MS = 500;
const RUNS = 3;

async function quickest(config: string, log: string): Promise<number> {
  let bestMs = Infinity;
  for (let at = 0; at < RUNS; at += 1) bestMs = Math.min(bestMs, (await run(config, log)).cpuMs);
  return bestMs;
}

/** Tells, at the end, what all threads of the process took together: its garbage collector, too. */
const TELLING = `data:text/javascript,import { writeSync } from 'node:fs';
process.once('exit', () => writeSync(1, String((process.cpuUsage().user + process.cpuUsage().system) / 1000)));`;

async function run(config: string, log: string): Promise<Run> {
  const args = ['--import', TELLING, PROGRAM, 'simulate', '--config', config, log];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (told += text));
  const residentMb: number[] = [];
  const sampling = setInterval(() => {
    const resident = residentOf(child.pid);
    if (resident !== undefined) residentMb.push(resident);
  }, SAMPLE_MS);
  await once(child, 'close');
  clearInterval(sampling);
  if (child.exitCode !== 0) throw new Error(`the simulation ended with ${child.exitCode}`);
  return { cpuMs: Number(told.split('\n').at(-1)), residentMb };
}

/** Undefined where the system does not tell. */
function residentOf(pid: number | undefined): number | undefined {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  } catch {
    return undefined;
  }
}

interface Results {
  readonly lines: number;
  readonly rates: ReadonlyMap<string, number>;
  readonly longLines: number;
  readonly residentMb: readonly number[];
}

function report({ lines, rates, longLines, residentMb }: Results): Report {
  const [slowest, least] = [...rates].reduce((one, other) => (other[1] < one[1] ? other : one));
  const tenth = Math.max(1, Math.floor(residentMb.length / 10));
  const intervals = residentMb.filter((_, at) => at % tenth === 0);
  // The first fifth is start and growth of the heap.
  const settled = residentMb.slice(Math.floor(residentMb.length / 5));
  const [lowMb, highMb] = [Math.min(...settled), Math.max(...settled)];
  const goals: readonly Goal[] = [
    {
      text: `at least ${count(WANTED)} lines per second of a processor's time, of every format`,
      passed: least >= WANTED,
      detail: `${count(least)} of ${slowest}, the slowest`,
    },
    {
      text: 'constant memory',
      passed: highMb < 2 * lowMb,
      detail: `${lowMb.toFixed(0)} to ${highMb.toFixed(0)} MB after the first fifth of ${count(longLines)} lines`,
    },
  ];
  return {
    title: 'The simulator',
    facts: [
      `A log of ${count(lines)} lines per format, of 20,000 visitors, 40 integrations and one flood, through two rules; by the processor's time of the best of three runs, less the start of the program.`,
      `Resident memory during ${count(longLines)} lines, at intervals: ${intervals.map((mb) => mb.toFixed(0)).join(', ')} MB.`,
    ],
    tables: [
      {
        title: 'Log lines per second of a processor',
        columns: [
          { title: 'format', align: 'left' },
          { title: 'lines per second', align: 'right' },
        ],
        rows: [...rates].map(([format, rate]) => [format, count(rate)]),
      },
    ],
    goals,
  };
}

function count(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}
