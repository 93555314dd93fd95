import type { SlotId } from './algorithms/algorithm.ts';
import { SlotLimit, type CheckOptions } from './check-arguments.ts';
import { LimiterError, show } from './errors.ts';
import { costOf, MAX_KEY_LENGTH, planOf, type Limit } from './limit.ts';
import { requireOptionNames } from './options.ts';
import { sha256Hex } from './sha256.ts';
import type { Store } from './stores/store.ts';

export interface AcquireOptions extends CheckOptions {
  /**
   * Names the slot, so that a repeated call renews it instead of taking another one. Whoever says the same id holds the
   * same slot: never take it from a client. Default: a new one per call.
   */
  readonly id?: string | undefined;
}

/** Of a slot for all of these limits: those that are held, and all with the slot's id in them. */
export interface SlotLimits {
  readonly all: readonly Limit[];
  readonly held: readonly Limit[];
}

export function slotLimits(limits: readonly Limit[], id: SlotId, cost: number): SlotLimits {
  const all = limits.map((limit) => slotOf(limit, id, cost));
  return { all, held: all.filter((limit) => limit instanceof SlotLimit) };
}

function slotOf(limit: Limit, id: SlotId, callCost: number): Limit {
  const { algorithm, numbers, stateId, penalty } = limit.plan;
  if (algorithm.slots === undefined) return limit;
  const plan = planOf(algorithm, algorithm.slots.withId(numbers, id), stateId, penalty);
  // A slot that had ended before it was renewed is taken again, with as many units.
  const cost = costOf(limit, callCost);
  return Object.assign(new SlotLimit(limit.policy, plan, limit.key, limit.stateKey), { cost });
}

export function requireRelease(store: Store): void {
  if ('release' in store) return;
  throw new LimiterError(
    'SLOTS_UNSUPPORTED',
    'acquire() needs a store with release(), and the store of this limiter has none: use the memory store or the Redis store.',
  );
}

/** The options of the check that takes a slot, and the slot's id. */
export function acceptAcquire(options: AcquireOptions | undefined): {
  readonly id: SlotId;
  readonly check: CheckOptions | undefined;
} {
  if (options === undefined) return { id: randomId(), check: undefined };
  requireOptionNames('The options of acquire()', options, ['id', 'cost', 'signal', 'failurePolicy']);
  const { id, ...check } = options;
  if (check.cost === 0) {
    throw new LimiterError(
      'INVALID_COST',
      'cost is 0; acquire() takes at least one unit of every limit: use peek() to look.',
    );
  }
  return { id: id === undefined ? randomId() : idOf(id), check };
}

/** 52 bits fit into a number that every store keeps exactly; 104 bits never meet by chance. */
const HALF_DIGITS = 13;

function idOf(id: unknown): SlotId {
  if (typeof id !== 'string' || id.length === 0 || id.length > MAX_KEY_LENGTH) {
    throw new LimiterError(
      'INVALID_OPTION',
      `id is ${show(id)}; expected a string of 1 to ${MAX_KEY_LENGTH} characters that names the slot, or nothing.`,
    );
  }
  return fromHex(sha256Hex(id));
}

function randomId(): SlotId {
  const words = crypto.getRandomValues(new Uint32Array(4));
  return fromHex([...words].map((word) => word.toString(16).padStart(8, '0')).join(''));
}

function fromHex(digits: string): SlotId {
  return {
    idHigh: Number.parseInt(digits.slice(0, HALF_DIGITS), 16),
    idLow: Number.parseInt(digits.slice(HALF_DIGITS, 2 * HALF_DIGITS), 16),
  };
}
