import { createLimiter, tokenBucket, type LeaseMode, type Limiter, type Policy } from 'spillgate';
import { redisStore } from 'spillgate/redis';

import { progress } from '../frame/progress.ts';
import { median } from '../frame/rounds.ts';
import type { Goal, Report, SuiteOptions } from '../frame/suite.ts';
import type { Table } from '../frame/table.ts';
import { startServer, type Server } from '../redis/server.ts';

/** Far beyond the default of 50: on a busy machine a late answer has to be slow, not degraded. */
const PATIENCE_MS = 10_000;
/** Loops that ask one after the other, as many requests of a server do. */
const LOOPS = 64;
/** Between two looks at the clock. */
const DECISIONS_PER_TURN = 64;
const MODES: readonly LeaseMode[] = [false, true, 'auto'];

interface Traffic {
  readonly title: string;
  readonly average: number;
}

const TRAFFIC: readonly Traffic[] = [
  { title: 'one hot key with room to spare: 10,000,000 per second', average: 10_000_000 },
  { title: 'one hot key far above its limit: 1,000 per second', average: 1000 },
];

/** What one slice saw. */
interface LeaseSlice {
  readonly perSecond: number;
  readonly perProcessorSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly callsPerDecision: number;
  readonly redisUsPerDecision: number;
}

interface Contender {
  readonly mode: LeaseMode;
  readonly limiter: Limiter;
  readonly policy: Policy;
}

export async function leasesSuite({ quick }: SuiteOptions): Promise<Report> {
  const plan = quick ? { rounds: 3, sliceMs: 200 } : { rounds: 9, sliceMs: 500 };
  const server = await startServer();
  try {
    const measured: { readonly traffic: Traffic; readonly rows: ReadonlyMap<LeaseMode, LeaseSlice> }[] = [];
    for (const traffic of TRAFFIC) measured.push({ traffic, rows: await measure(traffic, server, plan) });
    return {
      title: 'Leases: decisions per second, latency and calls to Redis',
      facts: [
        `redis-server ${server.version} of its own on 127.0.0.1, nothing on disk; ioredis, one process, ${LOOPS} loops of awaited checks on one key.`,
        `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, interleaved, one warm-up round thrown away.`,
        'Processor seconds are those of this process. One decision in 64 is timed.',
      ],
      tables: measured.map(({ traffic, rows }) => tableOf(traffic, rows)),
      goals: goalsOf(measured[0]?.rows.get(true)),
    };
  } finally {
    await server.stop();
  }
}

async function measure(
  { title, average }: Traffic,
  server: Server,
  { rounds, sliceMs }: { readonly rounds: number; readonly sliceMs: number },
): Promise<ReadonlyMap<LeaseMode, LeaseSlice>> {
  const contenders = MODES.map((mode): Contender => {
    const store = redisStore({ url: `redis://127.0.0.1:${server.port}`, timeoutMs: PATIENCE_MS });
    const limiter = createLimiter({ store, deadlineMs: PATIENCE_MS });
    const name = `leases-${mode}-${average}`;
    return {
      mode,
      limiter,
      policy: tokenBucket({ name, average, burst: average, period: '1s', leases: mode }),
    };
  });
  const slices = new Map(contenders.map(({ mode }) => [mode, new Array<LeaseSlice>()] as const));
  for (let round = 0; round <= rounds; round += 1) {
    progress(`${title}, round ${round} of ${rounds}`);
    for (const contender of contenders) {
      const slice = await runSlice(contender, server, sliceMs);
      if (round > 0) slices.get(contender.mode)?.push(slice);
    }
  }
  await Promise.all(contenders.map(async ({ limiter }) => limiter.close()));
  return new Map([...slices].map(([mode, all]) => [mode, medians(all)] as const));
}

