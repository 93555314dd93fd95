import type { Goal } from '../frame/suite.ts';
import { bareIoredis, bareNodeRedis } from './references.ts';
import { spillgateIoredis, spillgateNodeRedis } from './ours.ts';
import type { Entrant, Measured, Measurement } from './scenario.ts';

const WANTED_RATIO = 2;
const MANY_IN_FLIGHT = 64;
const SATURATING_IN_FLIGHT = 256;
/** Of the bare call's latency. */
const WANTED_OVERHEAD = 0.1;

/** The client that each of ours uses, without us. */
const BARE_CALLS: readonly (readonly [Entrant, Entrant])[] = [
  [spillgateIoredis, bareIoredis],
  [spillgateNodeRedis, bareNodeRedis],
];

/** `measured` is the mixed load under steady arrival, in every number in flight. */
export function redisGoals(measured: readonly Measured[]): readonly Goal[] {
  return [aheadOfPeers(measured), closeToBareCall(measured), redisIsTheBottleneck(measured)];
}

/** Both of our clients against every peer: the worst comparison decides. */
function aheadOfPeers(measured: readonly Measured[]): Goal {
  const comparisons = measured
    .filter(({ traffic }) => traffic.inFlight >= MANY_IN_FLIGHT)
    .flatMap(({ traffic, results }) =>
      ofRole(results, 'ours').flatMap(([ours, our]) =>
        ofRole(results, 'peer').map(([peer, their]) => ({
          where: `${ours.name} against ${peer.name} at ${traffic.inFlight}`,
          ratio: our.perSecond / their.perSecond,
          latencies: `p50 ${our.latencyUs.p50.toFixed(0)} us against ${their.latencyUs.p50.toFixed(0)} us`,
          met: our.perSecond >= WANTED_RATIO * their.perSecond && our.latencyUs.p50 < their.latencyUs.p50,
        })),
      ),
    );
  const [worst] = comparisons.toSorted((a, b) => a.ratio - b.ratio);
  const met = comparisons.filter((comparison) => comparison.met).length;
  return {
    text: 'at 64, 256 and 1,024 in flight at least 2x the decisions per second of every peer, with a lower p50',
    passed: comparisons.length > 0 && met === comparisons.length,
    detail: `${met} of ${comparisons.length} comparisons; the worst is ${worst?.ratio.toFixed(2) ?? '?'}x, ${worst?.latencies ?? '?'} (${worst?.where ?? 'nothing was measured'})`,
  };
}

function closeToBareCall(measured: readonly Measured[]): Goal {
  const results = measured.find(({ traffic }) => traffic.inFlight === 1)?.results;
  const comparisons = BARE_CALLS.map(([ours, bare]) => {
    const ourUs = results?.get(ours)?.latencyUs.p50 ?? Number.NaN;
    const bareUs = results?.get(bare)?.latencyUs.p50 ?? Number.NaN;
    return { ours, ourUs, bareUs, overhead: ourUs / bareUs - 1 };
  });
  return {
    text: 'at 1 in flight a p50 within 10 % of a bare EVALSHA through the same client',
    passed: comparisons.every(({ overhead }) => overhead <= WANTED_OVERHEAD),
    detail: comparisons
      .map(
        ({ ours, ourUs, bareUs, overhead }) =>
          `${ours.name} ${ourUs.toFixed(0)} us against ${bareUs.toFixed(0)} us, ${signedPercent(overhead)}`,
      )
      .join('; '),
  };
}

function redisIsTheBottleneck(measured: readonly Measured[]): Goal {
  const shares = measured
    .filter(({ traffic }) => traffic.inFlight >= SATURATING_IN_FLIGHT)
    .flatMap(({ traffic, results }) =>
      ofRole(results, 'ours').map(([{ name }, { node, redis }]) => ({
        where: `${name} at ${traffic.inFlight}`,
        redis: redis.share,
        node: node?.share ?? Number.NaN,
      })),
    );
  return {
    text: 'from 256 in flight Redis, not Node, is the bottleneck',
    passed: shares.length > 0 && shares.every(({ redis, node }) => redis > node),
    detail: shares
      .map(({ where, redis, node }) => `${where}: Redis ${percent(redis)}, Node ${percent(node)} of a core`)
      .join('; '),
  };
}

function ofRole(
  results: Measured['results'],
  role: Entrant['role'],
): readonly (readonly [Entrant, Measurement])[] {
  return [...results].filter(([entrant]) => entrant.role === role);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

function signedPercent(share: number): string {
  return `${share < 0 ? '' : '+'}${percent(share)}`;
}
