import { setTimeout as delay } from 'node:timers/promises';
import { LimiterError, type Reservation } from 'spillgate';
import type { SettleConfig } from '../config/schema/cost.ts';

/** What a request has cost, as it was found out. */
export interface MeasuredCost {
  readonly cost: number;
  /** Not all of it is known: some was estimated. */
  readonly estimated: boolean;
}

/** How settling went: given back or charged, or nothing to do, or not within reach of the store. */
export type SettlementEvent = 'settled' | 'unchanged' | 'expired' | 'failed';

/** Waits between attempts to settle; the store remembers for minutes what it has applied. */
const RETRY_AFTER_MS: readonly number[] = [200, 1000, 5000, 20_000];

/** What an admitted request was charged, until it is known what it has cost. */
export class RequestCharge {
  readonly settle: SettleConfig;
  /** Resolves when nothing more will happen to it. */
  readonly ended: Promise<void>;
  /** What was found out; undefined while the request is under way. */
  measured: MeasuredCost | undefined;
  private readonly reservations: Reservation[];
  private readonly retryAfterMs: readonly number[];
  private readonly close: () => void;

  constructor(settle: SettleConfig, reservation: Reservation, retryAfterMs = RETRY_AFTER_MS) {
    this.settle = settle;
    this.retryAfterMs = retryAfterMs;
    this.reservations = [reservation];
    let close = (): void => undefined;
    this.ended = new Promise((resolve) => {
      close = resolve;
    });
    this.close = close;
  }

  /** Another reservation for the same request, as of policies in shadow mode. */
  add(reservation: Reservation): void {
    this.reservations.push(reservation);
  }

  /** What was charged so far. */
  get reserved(): number {
    return this.reservations[0]?.reserved ?? 0;
  }

  /** Charges more while the request is under way: `most`, or what is left of it, and at least `least`; else nothing. */
  async extend(most: number, least: number): Promise<boolean> {
    const [reservation] = this.reservations;
    if (reservation === undefined) return true;
    try {
      const first = await reservation.extend(most);
      if (first.allowed || first.remaining < least) return first.allowed;
      return (await reservation.extend(first.remaining)).allowed;
    } catch (error) {
      // Without a store, or behind so many extensions that a stream goes on with what it has: it is settled later.
      if (error instanceof LimiterError) return true;
      throw error;
    }
  }

  /** The request has ended. Without a measured cost, what was charged stands. Only the first call counts. */
  async end(measured: MeasuredCost | undefined): Promise<SettlementEvent> {
    if (this.measured !== undefined) return 'unchanged';
    this.measured = measured ?? { cost: this.reserved, estimated: true };
    try {
      return measured === undefined ? 'unchanged' : await this.settleAll(measured.cost);
    } finally {
      this.close();
    }
  }

  private async settleAll(cost: number): Promise<SettlementEvent> {
    const events = await Promise.all(
      this.reservations.map((reservation) => settled(reservation, cost, this.retryAfterMs)),
    );
    const [worst = 'unchanged'] = (['failed', 'expired', 'settled'] as const).filter((event) =>
      events.includes(event),
    );
    return worst;
  }
}

/** Never rejects: nobody is left who could do anything. A reservation that is not settled counts in full. */
async function settled(
  reservation: Reservation,
  cost: number,
  retryAfterMs: readonly number[],
): Promise<SettlementEvent> {
  for (const waitMs of [...retryAfterMs, undefined]) {
    try {
      const { expired, degraded, reserved, actual } = await reservation.settle(cost);
      if (expired) return 'expired';
      return degraded || reserved === actual ? 'unchanged' : 'settled';
    } catch {
      if (waitMs === undefined) break;
      await delay(waitMs, undefined, { ref: false });
    }
  }
  return 'failed';
}
