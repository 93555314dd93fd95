// Leases for several processes of one program: one of them takes a lease for all, and hands out pieces of it. A piece
// of a lease is a lease: an interval of the bucket's virtual time that nobody else has.
import type { CompiledBucket } from '../../algorithms/bucket/bucket.ts';
import { tokenBucketAlgorithm } from '../../algorithms/token-bucket/token-bucket.ts';
import { Limit, planOf, stateName } from '../../limit.ts';
import { tokenBucket } from '../../policy.ts';
import { isRich, LEASED_PART, RICH_FACTOR } from './demand.ts';
import { bucketOf, type LeaseAnswer, type LeaseSource } from './lease-table.ts';
import type { LeaseTally } from './lease-tally.ts';
import { RecentMap } from './recent-map.ts';
import { latestStoreTimeUs, type StoreMoment } from './store-clock.ts';
import { TokenLease } from './token-lease.ts';

/** A question for a lease, as one process passes it on to another. */
export interface LeaseRequest {
  readonly stateId: string;
  readonly stateKey: string;
  readonly numbers: CompiledBucket;
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
      const request = {
        stateId: limit.plan.stateId,
        stateKey: limit.stateKey,
        numbers: bucketOf(limit),
        want,
      };
      return (await relay(request)) ?? source.lease(limit, want);
    },
  };
}

/**
 * Keys of which pieces are handed out; past it, those that were not asked for lately are forgotten, and their leases
 * pass.
 */
const MAX_KEYS = 10_000;
/** How often the store is asked for one question: others may be quicker and take what came. */
const MAX_ATTEMPTS = 3;

interface BrokeredKey {
  readonly limit: Limit;
  readonly numbers: CompiledBucket;
  lease: TokenLease | undefined;
  /** Tokens of the lease that were handed out. */
  handedOut: number;
  moment: StoreMoment;
  /** What the store had left when it was last asked. */
  left: number;
  /** The store granted less than was asked for: asking again would not help. */
  scarce: boolean;
  arrival: Promise<void> | undefined;
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
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const piece = pieceOf(key, request.want);
      if (this.remaining(key) >= piece) return this.handOut(key, piece);
      key.arrival ??= this.ask(key, piece * sharers);
      await key.arrival;
      if (key.scarce) break;
    }
    return this.handOut(key, Math.min(pieceOf(key, request.want), this.remaining(key)));
  }

  drop(limits: readonly Limit[]): void {
    for (const limit of limits) this.keys.delete(stateName(limit));
  }

  /** Gives back what was not handed out, as far as the store can take it. */
  async close(): Promise<void> {
    const keys = this.keys.values();
    this.keys.clear();
    await Promise.allSettled(
      keys.map(async (key) => {
        if (key.lease !== undefined && this.remaining(key) > 0)
          await this.source.returnLease(key.limit, key.lease);
      }),
    );
  }

  private handOut(key: BrokeredKey, tokens: number): LeaseAnswer {
    const storeUs = this.latestUs(key);
    // The latest that the store's clock can show: to whom it is passed on, it is the time of the answer.
    if (tokens < 1 || key.lease?.spend(tokens, storeUs) !== true)
      return { grant: undefined, left: key.left, storeUs };
    key.handedOut += tokens;
    const left = key.left + key.lease.remaining(storeUs);
    return { grant: { tokens, end: key.lease.next }, left, storeUs };
  }

  private async ask(key: BrokeredKey, want: number): Promise<void> {
    const sentUs = this.source.nowUs();
    try {
      const { grant, left, storeUs } = await this.source.lease(key.limit, want);
      this.settle(key);
      key.moment = { storeUs, sentUs, heardUs: this.source.nowUs() };
      key.left = left;
      key.scarce = (grant?.tokens ?? 0) < want;
      key.lease = grant && new TokenLease(key.numbers, grant);
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

  private keyFor({ stateId, stateKey, numbers }: LeaseRequest): BrokeredKey {
    const name = `${stateId}\n${stateKey}`;
    const known = this.keys.get(name);
    // Other numbers are another bucket: what was leased under the old ones passes unused.
    if (known !== undefined && sameNumbers(known.numbers, numbers)) return known;
    const limit = new Limit(SHARED, planOf(tokenBucketAlgorithm, numbers, stateId), stateKey, stateKey);
    const key: BrokeredKey = {
      limit,
      numbers,
      lease: undefined,
      handedOut: 0,
      moment: { storeUs: 0, sentUs: 0, heardUs: 0 },
      left: 0,
      scarce: false,
      arrival: undefined,
    };
    this.keys.set(name, key);
    return key;
  }
}

/** What a process would get of the store itself. */
function pieceOf({ left, numbers: { limit } }: BrokeredKey, want: number): number {
  return isRich({ left, limit })
    ? Math.max(want, Math.min(RICH_FACTOR * want, Math.floor(limit / LEASED_PART)))
    : want;
}

/** In place of the policy, which only the asking process knows. */
const SHARED = tokenBucket({ name: 'shared', average: 1, burst: 1, period: '1s', leases: true });

function sameNumbers(one: CompiledBucket, other: CompiledBucket): boolean {
  return (
    one.limit === other.limit &&
    one.tokenUnits === other.tokenUnits &&
    one.drainUnits === other.drainUnits &&
    one.capacityUnits === other.capacityUnits
  );
}
