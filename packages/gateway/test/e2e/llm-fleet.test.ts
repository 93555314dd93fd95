// 50 keys with budgets over 4 gateways on one Redis: what was charged is what was used, to the token.
import { createLimiter, calendarQuota, fixedWindow, type Policy } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { seededRandom } from 'spillgate/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startProvider } from '../../../../examples/llm/fake-provider.ts';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis } from '../../../../test/redis/servers.ts';
import { runs } from '../../../../test/runs.ts';
import { runGateway, type RunningGateway } from '../runtime/running-gateway.ts';

const KEYS = 50;
const GATEWAYS = 4;
const REQUESTS = runs(2000);
const AT_ONCE = 16;
const QUOTA = 3000;
const MONTHLY = 1_000_000;

const PER_DAY = fixedWindow({ name: 'tokens-per-year', quota: QUOTA, window: '365d' });
const PER_MONTH = calendarQuota({ name: 'tokens-ever', quota: MONTHLY, every: 'ever' });
const REQUEST_COUNT = fixedWindow({ name: 'requests', quota: MONTHLY, window: '365d' });

function config(backend: string, redisPort: number): string {
  return `
backend: { url: "${backend}" }
redis: { endpoints: ["127.0.0.1:${redisPort}"], read_timeout: ${PATIENCE_MS}ms }
logging: { decision_log: "off" }
rate_limit:
  deadline: ${PATIENCE_MS}ms
  failure_policy: failClosed
  policies:
    requests: { algorithm: fixedWindow, quota: ${MONTHLY}, window: 365d }
    tokens-per-year: { algorithm: fixedWindow, quota: ${QUOTA}, window: 365d }
    tokens-ever: { algorithm: calendarQuota, quota: ${MONTHLY}, every: ever }
  rules:
    - name: chat
      key: { type: bodyField, name: model }
      policies: [{ policy: requests, cost: 1 }, tokens-per-year, tokens-ever]
      cost: { type: llmTokens }
      settle: { type: llmTokens }
`;
}

test(
  'what 50 keys are charged by 4 gateways is what they have used',
  { timeout: 4 * PATIENCE_MS },
  async () => {
    const [redis, provider] = await Promise.all([startRedis(), startProvider()]);
    onTestFinished(async () => {
      provider.close();
      await redis.stop();
    });
    const gateways: RunningGateway[] = [];
    for (let at = 0; at < GATEWAYS; at += 1)
      gateways.push(await runGateway(config(provider.url, redis.port)));
    const limiter = createLimiter({
      store: redisStore({ url: `redis://127.0.0.1:${redis.port}` }),
      deadlineMs: PATIENCE_MS,
      failurePolicy: 'failClosed',
    });
    onTestFinished(async () => limiter.close());
    const random = seededRandom(50);
    const admitted = new Map<string, number>();
    let refused = 0;
    let left = REQUESTS;
    const client = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const model = `key-${random.below(KEYS)}`;
        const stream = random.below(2) === 0;
        const body = { model, max_tokens: 1 + random.below(300), stream, messages: [{ content: 'a b c' }] };
        const { status } = await random
          .pick(gateways)
          .ask(random.pick(['/v1/chat/completions', '/v1/messages']), {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(body),
          });
        if (status === 429) refused += 1;
        else admitted.set(model, (admitted.get(model) ?? 0) + 1);
      }
    };

    await Promise.all(Array.from({ length: AT_ONCE }, client));

    const charged = async (policy: Policy, key: string, quota: number): Promise<number> =>
      quota - (await limiter.peek(policy.for(key), { cost: 0 })).remaining;
    for (const [key, used] of provider.used) {
      await expect.poll(async () => charged(PER_MONTH, key, MONTHLY), { timeout: PATIENCE_MS }).toBe(used);
      expect(await charged(PER_DAY, key, QUOTA)).toBe(Math.min(used, QUOTA));
      expect(await charged(REQUEST_COUNT, key, MONTHLY)).toBe(admitted.get(key));
    }
    const total = [...provider.used.values()].reduce((sum, used) => sum + used, 0);
    const logged = (): number => {
      const text = gateways.flatMap(({ log }) => log).join('');
      const costs = [...text.matchAll(/"cost":(\d+),"costEstimated":false/g)];
      return costs.reduce((sum, [, cost]) => sum + Number(cost), 0);
    };
    await expect.poll(logged, { timeout: PATIENCE_MS }).toBe(total);
    expect(provider.used.size).toBe(KEYS);
    // Budgets were spent, or nothing was shown.
    if (REQUESTS >= 2000) expect(refused).toBeGreaterThan(0);
  },
);
