import { systemClock, type Clock } from './clock.ts';
import { logDecisions, type DecisionLogEntry } from './decision-log.ts';
import { LimiterError, show } from './errors.ts';
import { requireFailurePolicy, type FailurePolicy } from './failure-policy.ts';
import { StoreLimiter, type Limiter } from './limiter.ts';
import { LocalFallback } from './apply-failure-policy.ts';
import { requireOptionNames } from './options.ts';
import { memoryStore, MemoryStore } from './stores/memory-store.ts';
import type { Store } from './stores/store.ts';

export interface LimiterOptions {
  /** Where the state lives. Default: the embedded memory store. */
  readonly store?: Store | undefined;
  /** Who answers while the store cannot, for policies that do not say it themselves. Default: `'inMemoryFallback'`. */
  readonly failurePolicy?: FailurePolicy | undefined;
  /**
   * How many limiters share the store, 1 to 10000. While `inMemoryFallback` decides, each enforces the policies'
   * numbers divided by this, so that together they stay at one policy. Default: 1, each enforces the whole policy.
   */
  readonly instances?: number | undefined;
  /** Where `inMemoryFallback` keeps its states, such as one with another `maxKeys`. Default: `memoryStore()`. */
  readonly fallbackStore?: MemoryStore | undefined;
  /** How long a check waits for the store, 1 to 60000 ms. Default: 50. */
  readonly deadlineMs?: number | undefined;
  /** Whole microseconds, for the embedded stores and the times in events. Default: a monotonic clock. */
  readonly clock?: Clock | undefined;
  /** `true` prints a line per decision with `console.info`; a function gets the entry instead. Default: off. */
  readonly decisionLog?: boolean | ((entry: DecisionLogEntry) => void) | undefined;
}

export const DEFAULT_DEADLINE_MS = 50;
const MAX_DEADLINE_MS = 60_000;
const STORE_METHODS = ['check', 'peek', 'forget', 'health', 'close'];
const MAX_INSTANCES = 10_000;
const OPTIONS = [
  'store',
  'failurePolicy',
  'instances',
  'fallbackStore',
  'deadlineMs',
  'clock',
  'decisionLog',
];

/**
 * A limiter on the embedded memory store, or on the store you pass.
 *
 * @example
 * const limiter = createLimiter();
 * const api = tokenBucket({ name: 'api', average: 100, burst: 50, period: '1s' });
 * const decision = await limiter.check(api.for(userId));
 */
export function createLimiter(options: LimiterOptions = {}): Limiter {
  requireOptions(options);
  const {
    clock = systemClock,
    failurePolicy = 'inMemoryFallback',
    instances = 1,
    deadlineMs = DEFAULT_DEADLINE_MS,
  } = options;
  const store = options.store ?? memoryStore({ clock });
  // Whatever the limiter's own failure policy is, a policy may ask for it. It takes no memory before it decides.
  const fallback =
    store instanceof MemoryStore
      ? undefined
      : new LocalFallback(options.fallbackStore ?? memoryStore({ clock }), instances);
  const limiter = new StoreLimiter({ store, fallback, failurePolicy, deadlineMs, clock });
  if (options.decisionLog !== undefined && options.decisionLog !== false) {
    logDecisions(limiter, options.decisionLog === true ? undefined : options.decisionLog);
  }
  return limiter;
}

function requireOptions(options: LimiterOptions): void {
  requireOptionNames('The options of createLimiter()', options, OPTIONS);
  const { store, failurePolicy, instances, fallbackStore, deadlineMs, clock, decisionLog } = options;
  if (store !== undefined && !isStore(store)) {
    invalid(
      `store is ${show(store)}; expected a store with ${STORE_METHODS.join(', ')}, such as memoryStore(): leave it out for embedded memory.`,
    );
  }
  requireFailurePolicy(failurePolicy, 'INVALID_OPTION');
  if (instances !== undefined && !isIntegerUpTo(MAX_INSTANCES, instances)) {
    invalid(
      `instances is ${show(instances)}; expected an integer from 1 to ${MAX_INSTANCES}: how many limiters share the store.`,
    );
  }
  if (fallbackStore !== undefined && !(fallbackStore instanceof MemoryStore)) {
    invalid(`fallbackStore is ${show(fallbackStore)}; expected a memory store, such as memoryStore().`);
  }
  if (deadlineMs !== undefined && !isIntegerUpTo(MAX_DEADLINE_MS, deadlineMs)) {
    invalid(
      `deadlineMs is ${show(deadlineMs)}; expected an integer from 1 to ${MAX_DEADLINE_MS} milliseconds.`,
    );
  }
  if (clock !== undefined && typeof clock !== 'function') {
    invalid(
      `clock is ${show(clock)}; expected a function that returns whole microseconds, such as () => Date.now() * 1000.`,
    );
  }
  if (decisionLog !== undefined && typeof decisionLog !== 'boolean' && typeof decisionLog !== 'function') {
    invalid(`decisionLog is ${show(decisionLog)}; expected true, false or a function that takes an entry.`);
  }
}

function isIntegerUpTo(max: number, value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}

function isStore(store: unknown): store is Store {
  return (
    typeof store === 'object' && store !== null && STORE_METHODS.every((method) => hasMethod(store, method))
  );
}

function hasMethod(store: object, method: string): boolean {
  return typeof Reflect.get(store, method) === 'function';
}

function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}
