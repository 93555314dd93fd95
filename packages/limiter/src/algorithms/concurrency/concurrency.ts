import type { Duration } from '../../duration.ts';
import { LimiterError, show } from '../../errors.ts';
import {
  NEVER,
  Outcome,
  TOLERATED_STEP_US,
  unpacked,
  type Algorithm,
  type AnyNumbers,
  type OptionValues,
  type SlotId,
} from '../algorithm.ts';
import { firstAfter } from '../packed-list.ts';

export interface ConcurrencyNumbers {
  /** The most that may be in flight at once: an integer from 1 to 10,000. */
  readonly limit: number;
  /** How long a slot outlives its process, such as `'30s'`: at least 100 ms. */
  readonly hold: Duration;
}

/** The id is 0, 0 in the numbers of a policy: nobody renews or releases such a slot. */
export interface CompiledConcurrency extends AnyNumbers, SlotId {
  readonly holdUs: number;
}

/**
 * The units of all slots together, then five numbers per slot, the one that ends first in front: when it ends, for how
 * long it was taken, the two halves of its id, its units. Flat, because this is also the layout of a packed value.
 */
export type ConcurrencyState = readonly number[];

/** A state of so many slots has 400 kilobytes, which a server still copies in a fraction of a millisecond. */
const MAX_CONCURRENCY = 10_000;
const SHORTEST_HOLD_US = 100_000;

const SLOT_NUMBERS = 5;
const BYTES_PER_NUMBER = 8;
const NOBODY: SlotId = { idHigh: 0, idLow: 0 };

/** At most `limit` units are held at any moment of the store's clock. */
export const concurrencyAlgorithm: Algorithm<
  'concurrency',
  ConcurrencyNumbers,
  CompiledConcurrency,
  ConcurrencyState
> = {
  name: 'concurrency',

  decide: decideConcurrency,
  absentAtUs: (state) => newestEndUs(state),
  slots: {
    withId: (numbers, { idHigh, idLow }) => ({ ...numbers, idHigh, idLow }),
    isHeld: (state, numbers, nowUs) => slotOf(state, firstAfter(state, SLOT_NUMBERS, nowUs), numbers) >= 0,
    holdUs: (numbers) => numbers.holdUs,
    release: releaseSlot,
  },

  options: {
    limit: {
      kind: 'count',
      description: `How much may be in flight at once, up to ${MAX_CONCURRENCY}.`,
    },
    hold: {
      kind: 'duration',
      leastUs: SHORTEST_HOLD_US,
      description: 'After how long the slot of a process that died is free again.',
    },
  },
  compile: compileConcurrency,
  amounts: ({ limit }) => [limit],
  share: (numbers, instances) => ({
    ...numbers,
    limit: Math.max(1, Math.floor(numbers.limit / instances)),
  }),
  advertise: ({ limit, holdUs }) => ({
    refillUs: holdUs,
    unitsIn: (spanUs) => (spanUs * limit) / holdUs,
    afterFirstUnitUs: 0,
  }),

  rateId: () => '',
  packing: () => unpacked,
  redis: {
    maxBytes: ({ limit }) => BYTES_PER_NUMBER * (1 + SLOT_NUMBERS * limit),
    number: 7,
    numbers: { limit: 1, holdUs: 1, idHigh: 0, idLow: 0 },
    leastDoubles: 1 + SLOT_NUMBERS,
    recordDoubles: SLOT_NUMBERS,
    toDoubles: (state) => state,
    fromDoubles: (doubles) => doubles,
  },
};

function decideConcurrency(
  state: ConcurrencyState | undefined,
  numbers: CompiledConcurrency,
  cost: number,
  nowUs: number,
  out: Outcome<ConcurrencyState> = new Outcome(),
): Outcome<ConcurrencyState> {
  const { limit } = numbers;
  const slots = afterStepBack(state ?? NO_SLOTS, nowUs);
  // A slot that ends now is free.
  const first = firstAfter(slots, SLOT_NUMBERS, nowUs);
  const used = unitsFrom(slots, first);
  const own = slotOf(slots, first, numbers);
  out.delayUs = 0;
  out.carried = state === undefined || slots === state ? undefined : slots;
  // Who holds a slot keeps it as it is, also where the limit has been lowered since.
  if (cost > 0 && (own >= 0 || cost <= limit - used)) {
    // Never before the newest: clocks that take turns and differ a little cannot be played against each other.
    const takenAtUs = first < countSlots(slots) ? Math.max(nowUs, newestTakenAtUs(slots)) : nowUs;
    const spent = insert(live(slots, first, own), slotFrom(slots, own, numbers, cost, takenAtUs));
    out.allowed = true;
    out.remaining = Math.max(0, limit - (spent[0] ?? 0));
    out.retryAfterUs = 0;
    out.resetAfterUs = newestEndUs(spent) - nowUs;
    out.spent = spent;
    return out;
  }
  out.allowed = cost === 0;
  out.remaining = Math.max(0, limit - used);
  out.retryAfterUs =
    cost === 0 ? 0 : cost > limit ? NEVER : freedAtUs(slots, first, used + cost - limit) - nowUs;
  out.resetAfterUs = first < countSlots(slots) ? newestEndUs(slots) - nowUs : 0;
  out.spent = undefined;
  return out;
}

