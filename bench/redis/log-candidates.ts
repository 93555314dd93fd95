// The sliding window log: exact, and the dearest of the algorithms, because it keeps a moment per admission.
import { slidingWindowLog } from 'spillgate';

import type { Awaitable } from '../frame/awaitable.ts';
import type { Candidate, Subject } from './candidate.ts';
import { openIoredis } from './connections.ts';
import { awaitableOf, limiterOn } from './ours.ts';

/** More than a key is asked for in a second, so nobody is denied; what is logged leaves after a second. */
const QUOTA = 1000;

const ours: Candidate = {
  id: 'spillgate-log',
  name: 'Spillgate, sliding window log',
  role: 'ours',
  async open(port) {
    const client = openIoredis(port);
    const limiter = limiterOn(client, 'log:');
    const policy = slidingWindowLog({ name: 'api', quota: QUOTA, window: '1s' });
    return subjectOf(awaitableOf(limiter, policy), async () => {
      await limiter.close();
      client.disconnect();
    });
  },
};

/** As it is written in many places: a sorted set per key, its members the requests of the window. */
const SORTED_SET_SCRIPT = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - 1000000)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('PEXPIRE', KEYS[1], 1000)
return 1`;

const sortedSet: Candidate = {
  id: 'sorted-set-log',
  name: 'a log in a sorted set, bare EVALSHA',
  role: 'reference',
  async open(port) {
    const client = openIoredis(port);
    const sha1 = String(await client.script('LOAD', SORTED_SET_SCRIPT));
    let requests = 0;
    const call = (key: string): Promise<unknown> => {
      requests += 1;
      return client.call('EVALSHA', sha1, '1', `sorted:${key}`, String(QUOTA), String(requests));
    };
    const awaitable = { call, allowed: (answer: unknown) => answer === 1, denied: () => false };
    return subjectOf(awaitable, async () => client.disconnect());
  },
};

export const LOG_CANDIDATES: readonly Candidate[] = [ours, sortedSet];

/** Nobody is denied here: the workload asks for no tight policy. */
function subjectOf(ample: Awaitable, close: Subject['close']): Subject {
  return { ample, tight: ample, close };
}
