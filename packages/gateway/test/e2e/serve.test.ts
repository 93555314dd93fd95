// `spillgate serve` as a process: the service without the proxy, its reloads, and its end.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { eventually, startRedis } from '../../../../test/redis/servers.ts';
import { askRls, descriptor } from '../service/rls-client.ts';
import { GatewayProcess } from './gateway-process.ts';
import { statusOf } from './traffic.ts';

async function serve(yaml: string): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(`${yaml}\nadmin: { address: "127.0.0.1:0" }\n`, 'serve');
  onTestFinished(async () => gateway.remove());
  return gateway;
}

test('offers the service and the admin server, and no proxy', async () => {
  const gateway = await serve('service: { address: "127.0.0.1:0" }');

  expect(gateway.listeningPorts()).toBe(2);
  expect(gateway.port).toBe(gateway.servicePort);
  expect(await statusOf(`http://127.0.0.1:${gateway.servicePort}/healthcheck`)).toBe(200);
  expect(await statusOf(`${gateway.adminUrl}/readyz`)).toBe(200);
  expect(gateway.lines.filter(({ level }) => level === 'error')).toEqual([]);
  expect(await gateway.terminate()).toBe(0);
});

test('takes changed files of descriptors into use, and refuses broken ones', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillgate-serve-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const limitTo = (requests: number): void =>
    writeFileSync(
      join(folder, 'shop.yaml'),
      `domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: ${requests} } }]\n`,
    );
  limitTo(1);
  const gateway = await serve(
    `service: { address: "127.0.0.1:0", rls: { directory: ${JSON.stringify(folder)} } }`,
  );
  const remaining = async (): Promise<string> =>
    JSON.stringify(
      await askRls(gateway.servicePort, { descriptors: [descriptor('user=ann', { hitsAddend: 0n })] }),
    );

  limitTo(7);
  await eventually('the new limit holds', async () => (await remaining()).includes('"limitRemaining":7'));
  limitTo(-1);
  await eventually('the broken file is refused', () =>
    Promise.resolve(gateway.lines.some(({ outcome }) => outcome === 'refused')),
  );

  expect(await remaining()).toContain('"limitRemaining":7');
});

test('several workers share its port', async () => {
  const redis = await startRedis();
  onTestFinished(async () => redis.stop());
  const gateway = await serve(`
server: { workers: 2 }
redis: { endpoints: ["127.0.0.1:${redis.port}"] }
service: { address: "127.0.0.1:0" }
`);

  expect(gateway.workerPids()).toHaveLength(2);
  expect(await statusOf(`http://127.0.0.1:${gateway.port}/healthcheck`)).toBe(200);
  expect(await gateway.terminate()).toBe(0);
});
