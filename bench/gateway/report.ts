import type { Plan } from '../frame/rounds.ts';
import type { Goal, Report } from '../frame/suite.ts';
import type { Candidate } from './candidates.ts';

export interface Measurement {
  readonly candidate: Candidate;
  readonly perSecond: number;
  readonly cpuUsPerRequest: number;
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

export function gatewayReport(
  measured: readonly Measurement[],
  { plan, connections, redisVersion }: Circumstances,
): Report {
  return {
    title: 'Gateway: what passing through costs',
    facts: [
      'The proxy under test has one core; the load (this process), the backend (nginx, 12 bytes) and Redis share the other.',
      `${connections} kept-alive connections, one request of 8 headers at a time each. Medians of ${plan.rounds} rounds of ${plan.sliceMs} ms slices, all proxies interleaved, after a warm-up of their own.`,
      `redis-server ${redisVersion} of its own on 127.0.0.1. Everybody passes: the limit is never reached. Access logs are off everywhere.`,
      'Processor time is of the proxy only and decides the goals: requests per second also depend on the load and the backend, which share a core.',
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
          cpuUsPerRequest.toFixed(1),
          (1e6 / cpuUsPerRequest).toFixed(0),
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
  const costOf = (id: string): number =>
    measured.find(({ candidate }) => candidate.id === id)?.cpuUsPerRequest ?? Number.NaN;
  const [bare, memory, redis] = [costOf('spillgate'), costOf('spillgate-memory'), costOf('spillgate-redis')];
  const peers = [costOf('http-proxy-3'), costOf('reply-from')];
  const overPeers = Math.min(...peers) / memory;
  const ofNginx = costOf('nginx-limit') / memory;
  return [
    {
      text: `at least ${WANTED_OVER_PEERS}x the requests per core of http-proxy-3 and @fastify/reply-from, limits included`,
      passed: overPeers >= WANTED_OVER_PEERS,
      detail: `${overPeers.toFixed(2)}x the better of the two; node:http and undici alone, of which ours is made, would be ${(Math.min(...peers) / costOf('bare')).toFixed(2)}x`,
    },
    {
      text: 'at least a quarter of the requests per core of nginx with limit_req',
      passed: ofNginx >= WANTED_OF_NGINX,
      detail: `${(100 * ofNginx).toFixed(0)} %; node:http and undici alone would be at ${((100 * costOf('nginx-limit')) / costOf('bare')).toFixed(0)} %`,
    },
    cost('memory', memory / bare - 1, MOST_ON_MEMORY),
    cost('Redis', redis / bare - 1, MOST_ON_REDIS),
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
