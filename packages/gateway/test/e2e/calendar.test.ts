// Quotas of the calendar through a whole gateway, with their real resets.
import { expect, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { startOrigin } from '../proxy/rig.ts';
import { runGateway, type RunningGateway } from '../runtime/running-gateway.ts';

const OFFSET_MS = 5.5 * 3_600_000;

/** When the year ends in India, which never changes its clocks. */
function endOfYearMs(): number {
  return Date.UTC(new Date(Date.now() + OFFSET_MS).getUTCFullYear() + 1, 0, 1) - OFFSET_MS;
}

async function quotaOf(every: string, redisPort: number | undefined): Promise<RunningGateway> {
  const origin = await startOrigin();
  return runGateway(`
backend: { url: "${origin.url}" }
${redisPort === undefined ? '' : `redis: { endpoints: ["127.0.0.1:${redisPort}"], read_timeout: 20s }`}
rate_limit:
  failure_policy: failClosed
  deadline: 20s
  key_strategy: { type: header, header_name: X-Tenant }
  policies: { plan: { algorithm: calendarQuota, quota: 2, every: ${every}, time_zone: Asia/Kolkata } }
  rules: [{ name: all, policies: [plan] }]
`);
}

test.each(['memory', 'redis'] as const)(
  'a year has its quota, and its end is the reset (%s)',
  async (store) => {
    const redis = store === 'redis' ? await startRedis() : undefined;
    try {
      const { ask } = await quotaOf('year', redis?.port);
      const send = async (tenant: string): ReturnType<RunningGateway['ask']> =>
        ask('/', { headers: { 'X-Tenant': tenant } });

      const statuses = [(await send('acme')).status, (await send('acme')).status];
      const before = Math.floor((endOfYearMs() - Date.now()) / 1000);
      const refused = await send('acme');
      const after = Math.floor((endOfYearMs() - Date.now()) / 1000);

      expect([...statuses, refused.status]).toEqual([200, 200, 429]);
      // Whole seconds, rounded up, between what is left before and behind the request.
      const retryAfter = Number(refused.headers['retry-after']);
      expect(retryAfter).toBeGreaterThanOrEqual(after);
      expect(retryAfter).toBeLessThanOrEqual(before + 2);
      expect((await send('globex')).status).toBe(200);
    } finally {
      await redis?.stop();
    }
  },
);

test('a quota for life has no reset, and comes back when it is forgotten', async () => {
  const { ask, askAdmin } = await quotaOf('ever', undefined);
  const send = async (): ReturnType<RunningGateway['ask']> => ask('/', { headers: { 'X-Tenant': 'acme' } });

  const statuses = [(await send()).status, (await send()).status, (await send()).status];
  const refused = await send();
  expect(statuses).toEqual([200, 200, 429]);
  expect(refused.headers['retry-after']).toBeUndefined();

  const forgotten = await askAdmin('/v1/keys/plan/acme', { method: 'DELETE' });
  expect(forgotten.status).toBeLessThan(300);
  expect((await send()).status).toBe(200);
});
