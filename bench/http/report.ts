import type { Plan } from '../frame/rounds.ts';
import type { Goal, Report } from '../frame/suite.ts';
import type { Table } from '../frame/table.ts';
import type { Candidate, Framework, StateIn } from './candidates.ts';

export interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  readonly cpuUsPerRequest: number;
}

export interface Circumstances {
  readonly plan: Plan;
  readonly connections: number;
  readonly redisVersion: string;
}

const FRAMEWORKS: readonly Framework[] = ['Fastify', 'Express'];

export function httpReport(
  measured: readonly Measurement[],
  { plan, connections, redisVersion }: Circumstances,
): Report {
  return {
    title: 'HTTP: what a limiter costs a hello-world server',
    facts: [
      `Each server is a process of its own; the load comes from this one over ${connections} kept-alive connections, one request at a time each.`,
      `Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all servers interleaved, one warm-up round thrown away.`,
      `redis-server ${redisVersion} of its own on 127.0.0.1. Everybody passes: the limit is never reached.`,
      'Spillgate sends RateLimit, RateLimit-Policy and X-RateLimit-* headers unless the row says otherwise; the peers send their default headers.',
      'The share is of the same framework alone. Processor time is of the server only, and the steadier of the two.',
    ],
    tables: FRAMEWORKS.map((framework) => tableOf(framework, measured)),
    goals: FRAMEWORKS.flatMap((framework) => [
      goalOf(framework, 'memory', measured),
      goalOf(framework, 'Redis', measured),
    ]),
  };
}

function tableOf(framework: Framework, measured: readonly Measurement[]): Table {
  const own = measured.filter(({ candidate }) => candidate.framework === framework);
  const bare = own.find(({ candidate }) => candidate.role === 'bare');
  return {
    title: framework,
    columns: [
      { title: 'limiter', align: 'left' },
      { title: 'state in', align: 'left' },
      { title: 'requests/s', align: 'right' },
      { title: 'share', align: 'right' },
      { title: 'processor us/request', align: 'right' },
      { title: 'added', align: 'right' },
    ],
    rows: own.map(({ candidate, perSecond, cpuUsPerRequest }) => [
      candidate.name,
      candidate.stateIn,
      perSecond.toFixed(0),
      `${((100 * perSecond) / (bare?.perSecond ?? Number.NaN)).toFixed(0)} %`,
      cpuUsPerRequest.toFixed(1),
      (cpuUsPerRequest - (bare?.cpuUsPerRequest ?? Number.NaN)).toFixed(1),
    ]),
  };
}

/** By processor time: requests per second depend on who else uses the machine. */
function goalOf(framework: Framework, stateIn: StateIn, measured: readonly Measurement[]): Goal {
  const there = measured.filter(
    ({ candidate }) => candidate.framework === framework && candidate.stateIn === stateIn,
  );
  const ours = there.find(({ candidate }) => candidate.role === 'ours');
  const peers = there.filter(({ candidate }) => candidate.role === 'peer');
  const [best] = peers.toSorted((a, b) => a.cpuUsPerRequest - b.cpuUsPerRequest);
  const ourUs = ours?.cpuUsPerRequest ?? Number.NaN;
  const bestUs = best?.cpuUsPerRequest ?? Number.NaN;
  return {
    text: `${framework}, state in ${stateIn}: ${stateIn === 'memory' ? "less overhead than every peer's" : "no more overhead than any peer's"}`,
    passed: stateIn === 'memory' ? ourUs < bestUs : ourUs <= bestUs,
    detail: `${ourUs.toFixed(1)} us of processor time per request against ${bestUs.toFixed(1)} us of ${best?.candidate.name ?? '?'}`,
  };
}
