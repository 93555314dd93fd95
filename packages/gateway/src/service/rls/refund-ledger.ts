// What was charged lately, so that it can be given back.
import type { Decision, Limit, Limiter, Reservation } from 'spillgate';

const MAX_CHARGES = 16_384;
const MAX_CHARGES_PER_LIMITS = 64;

/**
 * The latest charges of this process. Hits are given back to those of the same limits, the latest first, and to each
 * once: so nobody gets back what he has not paid, and each charge is aged by when it was made.
 */
export class RefundLedger {
  /** By the limits that were charged together; those that were charged last stand at the end. */
  private readonly charges = new Map<string, Reservation[]>();
  private size = 0;

  remember(limits: readonly Limit[], reservation: Reservation): void {
    const id = idOf(limits);
    const known = this.charges.get(id) ?? [];
    this.charges.delete(id);
    this.charges.set(id, known);
    known.push(reservation);
    this.size += 1;
    if (known.length > MAX_CHARGES_PER_LIMITS) {
      known.shift();
      this.size -= 1;
    }
    for (const [oldest, forgotten] of this.charges) {
      if (this.size <= MAX_CHARGES) return;
      this.charges.delete(oldest);
      this.size -= forgotten.length;
    }
  }

  /** Rejects if the store cannot be reached: then the same charge can be given back later. */
  async giveBack(limits: readonly Limit[], hits: number): Promise<void> {
    const id = idOf(limits);
    let left = hits;
    while (left > 0) {
      const latest = this.take(id);
      if (latest === undefined) return;
      const { reserved } = latest;
      const part = Math.min(left, reserved);
      try {
        await latest.settle(reserved - part);
      } catch (failure) {
        this.remember(limits, latest);
        throw failure;
      }
      left -= part;
    }
  }

  /** Whoever has it gives it back: nobody else finds it meanwhile. */
  private take(id: string): Reservation | undefined {
    const known = this.charges.get(id);
    const latest = known?.pop();
    if (latest === undefined) return undefined;
    this.size -= 1;
    if (known?.length === 0) this.charges.delete(id);
    return latest;
  }
}

function idOf(limits: readonly Limit[]): string {
  return limits
    .map(({ policy, key }) => `${policy.name} ${key.length} ${key}`)
    .toSorted()
    .join('\n');
}

/** With what limits are charged. */
export interface Charging {
  readonly limiter: Limiter;
  /** Undefined: nothing has to be given back. */
  readonly refunds: RefundLedger | undefined;
}

/** A limit and what it is charged. */
export interface CostedLimit {
  readonly limit: Limit;
  readonly cost: number;
}

/** Decides and charges all or none. `groups` part what may be given back by itself: each has one cost. */
export async function chargeAll<Each extends CostedLimit>(
  charges: readonly Each[],
  { limiter, refunds }: Charging,
  groups: (charges: readonly Each[]) => readonly (readonly Each[])[] = (all) => [all],
): Promise<Decision> {
  if (refunds === undefined) return limiter.check(charges.map(({ limit, cost }) => limit.withCost(cost)));
  const limits = new Map(charges.map((charge) => [charge, charge.limit.withCost(charge.cost)]));
  const reservation = await limiter.reserve([...limits.values()]);
  const { decision } = reservation;
  if (!decision.allowed || decision.degraded) return decision;
  const parts = groups(charges).map((group) => group.flatMap((each) => limits.get(each) ?? []));
  for (const [at, part] of reservation.split(parts).entries()) refunds.remember(parts[at] ?? [], part);
  return decision;
}