/** The slot as it is from now on: a new one, or the one that is renewed. */
function slotFrom(
  slots: ConcurrencyState,
  own: number,
  { holdUs, idHigh, idLow }: CompiledConcurrency,
  cost: number,
  takenAtUs: number,
): readonly number[] {
  const units = own < 0 ? cost : unitsAt(slots, own);
  // It may have been taken for longer than slots are now.
  if (own >= 0 && endAt(slots, own) > takenAtUs + holdUs)
    return [endAt(slots, own), holdAt(slots, own), idHigh, idLow, units];
  return [takenAtUs + holdUs, holdUs, idHigh, idLow, units];
}

/**
 * The state itself; after a step back that is not tolerated, one in which no slot lasts longer than it was taken for.
 */
function afterStepBack(state: ConcurrencyState, nowUs: number): ConcurrencyState {
  const last = countSlots(state) - 1;
  if (last < 0) return state;
  if (newestTakenAtUs(state) - nowUs <= Math.max(holdAt(state, last), TOLERATED_STEP_US)) return state;
  let moved: ConcurrencyState = NO_SLOTS;
  for (let slot = firstAfter(state, SLOT_NUMBERS, nowUs); slot <= last; slot += 1) {
    const [endUs = 0, ...rest] = state.slice(placeOf(slot), placeOf(slot + 1));
    moved = insert(moved, [Math.min(endUs, nowUs + holdAt(state, slot)), ...rest]);
  }
  return moved;
}

/** Without a slot of this id; the same state where there is none. */
function releaseSlot(state: ConcurrencyState, numbers: CompiledConcurrency): ConcurrencyState {
  const own = slotOf(state, 0, numbers);
  return own < 0 ? state : live(state, 0, own);
}

const NO_SLOTS: ConcurrencyState = [0];

function countSlots(state: ConcurrencyState): number {
  return (state.length - 1) / SLOT_NUMBERS;
}

/** Where the numbers of a slot begin. */
function placeOf(slot: number): number {
  return 1 + slot * SLOT_NUMBERS;
}

function endAt(state: ConcurrencyState, slot: number): number {
  return state[placeOf(slot)] ?? 0;
}

function holdAt(state: ConcurrencyState, slot: number): number {
  return state[placeOf(slot) + 1] ?? 0;
}

function unitsAt(state: ConcurrencyState, slot: number): number {
  return state[placeOf(slot) + 4] ?? 0;
}

function newestEndUs(state: ConcurrencyState): number {
  return countSlots(state) === 0 ? 0 : endAt(state, countSlots(state) - 1);
}

/** When the slot that ends last was taken or renewed. */
function newestTakenAtUs(state: ConcurrencyState): number {
  const last = countSlots(state) - 1;
  return endAt(state, last) - holdAt(state, last);
}

function unitsFrom(state: ConcurrencyState, first: number): number {
  let units = state[0] ?? 0;
  for (let slot = 0; slot < first; slot += 1) units -= unitsAt(state, slot);
  return units;
}

/** The slot with this id among those from `first` on, or -1. */
function slotOf(state: ConcurrencyState, first: number, { idHigh, idLow }: SlotId): number {
  if (idHigh === 0 && idLow === 0) return -1;
  for (let slot = first; slot < countSlots(state); slot += 1) {
    const at = placeOf(slot);
    if (state[at + 2] === idHigh && state[at + 3] === idLow) return slot;
  }
  return -1;
}

/** The slots from `first` on, without `own`. */
function live(state: ConcurrencyState, first: number, own: number): ConcurrencyState {
  const units = unitsFrom(state, first);
  if (own < 0) return [units].concat(state.slice(placeOf(first)));
  return [units - unitsAt(state, own)].concat(
    state.slice(placeOf(first), placeOf(own)),
    state.slice(placeOf(own + 1)),
  );
}

function insert(state: ConcurrencyState, slot: readonly number[]): ConcurrencyState {
  const [endUs = 0, , , , units = 0] = slot;
  const at = placeOf(firstAfter(state, SLOT_NUMBERS, endUs));
  return [(state[0] ?? 0) + units].concat(state.slice(1, at), slot, state.slice(at));
}

/** When so many units have ended, if nobody renews or releases anything. */
function freedAtUs(state: ConcurrencyState, first: number, units: number): number {
  let slot = first;
  let freed = unitsAt(state, slot);
  while (freed < units && slot < countSlots(state) - 1) {
    slot += 1;
    freed += unitsAt(state, slot);
  }
  return endAt(state, slot);
}

function compileConcurrency({ limit, hold }: OptionValues<ConcurrencyNumbers>): {
  numbers: CompiledConcurrency;
  stateId: string;
} {
  if (limit > MAX_CONCURRENCY) {
    throw new LimiterError(
      'INVALID_POLICY',
      `limit is ${show(limit)}; expected an integer from 1 to ${MAX_CONCURRENCY}: divide more among several keys.`,
    );
  }
  // A slot says itself when it ends: other numbers carry over what is held.
  return { numbers: { limit, holdUs: hold, ...NOBODY }, stateId: '' };
}
