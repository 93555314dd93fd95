import type { LeaseOperations } from './lease.ts';

/** What an algorithm answers for one Limit. Every time is an integer number of microseconds. */
export class Outcome<State> {
  allowed = false;
  /** The largest cost that would still be allowed at this instant, after this decision. */
  remaining = 0;
  /** 0 when allowed, {@link NEVER} when the cost can never fit, else the smallest sufficient wait. */
  retryAfterUs = 0;
  /** The smallest wait after which the state equals "never used"; it is also the exact time to live. */
  resetAfterUs = 0;
  /** How long an allowed request has to wait for its turn. Only a queue (leaky bucket) ever asks for a wait. */
  delayUs = 0;
  /** The state to keep if the whole check is admitted. Absent when there is nothing to spend. */
  spent: State | undefined = undefined;
  /**
   * The state to keep if the check is *not* admitted. Only set when the stored state was written under
   * other numbers and has to be carried over; otherwise a request that is not admitted never writes.
   */
  carried: State | undefined = undefined;
}

/** `retryAfterUs` of a cost that no wait can make fit. */
export const NEVER = -1;

/**
 * Everything the rest of the system has to know about one algorithm; `index.ts` is the list of them. Deciding is a pure
 * function: everything it needs comes in, everything it decided goes out, it reads no clock and no store, and it never
 * changes the state it was given. (Methods rather than function-typed fields: a store holds algorithms of different
 * states in one list.)
 */
export interface Algorithm<
  Name extends string,
  Options extends object,
  Numbers extends AnyNumbers,
  State extends AnyState,
> {
  readonly name: Name;

  /**
   * Answers in `out`, which is also what it returns. Left out, it is a new one; a store that decides millions of times
   * reuses one, because every fraction in a new object is another allocation.
   */
  decide(
    state: State | undefined,
    numbers: Numbers,
    cost: number,
    nowUs: number,
    out?: Outcome<State>,
  ): Outcome<State>;
  /** The first microsecond at which the state decides exactly like no state at all. */
  absentAtUs(state: State, numbers: Numbers): number;

  /** Only of an algorithm whose units are taken by a holder and come back when that lets go: see `acquire`. */
  readonly slots?: SlotOperations<Numbers, State>;
  /** Only of an algorithm of which a process may hold units in advance: `leases` of its policies. */
  readonly leases?: LeaseOperations<Numbers, State>;

  /**
   * The options of its policy function, in the order in which messages list them. A configuration file has the same.
   */
  readonly options: { readonly [Option in keyof Options]-?: PolicyOption };
  /** The numbers that `decide` needs, from options whose single values were checked. */
  compile(values: OptionValues<Options>): CompiledPolicy<Numbers>;
  /** What makes a policy looser when it grows: a policy is at least as tight as another if none of these is larger. */
  amounts(values: OptionValues<Options>): readonly number[];
  /**
   * The state after part of a charge is given back, aged: it never leaves more than if that part had not been charged.
   * The same state where nothing can be given back. Left out where a charge is no amount.
   */
  refund?(state: State, numbers: Numbers, part: PastCharge, nowUs: number): State;
  /** The same numbers with room for so many units more: what a debt is counted under. Left out like `refund`. */
  loosen?(numbers: Numbers, units: number): Numbers;
  /** The numbers of one of `instances` processes that share a limit without talking to each other. */
  share(numbers: Numbers, instances: number): Numbers;
  /** What clients are told about it in headers. */
  advertise(numbers: Numbers): AdvertisedRate;

  /** Keys may share one overflow state of the memory store only under equal rates; '' where a state has no rate. */
  rateId(numbers: Numbers): string;
  /** How a state lies in the memory store. */
  packing(numbers: Numbers): StatePacking<State>;
  /** How numbers and states travel to Redis. The twin `<folder>.lua` decides there, and gives refunds. */
  readonly redis: RedisLayout<Numbers, State>;
}

/** Whose slot it is, as two numbers below 2^53. */
export interface SlotId {
  readonly idHigh: number;
  readonly idLow: number;
}

/** What can be done with slots. (Methods for the same reason as in {@link Algorithm}.) */
export interface SlotOperations<Numbers extends AnyNumbers, State extends AnyState> {
  /** The same numbers for one slot. */
  withId(numbers: Numbers, id: SlotId): Numbers;
  /** Whether the slot of these numbers is in the state and has not ended. */
  isHeld(state: State, numbers: Numbers, nowUs: number): boolean;
  /** How long a slot lasts that is not renewed. */
  holdUs(numbers: Numbers): number;
  /** The state without the slot of these numbers; the same one where it is not there. */
  release(state: State, numbers: Numbers): State;
}

/** What every algorithm's numbers have. The rest is between them and their algorithm. */
export interface AnyNumbers {
  /** The largest cost that can ever be admitted. */
  readonly limit: number;
}

/** What was charged earlier, or the part of it that is given back. */
export interface PastCharge {
  readonly cost: number;
  /** When it was charged. */
  readonly atUs: number;
  /** When the limit was to be as if never used, right after the charge. */
  readonly absentAtUs: number;
}

/** A state means something to its algorithm only. */
export type AnyState = object;

