// Leases for several processes of one program: one of them takes a lease for all, and hands out pieces of it. A piece
// of a lease is a lease: units of the limit that nobody else has.
import type { AnyNumbers } from '../../algorithms/algorithm.ts';
import { ALGORITHMS, type AlgorithmName } from '../../algorithms/index.ts';
import type { HeldLease } from '../../algorithms/lease.ts';
import { Limit, planOf, stateName } from '../../limit.ts';
import { tokenBucket } from '../../policy.ts';
import { isRich, LEASED_PART, RICH_FACTOR } from './demand.ts';
import type { LeaseAnswer, LeaseSource } from './lease-table.ts';
import type { LeaseTally } from './lease-tally.ts';
import { leasesOf } from './leased-plan.ts';
import { RecentMap } from './recent-map.ts';
import { latestStoreTimeUs, type StoreMoment } from './store-clock.ts';

/** A question for a lease, as one process passes it on to another. */
export interface LeaseRequest {
  readonly algorithm: AlgorithmName;
  readonly stateId: string;
  readonly stateKey: string;
  readonly numbers: AnyNumbers;
  readonly want: number;
}

/** Passes a question on to another process of the same program. Undefined: it cannot answer, so ask the store. */
export type LeaseRelay = (request: LeaseRequest) => Promise<LeaseAnswer | undefined>;

/** The same source, but another process is asked for leases first. */
export function relayed(source: LeaseSource, relay: LeaseRelay | undefined): LeaseSource {
  if (relay === undefined) return source;
  return {
    ...source,
    async lease(limit, want) {
      const { algorithm, stateId, numbers } = limit.plan;
      const request = { algorithm: algorithm.name, stateId, stateKey: limit.stateKey, numbers, want };
      return (await relay(request)) ?? source.lease(limit, want);
    },
  };
}

/**
 * Keys of which pieces are handed out; past it, those that were not asked for lately are forgotten, and their leases
 * pass. Of windows, hardly anything is left by then: who is not asked gives it back.
 */
const MAX_KEYS = 10_000;
/** How often the store is asked for one question: others may be quicker and take what came. */
const MAX_ATTEMPTS = 3;
/** As in the processes that ask. */
const IDLE_US = 500_000;

interface BrokeredKey {
  readonly limit: Limit;
  lease: HeldLease | undefined;
  /** By this process's clock. */
  lastAskedUs: number;
  /** Tokens of the lease that were handed out. */
  handedOut: number;
  moment: StoreMoment;
  /** What the store had left when it was last asked. */
  left: number;
  /** The store granted less than was asked for: asking again would not help. */
  scarce: boolean;
  arrival: Promise<void> | undefined;
  /** Its numbers are no longer those that are asked for. */
  isReplaced: boolean;
}

export class LeaseBroker {
  private readonly source: LeaseSource;
  private readonly tally: LeaseTally;
  private readonly keys = new RecentMap<BrokeredKey>(MAX_KEYS);

  constructor(source: LeaseSource, tally: LeaseTally) {
    this.source = source;
    this.tally = tally;
  }

