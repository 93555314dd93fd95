/**
 * What the library shares with `spillgate-gateway`, and with nobody else: everything here may change in any release.
 *
 * @packageDocumentation
 */
export {
  Breaker,
  CLOSED_PERMIT,
  type BreakerOptions,
  type BreakerPermit,
  type BreakerState,
} from './breaker.ts';
export {
  DeadlineQueue,
  QueuedDeadline,
  startTimeout,
  type DeadlineQueueOptions,
  type TimeoutListener,
} from './deadline-queue.ts';
export { joinHostPort, splitHostPort, type HostPort } from './host-port.ts';
export { BoundedLabels } from './metrics/bounded-labels.ts';
export { oneLine } from './one-line.ts';
export { TokenMeter } from './token-meter.ts';
export type { LeaseRelay, LeaseRequest } from './stores/local/lease-broker.ts';
export type { LeaseAnswer } from './stores/local/lease-table.ts';
export { openRedisStore, type SharingRedisStore } from './stores/redis/redis-store.ts';
export { openRedisCommands, type RedisCommands } from './stores/redis/redis-commands.ts';
