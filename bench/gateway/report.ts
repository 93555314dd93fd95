import { median, type Plan } from '../frame/rounds.ts';
import type { Goal, Report } from '../frame/suite.ts';
import type { Candidate } from './candidates.ts';

export interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  /** One per round. */
  readonly cpuUsPerRequest: readonly number[];
  readonly p50Us: number;
  readonly p99Us: number;
}

interface Circumstances {
  readonly plan: Plan;
  readonly connections: number;
  readonly redisVersion: string;
}

const WANTED_OVER_PEERS = 2;
const WANTED_OF_NGINX = 0.25;
const MOST_ON_MEMORY = 0.08;
const MOST_ON_REDIS = 0.25;
const MOST_FOR_DENIED = 0.5;
const WANTED_OF_OWN_PARSER = 1.5;

export function gatewayReport(
  measured: readonly Measurement[],
  { plan, connections, redisVersion }: Circumstances,
): Report {
  return {
    title: 'Gateway: what passing through costs',
    facts: [
      'The proxy under test has one core; the load (this process), the backend (nginx, 12 bytes) and Redis share the other.',
      `${connections} kept-alive connections, one request of 8 headers at a time each. Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all proxies interleaved, after a warm-up of their own.`,
      `redis-server ${redisVersion} of its own on 127.0.0.1. The limit is never reached, or always where it says so. Access and decision logs are off everywhere.`,
      'Processor time is of the proxy only and decides the goals: requests per second also depend on the load and the backend, which share a core.',
      'Goals compare two proxies round by round and take the median of these ratios: a machine that is slow for a while is slow for both.',
    ],
    tables: [
      {
        title: 'Through one core',
        columns: [
          { title: 'proxy', align: 'left' },
          { title: 'limits in', align: 'left' },
          { title: 'processor us/request', align: 'right' },
          { title: 'so many/s fill its core', align: 'right' },
          { title: 'requests/s seen', align: 'right' },
          { title: 'p50 us', align: 'right' },
          { title: 'p99 us', align: 'right' },
        ],
        rows: measured.map(({ candidate, perSecond, cpuUsPerRequest, p50Us, p99Us }) => [
          candidate.name,
          candidate.limits,
          median(cpuUsPerRequest).toFixed(1),
          (1e6 / median(cpuUsPerRequest)).toFixed(0),
          perSecond.toFixed(0),
          p50Us.toFixed(0),
          p99Us.toFixed(0),
        ]),
      },
    ],
    goals: goalsOf(measured),
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
