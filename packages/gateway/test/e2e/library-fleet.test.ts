// A gateway, the command line on Redis and a process with the library alone: one fleet.
import { expect, onTestFinished, test } from 'vitest';
import { PATIENCE_MS } from '../../../../test/patience.ts';
import { startRedis } from '../../../../test/redis/servers.ts';
import { spillgate } from '../cli/terminal.ts';
import { GatewayProcess } from './gateway-process.ts';
import { LibraryProcess, type LibraryDecision } from './library-process.ts';

const PREFIX = 'shared:';

test('what a gateway or the command line sets holds in a process that has only the library', async () => {
  const redis = await startRedis();
  onTestFinished(async () => redis.stop());
  const library = await LibraryProcess.start({ url: redis.url, prefix: PREFIX });
  onTestFinished(() => library.kill());
  const onRedis = ['--redis', redis.url, '--prefix', PREFIX];
  const told = async (key: string, fits: Partial<LibraryDecision>): Promise<void> => {
    await expect.poll(async () => library.check(key), { timeout: PATIENCE_MS }).toMatchObject(fits);
  };
  await told('ann', { allowed: true, limit: 1000 });

  // The policies are known from what the process publishes: no gateway runs yet, and no file is named.
  const byCommand = await spillgate(['override', 'calls', 'ann', '--quota', '900', ...onRedis], {
    files: {},
  });
  expect(byCommand).toMatchObject({ exitCode: 0, stderr: '' });
  await told('ann', { limit: 900 });

  const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
redis: { url: "${redis.url}", read_timeout: 1s, key_prefix: "${PREFIX}" }
logging: { access_log_enabled: false, decision_log: "off" }
rate_limit:
  deadline: 5s
  policies: { calls: { algorithm: fixedWindow, quota: 1000, window: 1h } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [calls] }]
`);
  onTestFinished(async () => gateway.remove());
  await put(gateway, '/v1/keys/calls/bob/override', { quota: 7 });
  await put(gateway, '/v1/keys/calls/eve/block', { expires_in: '1h' });
  await told('bob', { limit: 7 });
  await told('eve', { allowed: false, source: 'block' });
  const kinds = async (): Promise<unknown> => (await fetch(`${gateway.adminUrl}/v1/fleet`)).json();
  await expect.poll(kinds, { timeout: PATIENCE_MS }).toMatchObject({
    configurations: [expect.any(String)],
    instances: [{ kind: 'gateway' }, { kind: 'library', name: 'library', decisions: {} }],
  });

  expect(await library.close()).toBe(0);
});

async function put(gateway: GatewayProcess, path: string, body: object): Promise<void> {
  const { status } = await fetch(`${gateway.adminUrl}${path}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(status).toBe(200);
}
