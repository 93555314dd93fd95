import { createLimiter, fixedWindow, memoryStore, tokenBucket, type Decision, type Policy } from 'spillgate';

import { MAX_KEYS, WINDOW_MS, type Candidate, type Subject } from './candidate.ts';

export const tokenBucketCandidate: Candidate = {
  id: 'spillgate-token-bucket',
  name: 'Spillgate token bucket',
  ours: true,
  syncCall: 'checkSync',
  awaitedCall: 'await check',
  open: (limit) => openLimiter(tokenBucket({ name: 'api', average: limit, burst: limit, period: WINDOW_MS })),
};

export const fixedWindowCandidate: Candidate = {
  id: 'spillgate-fixed-window',
  name: 'Spillgate fixed window',
  ours: true,
  syncCall: 'checkSync',
  awaitedCall: 'await check',
  open: (limit) => openLimiter(fixedWindow({ name: 'api', quota: limit, window: WINDOW_MS })),
};

function openLimiter(policy: Policy): Subject {
  const limiter = createLimiter({ store: memoryStore({ maxKeys: MAX_KEYS }) });
  return {
    decideSync: (key) => limiter.checkSync(policy.for(key)).allowed,
    awaited: {
      call: (key) => limiter.check(policy.for(key)),
      allowed: (decision: Decision) => decision.allowed,
      denied: () => false,
    },
    close: () => limiter.close(),
  };
}
