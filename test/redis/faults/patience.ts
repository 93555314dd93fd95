import { createLimiter, type Limit, type Limiter } from 'spillgate';
import { redisStore, type RedisStoreOptions } from 'spillgate/redis';

const PATIENT_MS = 10_000;

/** A limiter that waits for as long as a busy machine may take: to prepare states and to look at them afterwards. */
export async function patiently(
  options: RedisStoreOptions,
  use: (limiter: Limiter) => Promise<void>,
): Promise<void> {
  const limiter = createLimiter({
    store: redisStore({ ...options, timeoutMs: PATIENT_MS }),
    failurePolicy: 'failClosed',
    deadlineMs: PATIENT_MS,
  });
  try {
    await use(limiter);
  } finally {
    await limiter.close();
  }
}

/** Spends all that these limits have. */
export async function exhaust(options: RedisStoreOptions, limits: readonly Limit[]): Promise<void> {
  await patiently(options, async (limiter) => {
    for (const limit of limits) {
      const { allowed } = await limiter.check(limit, { cost: limit.plan.limit });
      if (!allowed) throw new Error(`${limit.policy.name} ${limit.key} was not full`);
    }
  });
}
