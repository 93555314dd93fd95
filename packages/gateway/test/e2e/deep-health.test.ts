// "Deep" asks whether a decision can be made, and not only whether the process is there.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { GatewayProcess } from './gateway-process.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

async function gatewayWith(redisPort: number, failurePolicy: string): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0" }
admin: { address: "127.0.0.1:0" }
backend: { url: "http://127.0.0.1:1" }
redis: { endpoints: ["127.0.0.1:${redisPort}"], dial_timeout: 2s, read_timeout: 1s }
rate_limit: { average: 1, failure_policy: ${failurePolicy}, deadline: 1s }
`);
  onTestFinished(async () => gateway.remove());
  return gateway;
}

async function statusAt({ adminUrl }: GatewayProcess, path: string): Promise<readonly [number, unknown]> {
  const answer = await fetch(adminUrl + path);
  return [answer.status, await answer.json()];
}

async function healthCommand({ adminUrl }: GatewayProcess): Promise<readonly [number, string]> {
  return new Promise((resolve) => {
    const command = execFile(
      process.execPath,
      [PROGRAM, 'health', '--deep', '--admin', adminUrl],
      (_error, stdout) => resolve([command.exitCode ?? -1, stdout]),
    );
  });
}

test.each(['failClosed', 'passThrough'])(
  'a dead Redis and %s: no decision can be made',
  async (failurePolicy) => {
    const gateway = await gatewayWith(1, failurePolicy);

    expect(await statusAt(gateway, '/readyz')).toEqual([200, { status: 'ok' }]);
    expect(await statusAt(gateway, '/readyz?deep=1')).toMatchObject([
      503,
      { status: 'store-unavailable', store: { status: 'down' } },
    ]);
    const [exitCode, output] = await healthCommand(gateway);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/^not ready: store-unavailable\n {2}down store 127\.0\.0\.1:1: /);
  },
);

test('a dead Redis and inMemoryFallback: decisions are made locally', async () => {
  const gateway = await gatewayWith(1, 'inMemoryFallback');

  expect(await statusAt(gateway, '/readyz?deep=1')).toMatchObject([
    200,
    { status: 'ok', store: { status: 'down' } },
  ]);
});

test('a Redis that refuses to write is as good as dead, and well when it writes again', async () => {
  const server = await startRedis();
  onTestFinished(async () => server.stop());
  const gateway = await gatewayWith(server.port, 'failClosed');
  expect(await statusAt(gateway, '/readyz?deep=1')).toMatchObject([200, { status: 'ok' }]);

  await server.command('CONFIG', 'SET', 'min-replicas-to-write', '1');
  expect(await statusAt(gateway, '/readyz?deep=1')).toMatchObject([503, { status: 'store-unavailable' }]);
  await server.command('CONFIG', 'SET', 'min-replicas-to-write', '0');

  await expect
    .poll(async () => statusAt(gateway, '/readyz?deep=1'), { timeout: 40_000 })
    .toMatchObject([200, {}]);
});