/** One option of a policy function. */
export interface PolicyOption {
  /** A whole number from 1, a length of time, one of `choices`, or the name of a time zone. */
  readonly kind: 'count' | 'duration' | 'choice' | 'timeZone';
  /** One sentence for a reference, and what holds when the option is left out. */
  readonly description: string;
  readonly optional?: boolean;
  /** Of a count that is no amount of anything, such as a day of a month. */
  readonly most?: number;
  /** Of a choice. */
  readonly choices?: readonly string[];
  /** The shortest duration, in microseconds. Default: 1. */
  readonly leastUs?: number;
  /** The name of an option that has to be longer than this one. */
  readonly shorterThan?: string;
  /** What a configuration file may leave out, though a program has to say it. */
  readonly fileDefault?: string;
}

/** The options after they were read: counts, choices and names as they are, durations in microseconds. */
export type OptionValues<Options> = {
  readonly [Option in keyof Options]: OptionValue<Options[Option]>;
};

type OptionValue<Given> = unknown extends Given
  ? number | string | undefined
  : undefined extends Given
    ? ReadValue<NonNullable<Given>> | undefined
    : ReadValue<Given>;

/** In brackets: a duration is a text or a number, and is read as a number. */
type ReadValue<Given> = [Given] extends [string] ? Given : number;

export interface CompiledPolicy<Numbers> {
  readonly numbers: Numbers;
  /**
   * The part of the state's name that depends on the numbers: what its meaning depends on. Numbers that may change
   * under a live state (a quota, a rate) are left out, so that a change carries the state over.
   */
  readonly stateId: string;
}

/** A policy as headers describe it. */
export interface AdvertisedRate {
  /** How long a used-up limit takes until it is as new. */
  readonly refillUs: number;
  /** What comes back in so many microseconds in the long run. */
  readonly unitsIn: (spanUs: number) => number;
  /** Of the time until everything is back, the part that is left when the first unit is back. */
  readonly afterFirstUnitUs: number;
}

/**
 * How a state lies in a row of the memory store: as plain doubles rather than as an object per key, so that a million
 * keys cost the garbage collector nothing to walk. What does not fit is kept as the object it is, beside the row.
 */
export interface StatePacking<State> {
  /** Doubles per state. */
  readonly cells: number;
  fits(state: State): boolean;
  /** The same object every time: a new one would be three allocations. Use it before the next read. */
  read(cells: Float64Array, at: number): State;
  write(cells: Float64Array, at: number, state: State): void;
}

/** For states whose length varies: they stay objects. */
export const unpacked: StatePacking<readonly number[]> = {
  cells: 0,
  fits: () => false,
  read: () => [],
  write: () => undefined,
};

export interface RedisLayout<Numbers, State> {
  /** The most bytes that a state can take; left out where it is a few numbers. */
  maxBytes?(numbers: Numbers): number;
  /** Its number in the protocol. Never given to another algorithm. */
  readonly number: number;
  /**
   * The numbers in the order in which they are sent, at most {@link MAX_SENT_NUMBERS}, each with its smallest value.
   */
  readonly numbers: {
    readonly [Field in keyof Numbers as Numbers[Field] extends number ? Field : never]-?: 0 | 1;
  };
  /** The numbers to send at this moment, where they depend on it. */
  renew?(numbers: Numbers, nowUs: number): Numbers;
  /** A state is a string of little-endian doubles: so many at least, and more only in steps of `recordDoubles`. */
  readonly leastDoubles: number;
  /** 0 where states have one length. */
  readonly recordDoubles: number;
  toDoubles(state: State): readonly number[];
  /**
   * The script also tells a state by its doubles, and may tell a shorter one that answers the question as well: what it
   * leaves out at the end is as in `numbers`.
   */
  fromDoubles(doubles: readonly number[], numbers: Numbers): State;
}

/** Numbers that the protocol has room for per limit. */
export const MAX_SENT_NUMBERS = 4;

export interface PeekRequest {
  readonly algorithm: Pick<Algorithm<string, object, AnyNumbers, AnyState>, 'decide'>;
  readonly numbers: AnyNumbers;
  readonly cost: number;
  readonly nowUs: number;
}

/** Decides without spending: whether `cost` would be allowed, beside what is there now. */
export function decideWithoutSpending(
  { algorithm, numbers, cost, nowUs }: PeekRequest,
  state: AnyState | undefined,
  out: Outcome<AnyState> = new Outcome(),
): Outcome<AnyState> {
  const { allowed, retryAfterUs, delayUs } = algorithm.decide(state, numbers, cost, nowUs);
  algorithm.decide(state, numbers, 0, nowUs, out);
  out.allowed = allowed;
  out.retryAfterUs = retryAfterUs;
  out.delayUs = delayUs;
  return out;
}

/**
 * Doubles hold every integer up to 2^53, so sums stay exact while both halves stay below 2^52.
 * As a clock this is the year 2112; as a span it is 142 years.
 */
export const MAX_TIME_US: number = 2 ** 52;

/**
 * A clock that steps back by no more than this, or than a used-up limit takes until it is as new, changes no state: its
 * keys wait for it to catch up. So clocks that take turns and differ by less cannot be played against each other. A
 * larger step would lock keys out for as long as it is, and is forgiven: what counted then counts from now on.
 */
export const TOLERATED_STEP_US = 5_000_000;

/** Half of what a double counts exactly, so that a count and a cost can be added. */
export const MAX_COUNT: number = 2 ** 52;