async function runSlice(
  { limiter, policy }: Contender,
  server: Server,
  sliceMs: number,
): Promise<LeaseSlice> {
  const timesUs: number[] = [];
  let decisions = 0;
  const callsBefore = limiter.statistics()?.calls ?? 0;
  const redisBeforeMs = await server.cpuMs();
  const cpuBefore = process.cpuUsage();
  const startedMs = performance.now();
  const loop = async (): Promise<void> => {
    while (performance.now() - startedMs < sliceMs) {
      const askedMs = performance.now();
      await check(limiter, policy);
      timesUs.push((performance.now() - askedMs) * 1000);
      for (let each = 1; each < DECISIONS_PER_TURN; each += 1) await check(limiter, policy);
      decisions += DECISIONS_PER_TURN;
      // Sockets and timers of this process get their turn, as in a server.
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await Promise.all(Array.from({ length: LOOPS }, loop));
  const tookMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(cpuBefore);
  const redisMs = (await server.cpuMs()) - redisBeforeMs;
  const calls = (limiter.statistics()?.calls ?? 0) - callsBefore;
  timesUs.sort((a, b) => a - b);
  return {
    perSecond: (decisions / tookMs) * 1000,
    perProcessorSecond: (decisions / (user + system)) * 1e6,
    p50Us: timesUs[Math.floor(timesUs.length * 0.5)] ?? 0,
    p99Us: timesUs[Math.floor(timesUs.length * 0.99)] ?? 0,
    callsPerDecision: calls / decisions,
    redisUsPerDecision: (redisMs * 1000) / decisions,
  };
}

async function check(limiter: Limiter, policy: Policy): Promise<void> {
  const { degraded, cause } = await limiter.check(policy.for('hot'));
  // An answer of the failure policy is fast and means nothing here.
  if (degraded) throw new Error('The store did not decide.', { cause });
}

function medians(slices: readonly LeaseSlice[]): LeaseSlice {
  const of = (name: keyof LeaseSlice): number => median(slices.map((slice) => slice[name]));
  return {
    perSecond: of('perSecond'),
    perProcessorSecond: of('perProcessorSecond'),
    p50Us: of('p50Us'),
    p99Us: of('p99Us'),
    callsPerDecision: of('callsPerDecision'),
    redisUsPerDecision: of('redisUsPerDecision'),
  };
}

function tableOf({ title }: Traffic, rows: ReadonlyMap<LeaseMode, LeaseSlice>): Table {
  return {
    title,
    columns: [
      { title: 'leases', align: 'left' },
      { title: 'decisions/s', align: 'right' },
      { title: 'per processor second', align: 'right' },
      { title: 'p50 us', align: 'right' },
      { title: 'p99 us', align: 'right' },
      { title: 'calls per decision', align: 'right' },
      { title: 'Redis us per decision', align: 'right' },
    ],
    rows: [...rows].map(([mode, slice]) => [
      String(mode),
      `${(slice.perSecond / 1000).toFixed(0)}k`,
      `${(slice.perProcessorSecond / 1000).toFixed(0)}k`,
      slice.p50Us.toFixed(1),
      slice.p99Us.toFixed(1),
      slice.callsPerDecision.toPrecision(2),
      slice.redisUsPerDecision.toFixed(3),
    ]),
  };
}

function goalsOf(hot: LeaseSlice | undefined): readonly Goal[] {
  if (hot === undefined) return [];
  const { perSecond, perProcessorSecond, callsPerDecision, p99Us } = hot;
  return [
    {
      text: 'at least 1 million decisions per second and process on a hot key',
      passed: perSecond >= 1e6,
      detail: `${(perSecond / 1000).toFixed(0)}k, ${(perProcessorSecond / 1000).toFixed(0)}k per processor second`,
    },
    {
      text: 'at most one call to Redis for 20 decisions',
      passed: callsPerDecision <= 1 / 20,
      detail: callsPerDecision.toPrecision(2),
    },
    { text: 'p99 of a decision below 50 us', passed: p99Us < 50, detail: `${p99Us.toFixed(1)} us` },
  ];
}
