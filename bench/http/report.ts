import type { Chart } from '../frame/chart.ts';
import type { QuietSlices } from '../frame/quiet-slices.ts';
import type { Plan } from '../frame/rounds.ts';
import type { Goal, Report } from '../frame/suite.ts';
import type { Table } from '../frame/table.ts';
import { SHIPPED_HEADERS, type Candidate, type Framework } from './candidates.ts';

export interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  readonly cpuUsPerRequest: number;
  /** Only where the state is in the server's own process. */
  readonly cpuUsWithoutSockets: number;
}

export interface Circumstances {
  readonly plan: Plan;
  readonly generations: number;
  readonly connections: number;
  readonly redisVersion: string;
  readonly quiet: QuietSlices;
}

const FRAMEWORKS: readonly Framework[] = ['Fastify', 'Express'];

export function httpReport(
  measured: readonly Measurement[],
  { plan, generations, connections, redisVersion, quiet }: Circumstances,
): Report {
  return {
    title: 'HTTP: what a limiter costs a hello-world server',
    facts: [
      `Each server is a process of its own; the load comes from this one over ${connections} kept-alive connections, one request at a time each.`,
      `Medians of ${generations} times ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all servers interleaved, with fresh processes each time and after a warm-up.`,
      `redis-server ${redisVersion} of its own on 127.0.0.1. Everybody passes: the limit is never reached.`,
      'Spillgate as shipped sends five headers about limits. Headers cost more than decisions, so other rows send what a peer sends: three, or none.',
      'The share is of the same framework alone. Processor time is of the server only, and the steadier of the two; most of it is what the kernel does for a socket.',
      'Without sockets: the same handler in the same process, given requests that nobody sent, and its responses made in full and sent nowhere. That shows what a limiter in memory costs, so it decides the goals there.',
      quiet.summary(),
    ],
    tables: FRAMEWORKS.map((framework) => tableOf(framework, measured)),
    goals: FRAMEWORKS.flatMap((framework) =>
      (['memory', 'Redis'] as const).flatMap((stateIn) => {
        const there = measured.filter(
          ({ candidate }) => candidate.framework === framework && candidate.stateIn === stateIn,
        );
        return [asShipped(there), likeForLike(there)];
      }),
    ),
    charts: FRAMEWORKS.map((framework) => chartOf(framework, measured)),
    disturbance: quiet.disturbance(),
  };
}

function chartOf(framework: Framework, measured: readonly Measurement[]): Chart {
  const own = measured.filter(({ candidate }) => candidate.framework === framework);
  return {
    id: `http-${framework.toLowerCase()}`,
    title: `Processor time of a server with ${framework} per request`,
    unit: 'us',
    note: 'Most of it is what the kernel does for a socket; lower is better',
    bars: own.map(({ candidate: { name, role, stateIn }, cpuUsPerRequest }) => ({
      name: role === 'bare' ? `${framework} alone` : `${name}, state in ${stateIn}`,
      value: cpuUsPerRequest,
      ...(role === 'ours' ? { ours: true } : {}),
    })),
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
      { title: 'headers', align: 'right' },
      { title: 'requests/s', align: 'right' },
      { title: 'share', align: 'right' },
      { title: 'processor us/request', align: 'right' },
      { title: 'added', align: 'right' },
      { title: 'us without sockets', align: 'right' },
      { title: 'added', align: 'right' },
    ],
    rows: own.map(({ candidate, perSecond, cpuUsPerRequest, cpuUsWithoutSockets }) => [
      candidate.name,
      candidate.stateIn,
      String(candidate.headers),
      perSecond.toFixed(0),
      `${((100 * perSecond) / (bare?.perSecond ?? Number.NaN)).toFixed(0)} %`,
      cpuUsPerRequest.toFixed(1),
      (cpuUsPerRequest - (bare?.cpuUsPerRequest ?? Number.NaN)).toFixed(1),
      known(cpuUsWithoutSockets),
      known(cpuUsWithoutSockets - (bare?.cpuUsWithoutSockets ?? Number.NaN)),
    ]),
  };
}

function known(us: number): string {
  return Number.isNaN(us) ? '' : us.toFixed(2);
}

/** By processor time: requests per second depend on who else uses the machine. */
function asShipped(there: readonly Measurement[]): Goal {
  const ours = there.find(({ candidate }) => candidate.headers === SHIPPED_HEADERS);
  return goal('as shipped', there, () => ours);
}

/** Every peer against Spillgate with as many headers. */
function likeForLike(there: readonly Measurement[]): Goal {
  return goal('with as many headers', there, ({ candidate: peer }) =>
    there.find(({ candidate }) => candidate.role === 'ours' && candidate.headers === peer.headers),
  );
}

function goal(
  how: string,
  there: readonly Measurement[],
  oursAgainst: (peer: Measurement) => Measurement | undefined,
): Goal {
  const pairs = there
    .filter(({ candidate }) => candidate.role === 'peer')
    .map((peer) => ({
      peer: peer.candidate.name,
      theirUs: decisive(peer),
      ourUs: decisive(oursAgainst(peer)),
    }));
  const { framework, stateIn } = there[0]?.candidate ?? { framework: '?', stateIn: '?' };
  const wanted =
    stateIn === 'memory' ? "less overhead than every peer's" : "no more overhead than any peer's";
  return {
    text: `${framework}, state in ${stateIn}, ${how}: ${wanted}`,
    passed: pairs.every(({ ourUs, theirUs }) => (stateIn === 'memory' ? ourUs < theirUs : ourUs <= theirUs)),
    detail: pairs
      .map(({ peer, ourUs, theirUs }) => `${ourUs.toFixed(1)} us against ${theirUs.toFixed(1)} us of ${peer}`)
      .join('; '),
  };
}

function decisive(measured: Measurement | undefined): number {
  if (measured === undefined) return Number.NaN;
  return measured.candidate.stateIn === 'Redis' ? measured.cpuUsPerRequest : measured.cpuUsWithoutSockets;
}
