// The engine behind the token bucket and the leaky bucket. Both keep one number: the theoretical arrival
// time (TAT), the moment at which the bucket has drained everything admitted so far. Time is in whole
// microseconds; a debt is counted in *units*, so small that one microsecond drains a whole number of them.
import {
  MAX_TIME_US,
  NEVER,
  TOLERATED_STEP_US,
  type Outcome,
  type AdvertisedRate,
  type RedisLayout,
  type StatePacking,
} from '../algorithm.ts';

export interface CompiledBucket {
  /** The largest cost that can ever be admitted: floor(capacityUnits / tokenUnits). */
  readonly limit: number;
  /** Units one token weighs. */
  readonly tokenUnits: number;
  /** Units that drain in one microsecond. */
  readonly drainUnits: number;
  /** Debt the bucket can hold. capacityUnits + tokenUnits + drainUnits < 2^53 keeps all of this exact. */
  readonly capacityUnits: number;
}

export interface BucketState {
  /** TAT = tatUs + fraction / drainUnits, with 0 <= fraction < drainUnits. */
  readonly tatUs: number;
  readonly fraction: number;
  /** The rate this state was written under, so that a change of numbers can carry the debt over. */
  readonly tokenUnits: number;
  readonly drainUnits: number;
  /** The most it can have owed when it was written: more than that is a clock that has stepped back since. */
  readonly capacityUnits: number;
}

export function decideBucket(
  state: BucketState | undefined,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  // A debt that has drained decides as if it were absent, however late its key expires.
  if (state === undefined || state.tatUs < nowUs) return settle(nowUs, 0, numbers, cost, nowUs, out);
  // The first question is the cheap one: it spares nearly all decisions the second.
  if (state.tatUs - nowUs > TOLERATED_STEP_US && hasSteppedBack(state, nowUs)) {
    return settleAfterStepBack(state, numbers, cost, nowUs, out);
  }
  return settleOwed(state, numbers, cost, nowUs, out);
}

/** More is owed than ever could be, by more than is tolerated. */
function hasSteppedBack(state: BucketState, nowUs: number): boolean {
  const fullUs = Math.ceil(state.capacityUnits / state.drainUnits);
  return state.tatUs - nowUs - fullUs > Math.max(fullUs, TOLERATED_STEP_US);
}

function settleOwed(
  state: BucketState,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  if (state.drainUnits === numbers.drainUnits && state.tokenUnits === numbers.tokenUnits) {
    return settle(state.tatUs, state.fraction, numbers, cost, nowUs, out);
  }
  return settleUnderNewRate(state, numbers, cost, nowUs, out);
}

/** The clock stepped back by more than is tolerated: whatever was left then, the bucket is empty now. */
function settleAfterStepBack(
  state: BucketState,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  const emptied = stateOf(state.capacityUnits, state, nowUs);
  settleOwed(emptied, numbers, cost, nowUs, out);
  out.carried ??= emptied;
  return out;
}

export function bucketAbsentAtUs(state: BucketState): number {
  return state.fraction > 0 ? state.tatUs + 1 : state.tatUs;
}

/** Decides with a debt that ends at tatUs + fraction / drainUnits, not before `nowUs`. */
function settle(
  tatUs: number,
  fraction: number,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  const { tokenUnits, drainUnits, capacityUnits } = numbers;
  if (cost === 0) return unspent(tatUs, fraction, numbers, nowUs, 0, out);
  if (cost > numbers.limit) return unspent(tatUs, fraction, numbers, nowUs, NEVER, out);
  const costUnits = cost * tokenUnits;
  const waitUs = tatUs - nowUs;
  // debt <= capacity - cost, divided by the rate: no product can overflow, however far a clock stepped back.
  const leadUs = Math.floor((capacityUnits - costUnits - fraction) / drainUnits);
  if (waitUs > leadUs) return unspent(tatUs, fraction, numbers, nowUs, waitUs - leadUs, out);

  const owedUnits = fraction + costUnits;
  const owedUs = Math.floor(owedUnits / drainUnits);
  const spentTatUs = tatUs + owedUs;
  const spentFraction = owedUnits - owedUs * drainUnits;
  const debtUnits = (spentTatUs - nowUs) * drainUnits + spentFraction;
  out.allowed = true;
  out.remaining = Math.floor((capacityUnits - debtUnits) / tokenUnits);
  out.retryAfterUs = 0;
  out.resetAfterUs = spentTatUs - nowUs + (spentFraction > 0 ? 1 : 0);
  out.delayUs = waitUs + (fraction > 0 ? 1 : 0);
  out.spent = { tatUs: spentTatUs, fraction: spentFraction, tokenUnits, drainUnits, capacityUnits };
  out.carried = undefined;
  return out;
}

