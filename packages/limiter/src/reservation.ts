// Costs that are known only afterwards: a reservation charges an estimate, and is settled with what was used.
import { acceptCost, type CheckOptions } from './check-arguments.ts';
import { stopwatchMs } from './clock.ts';
import type { Decision } from './decision.ts';
import { parseDuration, type Duration } from './duration.ts';
import { LimiterError, show } from './errors.ts';
import type { FailurePolicy } from './failure-policy.ts';
import type { Limit } from './limit.ts';
import { requireOptionNames } from './options.ts';
import {
  SETTLEMENT_REMEMBERED_MS,
  type AdjustedLimit,
  type Adjustment,
  type ReservedCharge,
  type Store,
} from './stores/store.ts';

export interface ReserveOptions extends CheckOptions {
  /** The estimate: an integer >= 1. Default: 1. */
  readonly cost?: number | undefined;
  /**
   * How long the reservation stands, `'1s'` to `'1d'`. Afterwards nothing of it is given back: it counts in full.
   * Default: `'5m'`.
   */
  readonly expiresIn?: Duration | undefined;
}

/** An estimate that was charged, until it is known what was really used. */
export interface Reservation {
  /** Whether the estimate was admitted. If not, nothing was charged and there is nothing to settle. */
  readonly allowed: boolean;
  readonly decision: Decision;
  /** What was reserved so far, with all extensions: 0 if it was denied. */
  readonly reserved: number;
  /** Reserves more, of all limits or of none; the decision says whether. */
  extend(more: number): Promise<Decision>;
  /**
   * Ends the reservation with what was used: what was reserved and not used is given back, what was used beyond it is
   * charged as debt. Only the first call counts, however often it is repeated. Rejects if the store cannot be reached:
   * call it again, it is never applied twice.
   */
  settle(actual: number): Promise<Settlement>;
  /** Ends it as if it had not been: everything is given back, also of limits with a cost of their own. */
  cancel(): Promise<Settlement>;
  /**
   * Makes a reservation of each group of limits, to be settled by itself; this one has ended then. Every limit is in
   * one group, those of a group cost the same. Neither this one nor those can be extended.
   */
  split(groups: readonly (readonly Limit[])[]): readonly Reservation[];
}

/** How a reservation ended. */
export interface Settlement {
  readonly reserved: number;
  /** What was used, as the first call said. */
  readonly actual: number;
  /** What was used above the reservation and charged, of the limit that took most of it. */
  readonly debt: number;
  /** What was used above the reservation and not charged, because of some limit's `maxDebt`. */
  readonly uncharged: number;
  /** True if it came after `expiresIn`: nothing was given back. */
  readonly expired: boolean;
  /** True if the failure policy had answered the reservation: there was nothing to settle. */
  readonly degraded: boolean;
}

/** What a reservation needs of its limiter. */
export interface ReservationParts {
  readonly limits: readonly Limit[];
  readonly options: ReserveOptions | undefined;
  /** Checks, and tells what was charged. */
  readonly check: (
    limits: readonly Limit[],
    options: CheckOptions,
    onCharge: (charge: ReservedCharge) => void,
  ) => Promise<Decision>;
  readonly settle: (id: string, adjustments: readonly Adjustment[]) => Promise<readonly AdjustedLimit[]>;
}

const DEFAULT_EXPIRY_US = 300_000_000;
const EXPIRY_BOUNDS = { name: 'expiresIn', minUs: 1_000_000, maxUs: 86_400_000_000 };
/** Charges of one reservation: each is given back by itself. */
const MAX_EXTENSIONS = 63;
/** A settlement that may have run is repeated only as long as the store surely remembers it. */
const REPEATABLE_MS = SETTLEMENT_REMEMBERED_MS / 2;

/** A store that keeps what it takes to settle reservations. */
export type ReservableStore = Store & Required<Pick<Store, 'reserve' | 'settle'>>;

/** Throws if the store, or one of the limits, cannot take reservations. */
export function reservable(store: Store, limits: readonly Limit[] = []): ReservableStore {
  if (!isReservable(store)) {
    throw new LimiterError(
      'RESERVE_UNSUPPORTED',
      'reserve() needs a store that can settle reservations, with reserve and settle: use memoryStore() or redisStore().',
    );
  }
  const unfit = limits.find(({ plan: { algorithm } }) => algorithm.refund === undefined);
  if (unfit !== undefined) {
    throw new LimiterError(
      'RESERVE_UNSUPPORTED',
      `Policy ${show(unfit.policy.name)} is a ${unfit.policy.algorithm}, which charges no amount that could be settled: leave it out of reserve().`,
    );
  }
  return store;
}

function isReservable(store: Store): store is ReservableStore {
  return store.reserve !== undefined && store.settle !== undefined;
}

