// What reservations promise, decided a second time: by definition, in exact fractions, and from a list of everything
// that was ever charged.
import {
  add,
  ceil,
  floor,
  isAtMost,
  larger,
  multiply,
  rational,
  smaller,
  subtract,
  type Rational,
} from '../model/rational.ts';

/** One key under one policy. */
export interface Ledger {
  readonly limit: number;
  /** The largest cost that fits; none where it owes something. */
  room(nowUs: number): number;
  charge(cost: number, nowUs: number): Entry;
  /** Gives back so much of what an entry cost. */
  refund(entry: Entry, cost: number, nowUs: number): void;
  /** Charges as much of the cost as the bound on debts has room for, and tells how much that was. */
  owe(cost: number, nowUs: number): number;
}

/** What was charged at once. */
export interface Entry {
  readonly atUs: number;
  /** What is left of it. */
  cost: number;
}

/** Counts what was charged in a span of time, as if everything had cost from the beginning what is known now. */
export function countingLedger({ limit, maxDebt, used }: Counting): Ledger {
  const entries: Entry[] = [];
  const charge = (cost: number, nowUs: number): Entry => {
    const entry = { atUs: nowUs, cost };
    entries.push(entry);
    return entry;
  };
  return {
    limit,
    room: (nowUs) => Math.max(0, limit - Number(ceil(used(entries, nowUs)))),
    charge,
    refund(entry, cost) {
      entry.cost -= cost;
    },
    owe(cost, nowUs) {
      const charged = Math.min(cost, Math.max(0, limit + maxDebt - Number(ceil(used(entries, nowUs)))));
      if (charged > 0) charge(charged, nowUs);
      return charged;
    },
  };
}

interface Counting {
  readonly limit: number;
  readonly maxDebt: number;
  readonly used: (entries: readonly Entry[], nowUs: number) => Rational;
}

function sum(entries: readonly Entry[], counts: (entry: Entry) => boolean): Rational {
  return rational(entries.reduce((total, entry) => total + (counts(entry) ? BigInt(entry.cost) : 0n), 0n));
}

/** Within windows of this length since 1970. */
export function usedInWindow(windowUs: number): Counting['used'] {
  return (entries, nowUs) =>
    sum(entries, ({ atUs }) => Math.floor(atUs / windowUs) === Math.floor(nowUs / windowUs));
}

/** Within the latest span of this length. */
export function usedInSpan(windowUs: number): Counting['used'] {
  return (entries, nowUs) => sum(entries, ({ atUs }) => atUs > nowUs - windowUs);
}

/** In this window, and the share of the one before that a span ending now still covers. */
export function usedInWeightedWindows(windowUs: number): Counting['used'] {
  return (entries, nowUs) => {
    const index = Math.floor(nowUs / windowUs);
    const inWindow = (wanted: number): Rational =>
      sum(entries, ({ atUs }) => Math.floor(atUs / windowUs) === wanted);
    const coveredUs = windowUs - (nowUs - index * windowUs);
    const before = multiply(inWindow(index - 1), coveredUs);
    return add(inWindow(index), rational(before.numerator, before.denominator * BigInt(windowUs)));
  };
}

interface Draining {
  readonly average: number;
  readonly periodUs: number;
  readonly maxDebt: number;
  /** What the bucket holds, in tokens. */
  readonly capacity: Rational;
  /** Where others have been told their moments, only what nobody stands behind is given back. */
  readonly isQueue: boolean;
}

/** A bucket as what it owes: it drains at a steady rate. */
export function drainingLedger({ average, periodUs, maxDebt, capacity, isQueue }: Draining): Ledger {
  let owed = rational(0);
  let sinceUs = 0;
  /** When each entry, charged last, would have drained. */
  const endsAt = new WeakMap<Entry, Rational>();
  const drained = (us: number): Rational => rational(BigInt(us) * BigInt(average), periodUs);
  const pass = (nowUs: number): void => {
    owed = larger(rational(0), subtract(owed, drained(nowUs - sinceUs)));
    sinceUs = nowUs;
  };
  /** In microseconds times `average`, so that it is a whole number times 1 / average. */
  const end = (): Rational =>
    add(rational(sinceUs), rational(owed.numerator * BigInt(periodUs), owed.denominator * BigInt(average)));
  const owedAt = (nowUs: number): Rational => larger(rational(0), subtract(owed, drained(nowUs - sinceUs)));
  const free = (nowUs: number, most: Rational): number =>
    Math.max(0, Number(floor(subtract(most, owedAt(nowUs)))));
  const charge = (cost: number, nowUs: number): Entry => {
    pass(nowUs);
    owed = add(owed, rational(cost));
    const entry = { atUs: nowUs, cost };
    endsAt.set(entry, end());
    return entry;
  };
  return {
    limit: Number(floor(capacity)),
    room: (nowUs) => free(nowUs, capacity),
    charge,
    refund(entry, cost, nowUs) {
      const isLast =
        endsAt.has(entry) &&
        isSame(endsAt.get(entry) ?? rational(0), end()) &&
        !isSame(owedAt(nowUs), rational(0));
      entry.cost -= cost;
      pass(nowUs);
      const aged = larger(rational(0), subtract(rational(cost), drained(nowUs - entry.atUs)));
      if (isQueue && !isLast) return;
      owed = larger(rational(0), subtract(owed, isQueue ? rational(cost) : aged));
      if (isQueue) endsAt.set(entry, end());
    },
    owe(cost, nowUs) {
      const charged = Math.min(cost, free(nowUs, add(capacity, rational(maxDebt))));
      if (charged > 0) charge(charged, nowUs);
      return charged;
    },
  };
}

function isSame(a: Rational, b: Rational): boolean {
  return isAtMost(a, b) && isAtMost(b, a);
}

/** The most that a sequence of charges, at what they cost in the end, ever owed a bucket. */
export function mostOwed(entries: readonly Entry[], average: number, periodUs: number): Rational {
  let owed = rational(0);
  let most = rational(0);
  let sinceUs = 0;
  for (const { atUs, cost } of entries.toSorted((a, b) => a.atUs - b.atUs)) {
    const drained = rational(BigInt(atUs - sinceUs) * BigInt(average), periodUs);
    owed = add(larger(rational(0), subtract(owed, drained)), rational(cost));
    most = larger(most, smaller(owed, owed));
    sinceUs = atUs;
  }
  return most;
}
