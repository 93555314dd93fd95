// The contenders of one key or a few, as their processes open them.
import { tokenBucket, type LeaseMode } from 'spillgate';

import type { Awaitable } from '../frame/awaitable.ts';
import { Keys, uniform } from '../frame/keys.ts';
import { openIoredis } from './connections.ts';
import { awaitableOf, limiterOn } from './ours.ts';
import {
  fastifyRateLimit,
  rateLimiterFlexible,
  rateLimiterFlexibleBlocking,
  rateLimitRedis,
  type Peer,
} from './peers.ts';

export interface KeyTraffic {
  readonly id: 'hot' | 'spread' | 'flood';
  readonly title: string;
  /** Requests per second that the policy admits. */
  readonly perSecond: number;
  readonly keyCount: number;
}

export const LEASE_MODES: readonly LeaseMode[] = [false, true, 'auto'];
export const KEY_PEERS: readonly Peer[] = [rateLimiterFlexible, rateLimitRedis, fastifyRateLimit];

export function leaseId(mode: LeaseMode): string {
  return `leases-${mode}`;
}

/** The keys of one contender, in their order. */
export function keyOrder({ keyCount }: KeyTraffic): () => string {
  if (keyCount === 1) return () => 'hot';
  const keys = new Keys(uniform(keyCount));
  return () => keys.next();
}

/** What the process of one contender asks. */
export function openKeys(port: number, traffic: KeyTraffic, contender: string): Awaitable {
  const mode = LEASE_MODES.find((each) => leaseId(each) === contender);
  if (mode !== undefined) return openOurs(port, traffic, mode);
  const peer = [...KEY_PEERS, rateLimiterFlexibleBlocking].find(({ id }) => id === contender);
  if (peer === undefined) throw new RangeError(`there is no contender ${contender}`);
  return peer.openWindow(port, { limit: traffic.perSecond, seconds: 1 });
}

function openOurs(port: number, { id, perSecond }: KeyTraffic, mode: LeaseMode): Awaitable {
  const numbers = { average: perSecond, burst: perSecond, period: '1s' } as const;
  const policy = tokenBucket({ name: `${id}-${mode}`, ...numbers, leases: mode });
  return awaitableOf(limiterOn(openIoredis(port)), policy);
}