export async function reserve(parts: ReservationParts): Promise<Reservation> {
  const given = parts.options ?? {};
  requireOptionNames('The options of reserve()', given, ['cost', 'expiresIn', 'signal', 'failurePolicy']);
  const { expiresIn, ...options } = given;
  const cost = acceptEstimate(acceptCost(options), 'cost');
  const expiresInUs = expiresIn === undefined ? DEFAULT_EXPIRY_US : parseDuration(expiresIn, EXPIRY_BOUNDS);
  const reservation = new StandingReservation(parts, expiresInUs);
  await reservation.begin(cost, options);
  return reservation;
}

function acceptEstimate(cost: number, name: string): number {
  if (Number.isSafeInteger(cost) && cost >= 1) return cost;
  throw new LimiterError(
    'INVALID_COST',
    `${name} is ${show(cost)}; expected an integer from 1 to ${Number.MAX_SAFE_INTEGER}: nothing can be admitted without room for at least one unit.`,
  );
}

/** What one call, the reservation or an extension, has charged. */
interface ChargedPart {
  readonly cost: number;
  readonly charges: readonly ReservedCharge[];
}

/** How it ends; the first call decides. */
interface ReservationEnd {
  readonly actual: number;
  readonly cancelled: boolean;
  /** When it was first sent to the store. */
  sentAtMs: number | undefined;
}

class StandingReservation implements Reservation {
  private readonly parts: ReservationParts;
  private readonly expiresInUs: number;
  /** Whether costs of its limits are those of the reservation: then they are settled with it. */
  private readonly settlesOwnCosts: boolean;
  private readonly id = newId();
  private readonly charged: ChargedPart[] = [];
  private first: Decision | undefined;
  /** Who answers extensions, too, where the store cannot. */
  private failurePolicy: FailurePolicy | undefined;
  private ending: ReservationEnd | undefined;
  private settlement: Settlement | undefined;
  /** One step at a time: what an extension charges has to be known before it can be given back. */
  private latest: Promise<unknown> = Promise.resolve();

  constructor(parts: ReservationParts, expiresInUs: number, settlesOwnCosts = false) {
    this.parts = parts;
    this.expiresInUs = expiresInUs;
    this.settlesOwnCosts = settlesOwnCosts;
  }

  async begin(cost: number, options: CheckOptions): Promise<void> {
    this.failurePolicy = options.failurePolicy;
    this.first = await this.charge(this.parts.limits, cost, options);
  }

  get decision(): Decision {
    if (this.first === undefined) throw new RangeError('a reservation begins with a decision');
    return this.first;
  }

  get allowed(): boolean {
    return this.decision.allowed;
  }

  get reserved(): number {
    return this.charged.reduce((sum, { cost }) => sum + cost, 0);
  }

  extend(more: number): Promise<Decision> {
    return this.next(async () => {
      acceptEstimate(more, 'more');
      this.requireOpen('extended');
      if (this.settlesOwnCosts) {
        throw new LimiterError(
          'INVALID_RESERVATION',
          'A part of a split reservation cannot be extended: make another reservation.',
        );
      }
      if (this.charged.length > MAX_EXTENSIONS) {
        throw new LimiterError(
          'INVALID_RESERVATION',
          `The reservation was extended ${MAX_EXTENSIONS} times, the most it may be: extend by more at a time.`,
        );
      }
      const limits = this.parts.limits.filter(({ cost }) => cost === undefined);
      const { failurePolicy } = this;
      return this.charge(limits.length === 0 ? this.parts.limits : limits, more, { failurePolicy });
    });
  }

  settle(actual: number): Promise<Settlement> {
    return this.next(async () => {
      if (!Number.isSafeInteger(actual) || actual < 0) {
        throw new LimiterError(
          'INVALID_COST',
          `actual is ${show(actual)}; expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}: round it before the call.`,
        );
      }
      if (!this.allowed) this.requireOpen('settled');
      this.ending ??= { actual, cancelled: false, sentAtMs: undefined };
      return this.end(this.ending);
    });
  }

  cancel(): Promise<Settlement> {
    return this.next(() => {
      this.ending ??= { actual: 0, cancelled: true, sentAtMs: undefined };
      return this.end(this.ending);
    });
  }

