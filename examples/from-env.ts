// A limiter and its policy from environment variables; every variable has a default.
import { LimiterError, limiterFromEnv } from 'spillgate';

// An application passes process.env.
const { limiter, policy } = limiterFromEnv({
  DISTRIBUTED_RATE_LIMIT_MAX: '2',
  DISTRIBUTED_RATE_LIMIT_WINDOW: '1h',
});
for (const request of [1, 2, 3]) {
  const { allowed, remaining } = await limiter.check(policy.for('api-token'));
  console.log(`request ${request}: allowed ${allowed}, remaining ${remaining}`);
}
await limiter.close();

// Limits that several machines share need a store that they can all reach.
try {
  limiterFromEnv({ DISTRIBUTED_RATE_LIMIT_ENABLED: 'true' });
} catch (error) {
  if (!(error instanceof LimiterError)) throw error;
  console.log(`${error.code}: ${error.message}`);
}
