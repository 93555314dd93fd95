// Other numbers for one key, at run time. What the key has spent stays spent.
import { createLimiter, tokenBucket } from 'spillgate';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 10, burst: 10, period: '1h' });

await limiter.check(api.for('ann'), { cost: 10 });
await limiter.check(api.for('bob'), { cost: 10 });
console.log(`spent:   ann ${await left('ann')}, bob ${await left('bob')}`);

api.override('ann', { average: 15, burst: 15 });
console.log(`raised:  ann ${await left('ann')}, bob ${await left('bob')}`);

api.override('ann', null);
console.log(`removed: ann ${await left('ann')}, bob ${await left('bob')}`);

await limiter.close();

/** `peek` only looks. Ask the policy again after an override: a limit keeps the numbers it was made with. */
async function left(key: string): Promise<number> {
  return (await limiter.peek(api.for(key))).remaining;
}
