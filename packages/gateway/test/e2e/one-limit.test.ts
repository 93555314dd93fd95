// One limit, asked for in every way at once: the proxy, Envoy's rate limit service, forward auth and the library, on
// one Redis.
import { createLimiter, fixedWindow } from 'spillgate';
import { redisStore } from 'spillgate/redis';
import { expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { askRls, descriptor } from '../service/rls-client.ts';
import { GatewayProcess } from './gateway-process.ts';
import { burst, startBackend, statusOf } from './traffic.ts';

const QUOTA = 200;
/** Of each of the four. */
const REQUESTS = 100;

test('the proxy, RLS, forward auth and the library together admit exactly the quota', async () => {
  const [redis, backend] = await Promise.all([startRedis(), startBackend()]);
  onTestFinished(async () => void (await Promise.all([redis.stop(), backend.close()])));
  const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0", client_address: { trusted_proxies: [loopback] } }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
redis: { endpoints: ["127.0.0.1:${redis.port}"], read_timeout: 5s }
logging: { access_log_enabled: false, decision_log: "off" }
service:
  address: "127.0.0.1:0"
  rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [api] }] }
rate_limit:
  deadline: 10s
  failure_policy: failClosed
  policies: { api: { algorithm: fixedWindow, quota: ${QUOTA}, window: 365d } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [api] }]
`);
  onTestFinished(async () => gateway.remove());
  const limiter = createLimiter({
    store: redisStore({ url: `redis://127.0.0.1:${redis.port}` }),
    deadlineMs: 10_000,
    failurePolicy: 'failClosed',
  });
  onTestFinished(async () => limiter.close());
  const api = fixedWindow({ name: 'api', quota: QUOTA, window: '365d' });
  const { servicePort } = gateway;
  const ann = { 'X-User': 'ann' };
  const times = async (ask: () => Promise<boolean>): Promise<number> =>
    (await Promise.all(Array.from({ length: REQUESTS }, ask))).filter(Boolean).length;

  const [proxied, overRls, forwarded, direct] = await Promise.all([
    burst([gateway.url], REQUESTS, ann).then(({ statuses }) => statuses.get(200) ?? 0),
    times(async () => isOk(await askRls(servicePort, { descriptors: [descriptor('user=ann')] }))),
    times(
      async () =>
        (await statusOf(`http://127.0.0.1:${servicePort}/v1/forward-auth`, {
          ...ann,
          'X-Forwarded-Method': 'GET',
          'X-Forwarded-Uri': '/',
          'X-Forwarded-Host': 'shop.example',
        })) === 200,
    ),
    times(async () => (await limiter.check(api.for('ann'))).allowed),
  ]);

  expect(proxied + overRls + forwarded + direct).toBe(QUOTA);
  expect(backend.served()).toBe(proxied);
});

function isOk(answer: unknown): boolean {
  return (
    typeof answer === 'object' && answer !== null && 'overallCode' in answer && answer.overallCode === 'OK'
  );
}
