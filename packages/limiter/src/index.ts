export { createLimiter, DEFAULT_DEADLINE_MS, type LimiterOptions } from './create-limiter.ts';
export { MAX_LIMITS_PER_CHECK, type CheckOptions } from './check-arguments.ts';
export type { Limiter } from './limiter.ts';
export type { AcquireOptions } from './acquire.ts';
export type { Slot } from './slot.ts';
export type { Reservation, ReserveOptions, Settlement } from './reservation.ts';
export {
  calendarQuota,
  concurrency,
  fixedWindow,
  leakyBucket,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
  type PolicyOptions,
} from './policy.ts';
export type { BlockOptions } from './policy-block.ts';
export { policyKinds, type PolicyKind } from './policy-kinds.ts';
export type { PolicyOption } from './algorithms/algorithm.ts';
export type { CalendarQuotaNumbers } from './algorithms/calendar-quota/calendar-quota.ts';
export type { ConcurrencyNumbers } from './algorithms/concurrency/concurrency.ts';
export type { FixedWindowNumbers } from './algorithms/fixed-window/fixed-window.ts';
export type { LeakyBucketNumbers } from './algorithms/leaky-bucket/leaky-bucket.ts';
export type { TokenBucketNumbers } from './algorithms/token-bucket/token-bucket.ts';
export type { WindowNumbers } from './algorithms/window.ts';
export type { AlgorithmName } from './algorithms/index.ts';
export type { LeaseMode, Limit, Plan, Policy } from './limit.ts';
export type { Decision, DecisionSource, Penalty, Verdict } from './decision.ts';
export type { DistributedStoreSettings } from './distributed-settings.ts';
export type { Clock } from './clock.ts';
export { systemClock } from './clock.ts';
export { formatDuration, parseDuration, type Duration, type DurationBounds } from './duration.ts';
export { LimiterError, type ErrorClass, type ErrorCode } from './errors.ts';
export type { LimiterEvent, LimiterEvents, Listener } from './events.ts';
export type { FailurePolicy } from './failure-policy.ts';
export { logDecisions, type DecisionLogEntry } from './decision-log.ts';
export { limiterFromEnv, type LimiterFromEnv, type LimiterFromEnvOptions } from './limiter-from-env.ts';
export {
  DEFAULT_MAX_KEYS,
  memoryStore,
  type MemoryStore,
  type MemoryStoreOptions,
} from './stores/memory-store.ts';
export type {
  AdjustedLimit,
  Adjustment,
  Caller,
  ReservedCharge,
  LeaseStatistics,
  NodeHealth,
  Store,
  StoreEvent,
  StoreHealth,
  StoreObserver,
  StoreStatistics,
  StoreVerdict,
  SyncStore,
} from './stores/store.ts';
