import {
  decode,
  decodeRefund,
  encode,
  encodeRefund,
  type Answer,
  type Question,
} from '#limiter/stores/redis/protocol.js';
import { seededRandom, type Random } from '#limiter/testing/random.js';
import type { BucketState, CompiledBucket } from '#limiter/algorithms/bucket/bucket.js';
import { tokenBucketAlgorithm } from '#limiter/algorithms/token-bucket/token-bucket.js';
import type { Redis } from 'ioredis';
import {
  calendarQuota,
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type Policy,
  type StoreVerdict,
} from 'spillgate';
import { doublesIn } from './packed-state.ts';
import { DECIDE_SCRIPT } from './whole-scripts.ts';

const BUCKET_BYTES = 8 * tokenBucketAlgorithm.redis.leastDoubles;
/** All doubles of a state are there: nothing is as in the numbers. */
const ANY_NUMBERS: CompiledBucket = { limit: 1, tokenUnits: 1, drainUnits: 1, capacityUnits: 1 };
const NOON_US = 1_767_268_800_000_000;
const FOREIGN_CLOCK_GRACE_MS = 3_600_000;
/** How long the server may have needed between writing a key and telling how long it lives. */
const TTL_SLACK_MS = 5000;

const POLICIES: readonly Policy[] = [
  tokenBucket({ name: 'bucket', average: 10, burst: 10, period: '1s' }),
  tokenBucket({ name: 'thirds', average: 3, burst: 7, period: '1s' }),
  leakyBucket({ name: 'queue', average: 7, period: '1s', maxDelay: '2s' }),
  fixedWindow({ name: 'fixed', quota: 10, window: '1s' }),
  slidingWindowLog({ name: 'log', quota: 10, window: '1s' }),
  slidingWindowCounter({ name: 'counter', quota: 10, window: '1s' }),
];
/** There it is midnight when it is noon in UTC. */
const DAILY = calendarQuota({ name: 'daily', quota: 10, every: 'day', timeZone: 'Etc/GMT-12' });
const SLOTS = concurrency({ name: 'slots', limit: 10, hold: '1s' });
/** From these programs on. */
const FIRST_DAILY = 301;
const FIRST_SLOTS = 351;
const STEPS_US = [0, 1, 1000, 50_000, 142_857, 333_333, 700_000, 1_000_000];

/**
 * Random programs in two worlds. In the first one a request reserves and gets its money back later; in the second it
 * never came. Throws where the first world has more left than the second, or less than the refund's age explains.
 */
export async function runRefundPrograms(raw: Redis, refundScript: string, programs: number): Promise<void> {
  for (let seed = 1; seed <= programs; seed += 1) {
    await new RefundProgram(raw, refundScript, seed).run();
  }
}

function policyOf(seed: number): Policy {
  if (seed >= FIRST_SLOTS) return SLOTS;
  return seed >= FIRST_DAILY ? DAILY : (POLICIES[seed % POLICIES.length] ?? DAILY);
}

class RefundProgram {
  readonly #raw: Redis;
  readonly #script: string;
  readonly #random: Random;
  readonly #policy: Policy;
  readonly #name: string;
  #nowUs: number;

  constructor(raw: Redis, script: string, seed: number) {
    this.#raw = raw;
    this.#script = script;
    this.#random = seededRandom(seed);
    this.#policy = policyOf(seed);
    this.#name = `program ${seed} under ${this.#policy.name}`;
    // Where a day begins at noon, it does so while a program runs.
    const earlierUs = this.#policy === DAILY ? 2_000_000 : 0;
    this.#nowUs = NOON_US - earlierUs + this.#random.below(1_000_000);
  }

  async run(): Promise<void> {
    await this.#raw.flushall();
    for (let spends = this.#random.below(4); spends > 0; spends -= 1) await this.#spendInBoth();

    const cost = 1 + this.#random.below(4);
    const reserved = await this.#decide('check', 'with', cost);
    if (reserved.verdicts[0]?.allowed !== true) return;
    for (let spends = this.#random.below(4); spends > 0; spends -= 1) await this.#spendInBoth();
    this.#advance();
    await this.#refund(cost, reserved);

    for (let looks = 0; looks < 3; looks += 1) {
      await this.#compare(cost, reserved.atUs);
      this.#advance();
    }
  }

  /** What the world with the reservation admits, the other one must admit too. */
  async #spendInBoth(): Promise<void> {
    this.#advance();
    const cost = 1 + this.#random.below(3);
    const spent = await this.#decide('check', 'with', cost);
    if (spent.verdicts[0]?.allowed !== true) return;
    const other = await this.#decide('check', 'without', cost);
    if (other.verdicts[0]?.allowed !== true) this.#fail('the reservation made room');
  }

  #advance(): void {
    this.#nowUs += this.#random.pick(STEPS_US);
  }

