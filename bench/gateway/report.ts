import type { QuietSlices } from '../frame/quiet-slices.ts';
import { median, type Plan } from '../frame/rounds.ts';
import type { Goal, Report } from '../frame/suite.ts';
import type { Table } from '../frame/table.ts';
import { gatewayCharts } from './charts.ts';
import { togetherByRound, togetherUs, type Measurement } from './measurement.ts';
import type { Cores } from './rig.ts';

interface MeasuredHow {
  readonly plan: Plan;
  readonly workersPlan: Plan;
  /** Of the table with workers. */
  readonly cores: Cores;
  readonly connections: number;
  readonly redisVersion: string;
  readonly missing: readonly string[];
  readonly quiet: QuietSlices;
}

const WANTED_OVER_PEERS = 2;
const WANTED_OF_NGINX = 0.25;
const MOST_ON_MEMORY = 0.08;
const MOST_ON_REDIS = 0.25;
const MOST_FOR_DENIED = 0.5;
const WANTED_OF_OWN_PARSER = 1.5;

export function gatewayReport(
  measured: readonly Measurement[],
  workers: readonly Measurement[],
  how: MeasuredHow,
): Report {
  return {
    title: 'Gateway: what passing through costs',
    facts: factsOf(how),
    tables: [tableOf('Through one core', measured), tableOf('With one worker and with two', workers)],
    goals: goalsOf(measured),
    charts: gatewayCharts(measured, workers),
    disturbance: how.quiet.disturbance(),
  };
}

function factsOf(how: MeasuredHow): readonly string[] {
  const { plan, workersPlan, cores, connections, redisVersion, missing, quiet } = how;
  return [
    'The proxy under test has one core; the load (this process), the backend (12 bytes; nginx, where it is installed), Redis and envoyproxy/ratelimit share the other.',
    `${connections} kept-alive connections, one request of 8 headers at a time each. Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all proxies interleaved, after a warm-up of their own.`,
    `redis-server ${redisVersion} of its own on 127.0.0.1. The limit is never reached, or always where it says so. Access and decision logs are off everywhere.`,
    'Helpers are the processes that a proxy asks for every request: Redis and envoyproxy/ratelimit. Together is the processor time of all processes except the backend and the load.',
    "Envoy's local rate limit is one bucket for everybody; all others count by the client's address. Envoy has one worker.",
    'Processor time decides the goals: requests per second also depend on the load and the backend, which share a core.',
    `Workers: the proxy on the cores ${cores.proxy}, the load and the backend on ${cores.others}; ${workersPlan.rounds} rounds of ${workersPlan.sliceMs} ms. Where both are the same, requests per second show what load and proxy reach together on two cores.`,
    'Goals compare two proxies round by round and take the median of these ratios: a machine that is slow for a while is slow for both.',
    quiet.summary(),
    ...missing,
  ];
}

function tableOf(title: string, measured: readonly Measurement[]): Table {
  return {
    title,
    columns: [
      { title: 'proxy', align: 'left' },
      { title: 'limits in', align: 'left' },
      { title: 'proxy us/request', align: 'right' },
      { title: 'helpers', align: 'right' },
      { title: 'together', align: 'right' },
      { title: 'requests/s seen', align: 'right' },
      { title: 'p50 us', align: 'right' },
      { title: 'p99 us', align: 'right' },
    ],
    rows: measured.map((one) => [
      one.candidate.name,
      one.candidate.limits,
      median(one.cpuUsPerRequest).toFixed(1),
      one.candidate.limits === 'Redis' ? median(one.helperUsPerRequest).toFixed(1) : '',
      togetherUs(one).toFixed(1),
      one.perSecond.toFixed(0),
      one.p50Us.toFixed(0),
      one.p99Us.toFixed(0),
    ]),
  };
}

function goalsOf(measured: readonly Measurement[]): readonly Goal[] {
  const costsOf = (id: string): readonly number[] =>
    measured.find(({ candidate }) => candidate.id === id)?.cpuUsPerRequest ?? [];
  const ratio = (id: string, toId: string): number => {
    const to = costsOf(toId);
    return median(costsOf(id).map((us, round) => us / (to[round] ?? Number.NaN)));
  };
  const overPeers = Math.min(
    ratio('http-proxy-3', 'spillgate-memory'),
    ratio('reply-from', 'spillgate-memory'),
  );
  const ofNginx = ratio('nginx-limit', 'spillgate-memory');
  const denied = ratio('spillgate-denied', 'spillgate-memory');
  const servedUs = median(costsOf('spillgate-memory'));
  const ownParser = servedUs / (servedUs - median(costsOf('front-http')) + median(costsOf('front-own')));
  return [
    {
      text: `at least ${WANTED_OVER_PEERS}x the requests per core of http-proxy-3 and @fastify/reply-from, limits included`,
      passed: overPeers >= WANTED_OVER_PEERS,
      detail: `${overPeers.toFixed(2)}x the better of the two; node:http and undici alone would be ${ratio('reply-from', 'bare').toFixed(2)}x @fastify/reply-from`,
    },
    {
      text: 'at least a quarter of the requests per core of nginx with limit_req',
      passed: ofNginx >= WANTED_OF_NGINX,
      detail: `${(100 * ofNginx).toFixed(0)} %; node:http and undici alone would be at ${(100 * ratio('nginx-limit', 'bare')).toFixed(0)} %`,
    },
    cost('memory', ratio('spillgate-memory', 'spillgate') - 1, MOST_ON_MEMORY),
    cost('Redis', ratio('spillgate-redis', 'spillgate') - 1, MOST_ON_REDIS),
    {
      text: 'a denied request costs at most half of a served one',
      passed: denied <= MOST_FOR_DENIED,
      detail: `${(100 * denied).toFixed(0)} %; of nginx with limit_req ${(100 * ratio('nginx-denied', 'nginx-limit')).toFixed(0)} %`,
    },
    {
      text: `a parser of our own instead of node:http would bring at least ${WANTED_OF_OWN_PARSER}x`,
      passed: ownParser >= WANTED_OF_OWN_PARSER,
      detail: `at most ${ownParser.toFixed(2)}x, if it did nothing else`,
    },
    ...lessThan(measured, 'spillgate-memory', 'envoy-local'),
    ...lessThan(measured, 'spillgate-redis', 'envoy-ratelimit'),
  ];
}

/** With everything that they ask. No goal where one of them could not be measured. */
function lessThan(measured: readonly Measurement[], ourId: string, theirId: string): readonly Goal[] {
  const ours = measured.find(({ candidate }) => candidate.id === ourId);
  const theirs = measured.find(({ candidate }) => candidate.id === theirId);
  if (ours === undefined || theirs === undefined) return [];
  const theirUs = togetherByRound(theirs);
  const ratio = median(togetherByRound(ours).map((us, round) => us / (theirUs[round] ?? Number.NaN)));
  return [
    {
      text: `limits in ${ours.candidate.limits}: less processor time, all processes together, than ${theirs.candidate.name}`,
      passed: ratio < 1,
      detail: `${ratio.toFixed(2)} of it, ${togetherUs(ours).toFixed(0)} us against ${togetherUs(theirs).toFixed(0)} us`,
    },
  ];
}

function cost(where: string, share: number, most: number): Goal {
  return {
    text: `limits in ${where} cost at most ${(100 * most).toFixed(0)} % of the requests per core`,
    // Of the throughput: twice the time is half of the requests.
    passed: share / (1 + share) <= most,
    detail: `${((100 * share) / (1 + share)).toFixed(1)} %`,
  };
}