  split(groups: readonly (readonly Limit[])[]): readonly Reservation[] {
    this.requireOpen('split');
    const [part, ...extensions] = this.charged;
    const { limits } = this.parts;
    const given = groups.flat();
    const isPartition = given.length === limits.length && limits.every((limit) => given.includes(limit));
    const costsOf = (group: readonly Limit[]): ReadonlySet<number> =>
      new Set(group.map((limit) => limit.cost ?? part?.cost ?? 0));
    if (part === undefined || extensions.length > 0 || !isPartition) {
      throw new LimiterError(
        'INVALID_RESERVATION',
        `A reservation is split into ${given.length} limits; expected its own ${limits.length}, each once, before it is extended.`,
      );
    }
    if (groups.some((group) => costsOf(group).size !== 1)) {
      throw new LimiterError(
        'INVALID_RESERVATION',
        'A group of a split reservation has limits of several costs, or none; expected limits of one cost: make a group for each cost.',
      );
    }
    this.ending = { actual: this.reserved, cancelled: false, sentAtMs: undefined };
    return groups.map((group) => {
      const [cost = 0] = costsOf(group);
      const one = new StandingReservation({ ...this.parts, limits: group }, this.expiresInUs, true);
      one.first = this.decision;
      one.charged.push({ cost, charges: part.charges.filter(({ limit }) => group.includes(limit)) });
      return one;
    });
  }

  private next<Result>(step: () => Promise<Result>): Promise<Result> {
    const result = this.latest.then(step);
    this.latest = result.catch(() => undefined);
    return result;
  }

  private async charge(limits: readonly Limit[], cost: number, options: CheckOptions): Promise<Decision> {
    const charges: ReservedCharge[] = [];
    const decision = await this.parts.check(limits, { ...options, cost }, (charge) => charges.push(charge));
    // What the failure policy answered was not charged where it could be settled.
    if (decision.allowed) this.charged.push({ cost, charges: decision.degraded ? [] : charges });
    return decision;
  }

  private async end(ending: ReservationEnd): Promise<Settlement> {
    if (this.settlement !== undefined) return this.settlement;
    const adjustments = this.adjustmentsFor(ending);
    const adjusted = adjustments.length === 0 ? [] : await this.send(ending, adjustments);
    const debt = Math.max(0, ending.actual - this.reserved);
    const least = Math.min(...adjusted.map(({ charged }) => charged));
    this.settlement = {
      reserved: this.reserved,
      actual: ending.actual,
      debt: Math.max(0, ...adjusted.map(({ charged }) => charged)),
      uncharged: adjusted.length === 0 || this.decision.degraded ? 0 : Math.max(0, debt - least),
      expired: adjusted.some(({ expired }) => expired),
      degraded: this.decision.degraded,
    };
    return this.settlement;
  }

  private async send(
    ending: ReservationEnd,
    adjustments: readonly Adjustment[],
  ): Promise<readonly AdjustedLimit[]> {
    const nowMs = stopwatchMs();
    ending.sentAtMs ??= nowMs;
    if (nowMs - ending.sentAtMs > REPEATABLE_MS) {
      throw new LimiterError(
        'INVALID_RESERVATION',
        `The settlement was first tried ${Math.round((nowMs - ending.sentAtMs) / 1000)} s ago and may have been applied: it is repeated for ${REPEATABLE_MS / 1000} s only.`,
      );
    }
    return this.parts.settle(this.id, adjustments);
  }

  /** What is to be given back, the latest charge first, or charged. */
  private adjustmentsFor({ actual, cancelled }: ReservationEnd): readonly Adjustment[] {
    const unused = cancelled ? Infinity : this.reserved - actual;
    if (unused === 0) return [];
    return this.parts.limits.flatMap((limit) => {
      const latest = this.charged.findLast((part) => chargeTo(part, limit) !== undefined);
      const charge = latest === undefined ? undefined : chargeTo(latest, limit);
      if (charge === undefined || !(cancelled || this.settlesOwnCosts || limit.cost === undefined)) return [];
      const refunds = latestParts(this.charged, limit, unused);
      return [{ limit, refunds, debt: Math.max(0, -unused), expiresAtUs: charge.atUs + this.expiresInUs }];
    });
  }

  private requireOpen(what: string): void {
    if (this.allowed && this.ending === undefined) return;
    throw new LimiterError(
      'INVALID_RESERVATION',
      `A reservation that ${this.allowed ? 'has ended' : 'was denied'} cannot be ${what}: make another one.`,
    );
  }
}

function chargeTo({ charges }: ChargedPart, limit: Limit): ReservedCharge | undefined {
  return charges.find((charge) => charge.limit === limit);
}

/** What the latest parts charged to a limit, up to `unused` of the reservation together. */
function latestParts(parts: readonly ChargedPart[], limit: Limit, unused: number): readonly ReservedCharge[] {
  const found: ReservedCharge[] = [];
  let left = unused;
  for (const part of parts.toReversed()) {
    if (left <= 0) break;
    // A part that the failure policy answered is used last, and charged nothing.
    const charge = chargeTo(part, limit);
    if (charge !== undefined) found.push({ ...charge, cost: Math.min(left, charge.cost) });
    left -= part.cost;
  }
  return found;
}

/** Nobody can guess it, and no two are the same. */
function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}