/** The answer that leaves the debt as it is: a look (retryAfterUs 0) or a denial. */
function unspent(
  tatUs: number,
  fraction: number,
  numbers: CompiledBucket,
  nowUs: number,
  retryAfterUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  const { tokenUnits, drainUnits, capacityUnits } = numbers;
  const waitUs = tatUs - nowUs;
  const overdrawn = waitUs > Math.floor((capacityUnits - fraction) / drainUnits);
  const drainedUs = waitUs + (fraction > 0 ? 1 : 0);
  out.allowed = retryAfterUs === 0;
  out.remaining = overdrawn ? 0 : Math.floor((capacityUnits - waitUs * drainUnits - fraction) / tokenUnits);
  out.retryAfterUs = retryAfterUs;
  out.resetAfterUs = drainedUs;
  out.delayUs = retryAfterUs === 0 ? drainedUs : 0;
  out.spent = undefined;
  out.carried = undefined;
  return out;
}

/**
 * The policy's numbers changed since the state was written. The debt is carried over in tokens, rounded up:
 * a larger burst frees only the difference, a smaller one acts at once, and instances that disagree about the
 * numbers never admit more than the more generous of them alone would.
 */
function settleUnderNewRate(
  state: BucketState,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  // What cannot be counted is more than any bucket holds: here, too, the clock has stepped back.
  const countableUs = Math.floor((Number.MAX_SAFE_INTEGER - state.fraction) / state.drainUnits);
  const owed = state.tatUs - nowUs > countableUs ? stateOf(state.capacityUnits, state, nowUs) : state;
  const debtUnits = convertDebt(owed, numbers, nowUs);
  const slower = numbers.drainUnits / numbers.tokenUnits < owed.drainUnits / owed.tokenUnits;
  // What no longer fits drains at the old, faster rate first: forgetting it would mint tokens for whoever still
  // uses the old numbers, draining it at the new rate could lock a key out for years. The same for a debt that cannot
  // even be counted in the new units.
  const stuck = debtUnits > numbers.capacityUnits && (slower || debtUnits === Infinity);
  if (stuck) {
    awaitOldDebt(owed, numbers, cost, nowUs, out);
    out.carried = owed === state ? undefined : owed;
    return out;
  }
  const carried = stateOf(debtUnits, numbers, nowUs);
  settle(carried.tatUs, carried.fraction, numbers, cost, nowUs, out);
  out.carried = carried;
  return out;
}

/** The debt in units of the new rate, rounded up; Infinity where those would leave what can be counted exactly. */
function convertDebt(state: BucketState, numbers: CompiledBucket, nowUs: number): number {
  const oldUnits = (state.tatUs - nowUs) * state.drainUnits + state.fraction;
  const tokens = Math.floor(oldUnits / state.tokenUnits);
  const restUnits = oldUnits - tokens * state.tokenUnits;
  const product = restUnits * numbers.tokenUnits;
  // Past 2^53 the quotient may be off by less than two units: round up by that much, never down.
  const rest =
    product + state.tokenUnits <= Number.MAX_SAFE_INTEGER
      ? Math.ceil(product / state.tokenUnits)
      : Math.min(numbers.tokenUnits, Math.ceil((restUnits / state.tokenUnits) * numbers.tokenUnits) + 2);
  const mostUnits = Math.min(Number.MAX_SAFE_INTEGER, MAX_TIME_US * numbers.drainUnits);
  const units = tokens * numbers.tokenUnits + rest;
  return units > mostUnits ? Infinity : units;
}

