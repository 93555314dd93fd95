import type { Clock } from '../clock.ts';
import { createLimiter } from '../create-limiter.ts';
import { LimiterError, show } from '../errors.ts';
import type { FailurePolicy } from '../failure-policy.ts';
import type { Limiter } from '../limiter.ts';
import { requireOptionNames } from '../options.ts';
import { memoryStore } from '../stores/memory-store.ts';
import type { Store } from '../stores/store.ts';
import { SWEEP_MS } from '../stores/local/lease-sweep.ts';
import { LeasingStore, SimulatedStore, type SharedStates } from './simulated-store.ts';

/** A time in which nobody reaches the store: from `from` on, until `to`. */
export interface StoreOutage {
  /** Milliseconds since 1970, or a `Date`. */
  readonly from: Date | number;
  readonly to: Date | number;
}

export interface SimulatedFleetOptions {
  /** How many limiters there are, 1 to 1000. Default: 1. */
  readonly instances?: number | undefined;
  /** Whether they count together, as with Redis; else each counts for itself. Default: true. */
  readonly shared?: boolean | undefined;
  /**
   * How far the clock of the last instance is ahead of the first one's, in milliseconds up to an hour; the others lie
   * evenly between. A shared store has the clock of the first. Default: 0.
   */
  readonly clockSkewMs?: number | undefined;
  /** When the shared store cannot be reached: the times, or a function that knows. Default: never. */
  readonly outages?: readonly StoreOutage[] | ((atMs: number) => boolean) | undefined;
  /** Who answers meanwhile, for policies that do not say it themselves. Default: `'inMemoryFallback'`. */
  readonly failurePolicy?: FailurePolicy | undefined;
  /** By how many the policies are divided meanwhile, as `instances` of `createLimiter()`. Default: `instances`. */
  readonly fallbackInstances?: number | undefined;
  /** Whether policies with `leases` lease. Default: true. */
  readonly leases?: boolean | undefined;
  /** Keys that each store keeps. Default: 1,000,000. */
  readonly maxKeys?: number | undefined;
}

/** Limiters as several processes would have them, in a time that only you let pass. */
export interface SimulatedFleet {
  /** One per instance. */
  readonly limiters: readonly Limiter[];
  /** Lets the time become this, in milliseconds since 1970. It never goes back: an earlier one changes nothing. */
  readonly advanceTo: (atMs: number) => void;
}

export const FLEET_OPTIONS: readonly string[] = [
  'instances',
  'shared',
  'clockSkewMs',
  'outages',
  'failurePolicy',
  'fallbackInstances',
  'leases',
  'maxKeys',
];
const MAX_INSTANCES = 1000;
const MAX_SKEW_MS = 3_600_000;

/**
 * Limiters that share a store, or do not, in virtual time: the real algorithms, failure policies and leases.
 *
 * @example
 * const { limiters, advanceTo } = simulatedFleet({ instances: 4, outages: [{ from: 60_000, to: 90_000 }] });
 * advanceTo(75_000);
 * const decision = await limiters[0].check(api.for('ann'));
 */
export function simulatedFleet(options: SimulatedFleetOptions = {}): SimulatedFleet {
  requireOptionNames('The options of simulatedFleet()', options, FLEET_OPTIONS);
  const { instances = 1, shared = true, clockSkewMs = 0, maxKeys } = options;
  requireNumber('instances', instances, 1, MAX_INSTANCES);
  requireNumber('clockSkewMs', clockSkewMs, 0, MAX_SKEW_MS);
  let nowMs = 0;
  const isAwayAt = outageTest(options.outages);
  const trueTime = clockWith(() => nowMs, 0);
  const states: SharedStates = {
    store: memoryStore({ clock: trueTime, maxKeys }),
    nowUs: trueTime,
    isAway: () => isAwayAt(nowMs),
  };
  const leasing: LeasingStore[] = [];
  let sweptMs = 0;
  const limiters = Array.from({ length: instances }, (_, at) => {
    const aheadMs = instances === 1 ? 0 : (clockSkewMs * at) / (instances - 1);
    const clock = clockWith(() => nowMs, aheadMs);
    const store = shared ? storeOf(options, states, clock) : undefined;
    if (store instanceof LeasingStore) leasing.push(store);
    return limiterOf(options, clock, store);
  });
  return {
    limiters,
    advanceTo(atMs) {
      if (atMs > nowMs) nowMs = atMs;
      if (nowMs - sweptMs < SWEEP_MS) return;
      sweptMs = nowMs;
      for (const store of leasing) store.sweep();
    },
  };
}

function limiterOf(options: SimulatedFleetOptions, clock: Clock, store: Store | undefined): Limiter {
  const { failurePolicy, instances = 1, fallbackInstances = instances, maxKeys } = options;
  const own = memoryStore({ clock, maxKeys });
  if (store === undefined) return createLimiter({ store: own, clock });
  const limiter = createLimiter({
    store,
    fallbackStore: own,
    failurePolicy,
    instances: fallbackInstances,
    clock,
  });
  // Whoever simulates an outage knows of it.
  limiter.on('storeError', () => undefined);
  return limiter;
}

function storeOf({ leases = true }: SimulatedFleetOptions, states: SharedStates, clock: Clock): Store {
  return leases ? new LeasingStore(states, clock) : new SimulatedStore(states);
}

function clockWith(nowMs: () => number, aheadMs: number): Clock {
  return () => Math.round((nowMs() + aheadMs) * 1000);
}

function outageTest(outages: SimulatedFleetOptions['outages'] = []): (atMs: number) => boolean {
  if (typeof outages === 'function') return outages;
  const spans = outages.map(({ from, to }) => ({ fromMs: Number(from), toMs: Number(to) }));
  for (const { fromMs, toMs } of spans) {
    if (fromMs < toMs) continue;
    throw new LimiterError(
      'INVALID_OPTION',
      `An outage is from ${show(fromMs)} to ${show(toMs)}; expected two times, the later one last.`,
    );
  }
  return (atMs) => spans.some(({ fromMs, toMs }) => atMs >= fromMs && atMs < toMs);
}

function requireNumber(name: string, value: number, least: number, most: number): void {
  if (
    typeof value === 'number' &&
    value >= least &&
    value <= most &&
    (least === 0 || Number.isInteger(value))
  )
    return;
  const kind = least === 0 ? 'a number' : 'an integer';
  throw new LimiterError(
    'INVALID_OPTION',
    `${name} is ${show(value)}; expected ${kind} from ${least} to ${most}.`,
  );
}
