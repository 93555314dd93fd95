// One request, two limits: both are charged, or neither is.
import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';

const limiter = createLimiter();
const perUser = tokenBucket({ name: 'user', average: 10, burst: 10, period: '1h' });
const perTenant = slidingWindowLog({ name: 'tenant', quota: 2, window: '1h' });

const limits = [perUser.for('ann'), perTenant.for('acme')];
for (const request of [1, 2, 3]) {
  const decision = await limiter.check(limits);
  const left = decision.verdicts.map((verdict) => `${verdict.policy} ${verdict.remaining}`).join(', ');
  console.log(
    `request ${request}: ${decision.allowed ? 'allowed' : `denied by ${decision.policy}`}; left: ${left}`,
  );
}
// The third request was denied by the tenant's limit, so the user still has 8 and not 7.
await limiter.close();