  /** Answers as the store would. `sharers`: how many processes ask, each for itself. */
  async lease(request: LeaseRequest, sharers: number): Promise<LeaseAnswer> {
    const key = this.keyFor(request);
    key.lastAskedUs = this.source.nowUs();
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const piece = pieceOf(key, request.want);
      if (this.remaining(key) >= piece) return this.handOut(key, piece);
      key.arrival ??= this.ask(key, piece * sharers);
      await key.arrival;
      if (key.scarce) break;
    }
    const answer = this.handOut(key, Math.min(pieceOf(key, request.want), this.remaining(key)));
    if (key.isReplaced) this.letGo(key);
    return answer;
  }

  drop(limits: readonly Limit[]): void {
    for (const limit of limits) this.keys.delete(stateName(limit));
  }

  /** Gives back what was not handed out, as far as the store can take it. */
  async close(): Promise<void> {
    const keys = this.keys.values();
    this.keys.clear();
    // What is on its way is given back, too, except for what it was asked for.
    await Promise.allSettled(keys.map(async ({ arrival }) => arrival));
    await Promise.allSettled(
      keys.map(async (key) => {
        if (key.lease !== undefined && key.lease.returnable(this.latestUs(key)) > 0)
          await this.source.returnLease(key.limit, key.lease.rest);
      }),
    );
  }

  /** Gives back what nobody has asked for in a while, where it would stay charged otherwise. */
  sweep(): void {
    const nowUs = this.source.nowUs();
    for (const key of this.keys.values())
      if (nowUs - key.lastAskedUs >= IDLE_US && key.arrival === undefined) this.letGo(key);
  }

  /** Ends the lease of a key. What is left of it passes by itself, or is given back; nobody waits for that. */
  private letGo(key: BrokeredKey): void {
    const { lease, limit } = key;
    if (lease === undefined) return;
    this.settle(key);
    key.lease = undefined;
    if (!leasesOf(limit.plan).passes && lease.returnable(this.latestUs(key)) > 0)
      void this.source.returnLease(limit, lease.rest).catch(() => false);
  }

  private handOut(key: BrokeredKey, tokens: number): LeaseAnswer {
    const storeUs = this.latestUs(key);
    // The latest that the store's clock can show: to whom it is passed on, it is the time of the answer.
    const grant = tokens < 1 ? undefined : key.lease?.handOut(tokens, storeUs);
    if (grant === undefined || key.lease === undefined) return { grant: undefined, left: key.left, storeUs };
    key.handedOut += tokens;
    return { grant, left: key.left + key.lease.remaining(storeUs), storeUs };
  }

  private async ask(key: BrokeredKey, want: number): Promise<void> {
    const sentUs = this.source.nowUs();
    try {
      const { grant, left, storeUs } = await this.source.lease(key.limit, want);
      this.letGo(key);
      key.moment = { storeUs, sentUs, heardUs: this.source.nowUs() };
      key.left = left;
      key.scarce = (grant?.tokens ?? 0) < want;
      key.lease = grant && leasesOf(key.limit.plan).hold(key.limit.plan.numbers, grant);
    } finally {
      key.arrival = undefined;
    }
  }

  /** What was not handed out of the lease that is over has expired. */
  private settle(key: BrokeredKey): void {
    if (key.lease !== undefined) this.tally.granted += key.lease.tokens - key.handedOut;
    key.handedOut = 0;
  }

  private remaining(key: BrokeredKey): number {
    return key.lease?.remaining(this.latestUs(key)) ?? 0;
  }

  private latestUs({ moment }: BrokeredKey): number {
    return latestStoreTimeUs(moment, this.source.nowUs());
  }

  private keyFor({ algorithm, stateId, stateKey, numbers }: LeaseRequest): BrokeredKey {
    const name = `${stateId}\n${stateKey}`;
    const known = this.keys.get(name);
    // Other numbers are another limit: what was leased under the old ones is not handed out.
    if (known !== undefined && sameNumbers(known.limit.plan.numbers, numbers)) return known;
    if (known !== undefined) {
      known.isReplaced = true;
      if (known.arrival === undefined) this.letGo(known);
    }
    const limit = new Limit(SHARED, planOf(ALGORITHMS[algorithm], numbers, stateId), stateKey, stateKey);
    const key: BrokeredKey = {
      limit,
      lastAskedUs: this.source.nowUs(),
      lease: undefined,
      handedOut: 0,
      moment: { storeUs: 0, sentUs: 0, heardUs: 0 },
      left: 0,
      scarce: false,
      arrival: undefined,
      isReplaced: false,
    };
    this.keys.set(name, key);
    return key;
  }
}

/** What a process would get of the store itself. */
function pieceOf({ left, limit: { plan } }: BrokeredKey, want: number): number {
  const { limit } = plan;
  return isRich({ limit, passes: leasesOf(plan).passes }, left)
    ? Math.max(want, Math.min(RICH_FACTOR * want, Math.floor(limit / LEASED_PART)))
    : want;
}

/** In place of the policy, which only the asking process knows. */
const SHARED = tokenBucket({ name: 'shared', average: 1, burst: 1, period: '1s', leases: true });

function sameNumbers(one: AnyNumbers, other: AnyNumbers): boolean {
  const others = new Map<string, unknown>(Object.entries(other));
  return Object.entries(one).every(([name, value]) => others.get(name) === value);
}
