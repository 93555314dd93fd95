// npm run bench -- <suite> [--quick] [--markdown] [--save]

import { parseArgs } from 'node:util';

import { busyMachine, machineFacts } from './frame/machine.ts';
import { progress } from './frame/progress.ts';
import { othersShare } from './frame/quiet-slices.ts';
import { renderReport } from './frame/report.ts';
import { saveResults } from './frame/saved-results.ts';
import type { Suite } from './frame/suite.ts';

interface SuiteEntry {
  readonly summary: string;
  /** Loaded on demand: one suite must not pay for another one's dependencies. */
  readonly load: () => Promise<Suite>;
}

const SUITES: ReadonlyMap<string, SuiteEntry> = new Map([
  [
    'memory',
    {
      summary: 'the embedded memory store next to npm peers: decisions per second and heap bytes per key',
      load: async () => (await import('./memory/suite.ts')).memorySuite,
    },
  ],
  [
    'redis',
    {
      summary:
        'the Redis store next to npm peers: decisions per second, latency, processor time and bytes per key',
      load: async () => (await import('./redis/suite.ts')).redisSuite,
    },
  ],
  [
    'leases',
    {
      summary:
        'a hot key on Redis with and without leases: decisions per second, latency, calls per decision',
      load: async () => (await import('./leases/suite.ts')).leasesSuite,
    },
  ],
  [
    'http',
    {
      summary:
        'hello-world on Fastify and Express, alone and with each limiter: requests per second, processor time',
      load: async () => (await import('./http/suite.ts')).httpSuite,
    },
  ],
  [
    'gateway',
    {
      summary: 'a request through the gateway next to nginx, haproxy and npm peers: processor time, latency',
      load: async () => (await import('./gateway/suite.ts')).gatewaySuite,
    },
  ],
  [
    'external',
    {
      summary:
        'limits from a service, all of them cached, next to static ones: requests per second, processor time',
      load: async () => (await import('./external/suite.ts')).externalSuite,
    },
  ],
  [
    'service',
    {
      summary: 'the decision service over HTTP, gRPC and forward auth: processor time per decision',
      load: async () => (await import('./service/suite.ts')).serviceSuite,
    },
  ],
  [
    'refusals',
    {
      summary: 'requests that the gateway refuses next to those it serves: processor time per request',
      load: async () => (await import('./refusals/suite.ts')).refusalsSuite,
    },
  ],
  [
    'simulate',
    {
      summary: 'replaying access logs: lines per second by format, and the memory of a long log',
      load: async () => (await import('./simulate/suite.ts')).simulateSuite,
    },
  ],
  [
    'dashboard',
    {
      summary:
        'what an open dashboard costs the gateway: processor time at 10,000 requests per second, memory',
      load: async () => (await import('./dashboard/suite.ts')).dashboardSuite,
    },
  ],
]);

const SAMPLE_MS = 2000;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { quick: { type: 'boolean' }, markdown: { type: 'boolean' }, save: { type: 'boolean' } },
  });
  const [name] = positionals;
  const entry = name === undefined ? undefined : SUITES.get(name);
  if (entry === undefined) {
    process.stderr.write(`${usage(name)}\n`);
    return 2;
  }
  const suite = await entry.load();
  const quick = values.quick ?? false;
  const before = await othersShare(SAMPLE_MS);
  const measured = await suite({ quick });
  const facts = [machineFacts(), quietBefore(before), ...busyMachine(), ...measured.facts];
  const report = { ...measured, facts };
  process.stdout.write(`${renderReport(report, (values.markdown ?? false) ? 'markdown' : 'plain')}\n`);
  if (quick && values.save !== true) return 0;
  const command = `npm run bench -- ${positionals.join(' ')}${quick ? ' --quick' : ''}`;
  const date = new Date().toISOString().slice(0, 10);
  const saved = saveResults({ suite: name ?? '', command, date, machine: machineFacts(), quick }, report);
  progress(`saved ${saved}; npm run generate draws the plots of docs/benchmarks.md from them`);
  return 0;
}

function quietBefore(share: number): string {
  return `In the ${SAMPLE_MS / 1000} seconds before the run, other programs used ${share.toFixed(2)} of a core.`;
}

function usage(name: string | undefined): string {
  const problem = name === undefined ? 'Name a suite.' : `There is no suite "${name}".`;
  const suites = [...SUITES].map(([suite, { summary }]) => `  ${suite.padEnd(10)} ${summary}`);
  return [
    `${problem} Suites:`,
    ...suites,
    '',
    'Options:',
    '  --quick    fewer and shorter slices: a first impression, not a result',
    '  --markdown print Markdown tables',
    '  --save     keep a quick run in bench/results, too; full ones always are',
  ].join('\n');
}
