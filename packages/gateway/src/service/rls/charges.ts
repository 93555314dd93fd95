// What descriptors charge, in one step: all limits that hold, or none; and what was charged lately, so that it can be
// given back.
import { MAX_LIMITS_PER_CHECK, type Decision, type Limit, type Limiter, type Reservation } from 'spillgate';
import { type DescriptorMatch, type DescriptorOutcome, RlsError } from './descriptor-limits.ts';

export interface AskedDescriptor {
  readonly match: DescriptorOutcome;
  /** 0 looks. */
  readonly hits: number;
}

export function isLimit(match: DescriptorOutcome): match is DescriptorMatch {
  return typeof match === 'object';
}

/** Every limit with what it is charged. Descriptors that meet the same one charge it together. */
export interface Charge {
  readonly limit: Limit;
  cost: number;
  readonly kind: 'holds' | 'quota' | 'shadow';
}

/** What one step said about its limits, in their order. */
export interface ChargeResult {
  readonly charges: readonly Charge[];
  readonly decision: Decision;
}

export function chargesOf(asked: readonly AskedDescriptor[]): readonly Charge[] {
  const byState = new Map<string, Charge>();
  for (const { match, hits } of asked) {
    if (!isLimit(match)) continue;
    const kind = match.shadow ? 'shadow' : match.quota ? 'quota' : 'holds';
    for (const limit of match.limits) {
      const id = stateOf(limit);
      const known = byState.get(id);
      if (known === undefined) byState.set(id, { limit, cost: hits, kind });
      else known.cost = sumOf(known.cost, hits);
    }
  }
  return [...byState.values()];
}

function sumOf(one: number, other: number): number {
  if (one + other <= Number.MAX_SAFE_INTEGER) return one + other;
  throw new RlsError(
    'invalid',
    `descriptors of one limit have ${one} and ${other} hits; expected at most ${Number.MAX_SAFE_INTEGER} together`,
  );
}

export function stateOf({ policy, key }: Limit): string {
  return `${policy.name} ${key}`;
}

export function requireFew({ length }: readonly Charge[]): void {
  if (length <= MAX_LIMITS_PER_CHECK) return;
  throw new RlsError(
    'invalid',
    `the descriptors meet ${length} limits; expected at most ${MAX_LIMITS_PER_CHECK}`,
  );
}

/** What is given back together: limits that hold and cost the same, every quota by itself, and shadows. */
export function refundGroups(charges: readonly Charge[]): readonly (readonly Charge[])[] {
  const byKind = new Map<string, Charge[]>();
  for (const charge of charges) {
    const { kind, cost, limit } = charge;
    const id = kind === 'quota' ? `quota ${stateOf(limit)}` : `${kind} ${cost}`;
    const known = byKind.get(id);
    if (known === undefined) byKind.set(id, [charge]);
    else known.push(charge);
  }
  return [...byKind.values()];
}

/** Decides without spending: of a look, whether one more would be admitted. */
export async function lookAt(
  charges: readonly Charge[],
  { limiter }: Pick<Charging, 'limiter'>,
): Promise<readonly ChargeResult[]> {
  if (charges.length === 0) return [];
  const decision = await limiter.peek(charges.map(({ limit, cost }) => limit.withCost(Math.max(1, cost))));
  return [{ charges, decision }];
}

/** Charges limits that refuse nobody. */
export async function chargeShadows(
  charges: readonly Charge[],
  engine: Charging,
): Promise<readonly ChargeResult[]> {
  const step = charges.filter(({ cost }) => cost > 0);
  const looked = await lookAt(
    charges.filter(({ cost }) => cost === 0),
    engine,
  );
  if (step.length === 0) return looked;
  return [...looked, { charges: step, decision: await chargeAll(step, engine, refundGroups) }];
}

/** What was decided about limits that may refuse a request. */
interface HeldResult {
  readonly refused: boolean;
  /** Of a limit that several say something about, the last one counts. */
  readonly results: readonly ChargeResult[];
  /** What decided in the end. */
  readonly last: readonly ChargeResult[];
}

/**
 * Charges all that hold and every quota with room in one step, or nothing: a request is refused if one that holds is
 * spent, or all quotas are. `closed`: it is refused anyway. `closedQuota`: there is a quota that never has room.
 */
export async function chargeHeld(
  charges: readonly Charge[],
  { closed, closedQuota }: { readonly closed: boolean; readonly closedQuota: boolean },
  engine: Charging,
): Promise<HeldResult> {
  const looks = charges.filter(({ cost }) => cost === 0);
  const looked = await lookAt(looks, engine);
  const spent = new Set(looked.flatMap(deniedIn));
  const results: ChargeResult[] = [...looked];
  const hasQuotas = closedQuota || charges.some(({ kind }) => kind === 'quota');
  for (;;) {
    const open = charges.filter((charge) => !spent.has(charge));
    const refused =
      closed ||
      [...spent].some(({ kind }) => kind === 'holds') ||
      (hasQuotas && !open.some(({ kind }) => kind === 'quota'));
    const step = open.filter(({ cost }) => cost > 0);
    if (refused || step.length === 0) {
      const rest = refused ? await lookAt(unseen(step, results), engine) : [];
      const last = new Set([...looked, ...results.slice(-1), ...rest]);
      return { refused, results: [...results, ...rest], last: [...last] };
    }
    const result = { charges: step, decision: await chargeAll(step, engine, refundGroups) };
    results.push(result);
    // Without the quotas that are spent the others may have room; what nobody decided is not asked again.
    const denied = deniedIn(result);
    if (result.decision.allowed || denied.length === 0 || denied.some(({ kind }) => kind === 'holds')) {
      return { refused: !result.decision.allowed, results, last: [...looked, result] };
    }
    for (const charge of denied) spent.add(charge);
  }
}

function deniedIn({ charges, decision }: ChargeResult): readonly Charge[] {
  if (decision.allowed || decision.source === 'failurePolicy') return [];
  return charges.filter((_, at) => decision.verdicts[at]?.allowed === false);
}

/** Those that nothing was said about yet. */
function unseen(charges: readonly Charge[], results: readonly ChargeResult[]): readonly Charge[] {
  const seen = new Set(results.flatMap((result) => result.charges));
  return charges.filter((charge) => !seen.has(charge));
}

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
interface CostedLimit {
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