function awaitOldDebt(
  state: BucketState,
  numbers: CompiledBucket,
  cost: number,
  nowUs: number,
  out: Outcome<BucketState>,
): Outcome<BucketState> {
  const { limit, tokenUnits, drainUnits, capacityUnits } = numbers;
  // The debt is above `limit` tokens here, so this product is below the old debt and exact.
  const fitsUs = Math.floor((limit * state.tokenUnits - state.fraction) / state.drainUnits);
  // Never negative: a bucket that takes 142 years to drain may hold a little more than can be counted in time.
  const clearUs = Math.max(0, state.tatUs - nowUs - fitsUs);
  const spareUnits = capacityUnits - limit * tokenUnits;
  const thenUs = Math.max(0, Math.ceil((cost * tokenUnits - spareUnits) / drainUnits));
  const resetAfterUs = clearUs + Math.ceil((limit * tokenUnits) / drainUnits);
  out.allowed = cost === 0;
  out.remaining = 0;
  out.retryAfterUs = cost === 0 ? 0 : cost > limit ? NEVER : clearUs + thenUs;
  out.resetAfterUs = resetAfterUs;
  out.delayUs = cost === 0 ? resetAfterUs : 0;
  out.spent = undefined;
  out.carried = undefined;
  return out;
}

/** The state that owes `debtUnits` at `nowUs`. */
function stateOf(
  debtUnits: number,
  { tokenUnits, drainUnits, capacityUnits }: Omit<CompiledBucket, 'limit'>,
  nowUs: number,
): BucketState {
  const wholeUs = Math.floor(debtUnits / drainUnits);
  return {
    tatUs: nowUs + wholeUs,
    fraction: debtUnits - wholeUs * drainUnits,
    tokenUnits,
    drainUnits,
    capacityUnits: Math.max(capacityUnits, debtUnits),
  };
}

// What the token bucket and the leaky bucket have in common besides deciding: how clients are told their rate, and how
// a state is kept.
export function advertiseBucket(numbers: CompiledBucket): AdvertisedRate {
  const { limit, tokenUnits, drainUnits, capacityUnits } = numbers;
  return {
    refillUs: (limit * tokenUnits) / drainUnits,
    unitsIn: (spanUs) => (spanUs * drainUnits) / tokenUnits,
    afterFirstUnitUs: Math.floor((capacityUnits - tokenUnits) / drainUnits),
  };
}

/** A debt drains at a rate: a key with another rate would make it drain faster or slower for the others. */
export function bucketRateId({ tokenUnits, drainUnits }: CompiledBucket): string {
  return `${tokenUnits}/${drainUnits}`;
}

export function bucketPacking(numbers: CompiledBucket): StatePacking<BucketState> {
  return new BucketPacking(numbers);
}

/** Nearly all keys of a policy have its own numbers; only a key with others keeps them with it. */
class BucketPacking implements StatePacking<BucketState> {
  readonly cells = 2;
  private readonly last: { -readonly [Field in keyof BucketState]: BucketState[Field] };

  constructor({ tokenUnits, drainUnits, capacityUnits }: CompiledBucket) {
    this.last = { tatUs: 0, fraction: 0, tokenUnits, drainUnits, capacityUnits };
  }

  fits(state: BucketState): boolean {
    const { last } = this;
    return (
      state.tokenUnits === last.tokenUnits &&
      state.drainUnits === last.drainUnits &&
      state.capacityUnits === last.capacityUnits
    );
  }

  read(cells: Float64Array, at: number): BucketState {
    const { last } = this;
    last.tatUs = cells[at] ?? 0;
    last.fraction = cells[at + 1] ?? 0;
    return last;
  }

  write(cells: Float64Array, at: number, state: BucketState): void {
    cells[at] = state.tatUs;
    cells[at + 1] = state.fraction;
  }
}

export const BUCKET_LAYOUT: Omit<RedisLayout<CompiledBucket, BucketState>, 'number'> = {
  numbers: { limit: 1, tokenUnits: 1, drainUnits: 1, capacityUnits: 0 },
  leastDoubles: 5,
  recordDoubles: 0,
  toDoubles: ({ tatUs, fraction, tokenUnits, drainUnits, capacityUnits }) => [
    tatUs,
    fraction,
    tokenUnits,
    drainUnits,
    capacityUnits,
  ],
  // Nearly every state was written under the numbers that ask. (By place: taking a list apart by name is slower.)
  fromDoubles: (doubles, numbers) => ({
    tatUs: doubles[0] ?? 0,
    fraction: doubles[1] ?? 0,
    tokenUnits: doubles[2] ?? numbers.tokenUnits,
    drainUnits: doubles[3] ?? numbers.drainUnits,
    capacityUnits: doubles[4] ?? numbers.capacityUnits,
  }),
};
