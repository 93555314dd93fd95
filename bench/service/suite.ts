import type { Chart } from '../frame/chart.ts';
import { QuietSlices } from '../frame/quiet-slices.ts';
import { median, runRounds, type Plan, type Slice } from '../frame/rounds.ts';
import type { Goal, Report, SuiteOptions } from '../frame/suite.ts';
import { GatewayProcess } from '../external/gateway-process.ts';
import { measureBehindEnvoy, type BehindEnvoy } from './behind-envoy.ts';
import { forwardAuthCalls, grpcCalls, httpCalls, type SendCalls } from './calls.ts';

const FULL: Plan = { rounds: 15, sliceMs: 700 };
const QUICK: Plan = { rounds: 5, sliceMs: 200 };
const MAX_REPEATS = 60;
const MAX_REPEATS_QUICK = 10;
const BATCH = 100;
/** Nobody is ever denied. */
const PLENTY = 1_000_000_000;
const DECISIONS_PER_SECOND = 200_000;

interface Candidate {
  readonly id: string;
  readonly title: string;
  readonly decisions: number;
  readonly send: SendCalls;
}

const CANDIDATES: readonly Candidate[] = [
  {
    id: 'batch',
    title: `POST /v1/check, ${BATCH} checks`,
    decisions: BATCH,
    send: httpCalls('/v1/check', {
      checks: Array.from({ length: BATCH }, (_, at) => ({ policy: 'api', key: `user-${at}` })),
    }),
  },
  {
    id: 'check',
    title: 'POST /v1/check, one check',
    decisions: 1,
    send: httpCalls('/v1/check', { policy: 'api', key: 'ann' }),
  },
  {
    id: 'rls',
    title: 'ShouldRateLimit, one descriptor',
    decisions: 1,
    send: grpcCalls('/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', rlsRequest()),
  },
  {
    id: 'forwardAuth',
    title: '/v1/forward-auth',
    decisions: 1,
    send: forwardAuthCalls({
      'X-Forwarded-Method': 'GET',
      'X-Forwarded-Uri': '/api/a',
      'X-Forwarded-Host': 'shop.example',
      'X-Forwarded-For': '203.0.113.7',
    }),
  },
];

/** `{ domain: "shop", descriptors: [{ entries: [{ key: "user", value: "ann" }] }] }` in protobuf. */
function rlsRequest(): Buffer {
  const field = (number: number, bytes: Buffer): Buffer =>
    Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
  const entry = Buffer.concat([field(1, Buffer.from('user')), field(2, Buffer.from('ann'))]);
  return Buffer.concat([field(1, Buffer.from('shop')), field(2, field(1, entry))]);
}

const CONFIG = {
  server: { client_address: { trusted_proxies: ['loopback'] } },
  service: {
    address: '127.0.0.1:0',
    rls: { descriptors: [{ domain: 'shop', entries: [{ key: 'user' }], policies: ['api'] }] },
  },
  rate_limit: {
    policies: { api: { algorithm: 'tokenBucket', average: PLENTY, burst: PLENTY, period: '1m' } },
    rules: [{ name: 'api', match: { path: '/api/**' }, policies: ['api'] }],
  },
};

interface ServiceSlice extends Slice {
  readonly cpuUs: number;
}

export async function serviceSuite({ quick: quickly }: SuiteOptions): Promise<Report> {
  const plan = quickly ? QUICK : FULL;
  const quiet = new QuietSlices(quickly ? MAX_REPEATS_QUICK : MAX_REPEATS);
  const service = await GatewayProcess.serve(CONFIG);
  try {
    const slices = await runRounds(
      CANDIDATES.map(({ id, send, decisions }) => ({
        id,
        slice: async (budgetMs: number) =>
          quiet.run(
            async () => sliceOf(service, { send, decisions, budgetMs }),
            ({ cpuUs }) => cpuUs / 1000,
          ),
      })),
      plan,
    );
    const usOf = (id: string): number =>
      median((slices.get(id) ?? []).map(({ cpuUs, operations }) => cpuUs / operations));
    const behindEnvoy = await measureBehindEnvoy(plan, quiet);
    const report = reportOf(usOf, behindEnvoy, [
      `One service in a process of its own, in memory; the callers are this process.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, interleaved, one warm-up round thrown away.`,
      behindEnvoy.summary,
      quiet.summary(),
    ]);
    return { ...report, charts: [chartOf(behindEnvoy)], disturbance: quiet.disturbance() };
  } finally {
    service.stop();
  }
}

async function sliceOf(
  service: GatewayProcess,
  { send, decisions, budgetMs }: Pick<Candidate, 'send' | 'decisions'> & { readonly budgetMs: number },
): Promise<ServiceSlice> {
  const cpuBefore = service.cpuUs();
  const startedMs = performance.now();
  const calls = await send(service.port, budgetMs);
  const elapsedMs = performance.now() - startedMs;
  return { operations: calls * decisions, elapsedMs, cpuUs: service.cpuUs() - cpuBefore };
}

function reportOf(usOf: (id: string) => number, behindEnvoy: BehindEnvoy, facts: readonly string[]): Report {
  const perCore = 1_000_000 / usOf('batch');
  return {
    title: 'The decision service: processor time per decision',
    facts,
    tables: [
      {
        title: 'Decisions',
        columns: [
          { title: 'call', align: 'left' },
          { title: 'processor us/decision', align: 'right' },
          { title: 'decisions per second and core', align: 'right' },
        ],
        rows: CANDIDATES.map(({ id, title }) => [
          title,
          usOf(id).toFixed(1),
          (1_000_000 / usOf(id)).toFixed(0),
        ]),
      },
      ...behindEnvoy.tables,
    ],
    goals: [
      {
        text: `a batch of ${BATCH} checks: at least ${DECISIONS_PER_SECOND} decisions per second and core`,
        passed: perCore >= DECISIONS_PER_SECOND,
        detail: perCore.toFixed(0),
      },
      ...goalBehindEnvoy(behindEnvoy),
    ],
  };
}

/** Where both could be measured. */
function goalBehindEnvoy({ usOf }: BehindEnvoy): readonly Goal[] {
  const [ours, reference] = [usOf('ours'), usOf('reference')];
  if (!Number.isFinite(reference)) return [];
  return [
    {
      text: 'behind Envoy, on Redis, ShouldRateLimit takes at most half of what envoyproxy/ratelimit takes',
      passed: ours <= reference / 2,
      detail: `${ours.toFixed(1)} us of ${reference.toFixed(1)} us`,
    },
  ];
}

function chartOf({ usOf }: BehindEnvoy): Chart {
  return {
    id: 'service',
    title: 'Processor time of a rate limit service per decision that Envoy asks for',
    unit: 'us',
    note: 'Without Envoy and without Redis; lower is better',
    bars: [
      { name: 'spillgate serve, in memory', value: usOf('memory'), ours: true },
      { name: 'spillgate serve, Redis', value: usOf('ours'), ours: true },
      { name: 'envoyproxy/ratelimit, Redis', value: usOf('reference') },
    ],
  };
}
