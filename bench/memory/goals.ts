import type { Goal } from '../frame/suite.ts';
import type { Candidate } from './candidate.ts';
import { CANDIDATES } from './candidates.ts';
import { rateLimiterFlexible } from './peers.ts';
import { netNs, rawNs, type Kind } from './cost.ts';
import type { HeapUse } from './heap.ts';
import { formatKeys, type Measured, type Scenario } from './scenario.ts';

const OURS = CANDIDATES.filter(({ ours }) => ours);
const PEERS = CANDIDATES.filter(({ ours }) => !ours);
const MANY_KEYS = 10_000;

interface Call {
  readonly candidate: Candidate;
  readonly kind: Kind;
}

/** How much faster one of our calls is than one of a peer's, in one scenario. */
interface Comparison {
  readonly ours: Candidate;
  readonly peer: Candidate;
  readonly scenario: Scenario;
  readonly netRatio: number;
  readonly rawRatio: number;
}

/** A goal is met when the worst of all comparisons meets it: both of our policies, every peer, every scenario. */
export function memoryGoals(
  measured: readonly Measured[],
  heap: ReadonlyMap<Candidate, HeapUse>,
): readonly Goal[] {
  const manyKeys = measured.filter(({ scenario }) => scenario.keyCount >= MANY_KEYS);
  const ourSync = callsOf(OURS, 'sync');
  const otherPeers = PEERS.filter((peer) => peer !== rateLimiterFlexible);
  return [
    speedGoal(
      'checkSync decides at least 5x as often as rate-limiter-flexible, at 10,000 and 1,000,000 keys',
      5,
      compare(manyKeys, ourSync, callsOf([rateLimiterFlexible], 'awaited')),
    ),
    speedGoal(
      'checkSync is ahead of every other peer, however called, at 10,000 and 1,000,000 keys',
      1,
      compare(manyKeys, ourSync, [...callsOf(otherPeers, 'sync'), ...callsOf(otherPeers, 'awaited')]),
    ),
    speedGoal(
      "awaited check is ahead of every peer's awaited call, at every number of keys",
      1,
      compare(measured, callsOf(OURS, 'awaited'), callsOf(PEERS, 'awaited')),
    ),
    heapGoal(heap),
  ];
}

function callsOf(candidates: readonly Candidate[], kind: Kind): readonly Call[] {
  return candidates.map((candidate) => ({ candidate, kind }));
}

function compare(
  measured: readonly Measured[],
  ours: readonly Call[],
  peers: readonly Call[],
): readonly Comparison[] {
  return measured.flatMap((one) =>
    ours.flatMap((our) => peers.flatMap((peer) => compareCalls(one, our, peer) ?? [])),
  );
}

/** Nothing to compare when one of them has no such call in this scenario. */
function compareCalls(measured: Measured, our: Call, peer: Call): Comparison | undefined {
  const ourRaw = rawNs(measured, our.kind, our.candidate);
  const peerRaw = rawNs(measured, peer.kind, peer.candidate);
  const ourNet = netNs(measured, our.kind, our.candidate);
  const peerNet = netNs(measured, peer.kind, peer.candidate);
  if (ourRaw === undefined || peerRaw === undefined || ourNet === undefined || peerNet === undefined) {
    return undefined;
  }
  return {
    ours: our.candidate,
    peer: peer.candidate,
    scenario: measured.scenario,
    netRatio: peerNet / ourNet,
    rawRatio: peerRaw / ourRaw,
  };
}

function speedGoal(text: string, wanted: number, comparisons: readonly Comparison[]): Goal {
  const [worst] = comparisons.toSorted((a, b) => a.netRatio - b.netRatio);
  if (worst === undefined) return { text, passed: false, detail: 'nothing was measured' };
  const missed = comparisons.filter(({ netRatio }) => netRatio < wanted).length;
  const { keyCount, distribution, outcome } = worst.scenario;
  const where = `${worst.ours.name} against ${worst.peer.name}, ${formatKeys(keyCount)}, ${distribution}, ${outcome}`;
  const ratios = `${worst.netRatio.toFixed(2)}x net, ${worst.rawRatio.toFixed(2)}x raw`;
  return {
    text,
    passed: missed === 0,
    detail: `${comparisons.length - missed} of ${comparisons.length} comparisons; the worst is ${ratios} (${where})`,
  };
}

function heapGoal(heap: ReadonlyMap<Candidate, HeapUse>): Goal {
  const bytesOf = (candidate: Candidate): number => heap.get(candidate)?.bytesPerKey ?? Number.NaN;
  const ours = Math.max(...OURS.map(bytesOf));
  const leanest = Math.min(...PEERS.map(bytesOf));
  return {
    text: 'fewer heap bytes per key than every peer, at 1,000,000 keys',
    passed: ours < leanest,
    detail: `${ours.toFixed(0)} bytes against ${leanest.toFixed(0)} of the leanest peer`,
  };
}
