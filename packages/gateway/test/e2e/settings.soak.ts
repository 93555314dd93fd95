// How long a setting of one gateway takes to hold in another one and in a process with the library.
// SPILLGATE_CHANGES: how many are made, 100 if it is not set.
import { expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';
import { LibraryProcess } from './library-process.ts';

const CHANGES = Number(process.env['SPILLGATE_CHANGES'] ?? 100);

test('a setting holds in every instance within a second', { timeout: 600_000 }, async () => {
  const redis = await startRedis();
  onTestFinished(async () => redis.stop());
  const prefix = 'soak:';
  const yaml = `
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
redis: { url: "${redis.url}", read_timeout: 1s, key_prefix: "${prefix}" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  deadline: 5s
  policies: { calls: { algorithm: fixedWindow, quota: 1000, window: 1h } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [calls] }]
`;
  const [one, other] = await Promise.all([GatewayProcess.start(yaml), GatewayProcess.start(yaml)]);
  const library = await LibraryProcess.start({ url: redis.url, prefix });
  onTestFinished(async () => {
    library.kill();
    await Promise.all([one.remove(), other.remove()]);
  });
  const inGateway: number[] = [];
  const inLibrary: number[] = [];

  for (let at = 1; at <= CHANGES; at += 1) {
    const quota = 10_000 + at;
    await fetch(`${one.adminUrl}/v1/keys/calls/ann/override`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ quota }),
    });
    const setMs = performance.now();
    const seen = async (holds: () => Promise<boolean>): Promise<number> => {
      while (!(await holds()));
      return performance.now() - setMs;
    };
    const [gatewayMs, libraryMs] = await Promise.all([
      seen(async () => {
        const { headers } = await fetch(other.url, { headers: { 'X-User': 'ann' } });
        return headers.get('ratelimit-policy')?.includes(`q=${quota};`) === true;
      }),
      seen(async () => (await library.check('ann')).limit === quota),
    ]);
    inGateway.push(gatewayMs);
    inLibrary.push(libraryMs);
  }

  process.stdout.write(`\n${spread('another gateway', inGateway)}\n${spread('the library', inLibrary)}\n`);
  expect(Math.max(...inGateway, ...inLibrary)).toBeLessThan(1000);
});

function spread(name: string, times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(0);
  return `${name}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms of ${times.length} changes`;
}
