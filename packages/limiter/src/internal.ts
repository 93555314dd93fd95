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
export { limitHeaderNames } from './http/rate-limit-headers.ts';
export { BoundedLabels } from './metrics/collection.ts';
export { oneLine } from './one-line.ts';
export { TokenMeter } from './token-meter.ts';
export type { LeaseRelay, LeaseRequest } from './stores/local/lease-broker.ts';
export type { LeaseAnswer } from './stores/local/lease-table.ts';
export { openRedisStore, type SharingRedisStore } from './stores/redis/redis-store.ts';
export { openRedisCommands, type RedisCommands } from './stores/redis/redis-commands.ts';
export { DECISION_SOURCES } from './decision.ts';
export { AppliedSettings, type SettingsChange } from './fleet/applied-settings.ts';
export {
  readSummary,
  PUBLISH_EVERY_MS,
  PUBLISHED_KEYS,
  PUBLISHED_POLICIES,
  SUMMARY_TTL_MS,
  type InstanceSummary,
  type PublishedPolicy,
} from './fleet/instance-summary.ts';
export {
  KeyActivity,
  mergeActivities,
  type DecisionSums,
  type KeyActivitySnapshot,
} from './fleet/key-activity.ts';
export { MAX_NOTE_LENGTH, readSetting, type KeySetting, type KeySettingId } from './fleet/key-setting.ts';
export { openRedisFleet, type RedisFleet } from './fleet/redis-fleet.ts';
export { OwnSettings, SharedSettings, type SettingsStore } from './fleet/shared-settings.ts';