  async #decide(verb: 'check' | 'peek', world: string, cost: number): Promise<Answer> {
    const question = this.#question(verb, world, cost);
    const args = encode([question], String(this.#nowUs));
    const [answer] = decode([question], await this.#raw.call('EVAL', DECIDE_SCRIPT, '1', world, ...args));
    return answer ?? this.#fail('a state is damaged');
  }

  async #refund(cost: number, reserved: Answer): Promise<void> {
    const before = await this.#readBucket();
    const refund = { question: this.#question('check', 'with', cost), reserved };
    const args = encodeRefund(refund, String(this.#nowUs));
    const reply = await this.#raw.call('EVAL', this.#script, '1', 'with', ...args);
    const [verdict] = decodeRefund(refund, reply);
    const [seen] = (await this.#decide('peek', 'with', 0)).verdicts;
    if (JSON.stringify(verdict) !== JSON.stringify(seen)) this.#fail('the refund tells another state');
    await this.#requireExpiry(seen);
    const after = await this.#readBucket();
    if (before !== undefined) this.#requireAgedCredit({ before, after, cost, reservedAtUs: reserved.atUs });
  }

  async #requireExpiry(verdict: StoreVerdict | undefined): Promise<void> {
    const leftMs = await this.#raw.pttl('with');
    const resetAfterMs = Math.ceil((verdict?.resetAfterUs ?? 0) / 1000);
    if (resetAfterMs === 0) {
      // What was there before and has run out by itself may stay until it expires.
      if (leftMs === -1) this.#fail('a state has no expiry');
      return;
    }
    const longestMs = resetAfterMs + FOREIGN_CLOCK_GRACE_MS;
    if (leftMs < longestMs - TTL_SLACK_MS) this.#fail('a state expires too early');
    if (leftMs > longestMs + 10_000) this.#fail('a state expires too late');
  }

  async #readBucket(): Promise<BucketState | undefined> {
    const bytes = await this.#raw.getBuffer('with');
    if (bytes?.length !== BUCKET_BYTES) return undefined;
    return tokenBucketAlgorithm.redis.fromDoubles(doublesIn(bytes), ANY_NUMBERS);
  }

  /** credit = max(0, cost * interval - elapsed), in exact units. */
  #requireAgedCredit({ before, after, cost, reservedAtUs }: AgedCredit): void {
    const { tokenUnits, drainUnits } = before;
    const elapsedUs = BigInt(this.#nowUs - reservedAtUs);
    const credit = BigInt(cost) * BigInt(tokenUnits) - elapsedUs * BigInt(drainUnits);
    const expected = unitsOf(before) - (credit > 0n ? credit : 0n);
    const nowUnits = BigInt(this.#nowUs) * BigInt(drainUnits);
    if (after === undefined) {
      if (expected > nowUnits) this.#fail('a debt was dropped');
    } else if (unitsOf(after) !== expected) {
      this.#fail('the credit is not the aged one');
    } else if (!(after.fraction >= 0 && after.fraction < after.drainUnits)) {
      this.#fail('the fraction is more than a microsecond');
    }
  }

  async #compare(cost: number, reservedAtUs: number): Promise<void> {
    for (const look of [0, 1, 3]) {
      const [kept] = (await this.#decide('peek', 'with', look)).verdicts;
      const [free] = (await this.#decide('peek', 'without', look)).verdicts;
      if (kept === undefined || free === undefined) return this.#fail('no verdict');
      if (kept.remaining > free.remaining) this.#fail('the refund minted');
      if (kept.allowed && !free.allowed) this.#fail('the refund admits more');
      // A count is given back whole; of a debt, at most what drained in the meantime is kept.
      const { algorithm, numbers } = this.#policy.plan;
      const isCount = algorithm.rateId(numbers) === '';
      const { unitsIn } = algorithm.advertise(numbers);
      const lost = isCount ? 0 : Math.ceil(unitsIn(this.#nowUs - reservedAtUs)) + 1;
      if (kept.remaining < free.remaining - Math.min(cost, lost)) this.#fail('the refund is too small');
      if (lost === 0 && JSON.stringify(kept) !== JSON.stringify(free))
        this.#fail('a count was not given back');
    }
  }

  #question(verb: 'check' | 'peek', world: string, cost: number): Question {
    return { verb, cost, limits: [this.#policy.for('k')], keys: [world] };
  }

  #fail(what: string): never {
    throw new Error(`${this.#name}: ${what}`);
  }
}

interface AgedCredit {
  readonly before: BucketState;
  readonly after: BucketState | undefined;
  readonly cost: number;
  readonly reservedAtUs: number;
}

function unitsOf({ tatUs, fraction, drainUnits }: BucketState): bigint {
  return BigInt(tatUs) * BigInt(drainUnits) + BigInt(fraction);
}
