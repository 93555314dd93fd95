// The servers that keep cached answers: replaced, standing still, gone and back.
import { expect, test } from 'vitest';
import { eventually, startRedis } from '../../../../test/redis/servers.ts';
import { cachedGateway, section } from './cached-gateway.ts';
import { says, scriptedService } from './scripted-service.ts';
import { PLAN } from './services.ts';
import { within } from './sources.ts';

test('cache_redis by replication: the master may stand anywhere, and a promotion is followed', async () => {
  const master = await startRedis();
  const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] });
  const endpoints = [replica, master].map(({ port }) => `127.0.0.1:${port}`);
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const { ask, source, clock } = cachedGateway(service, {
    cache_redis: { mode: 'replication', endpoints, read_timeout: '2s' },
  });
  await ask();
  await eventually('the master stores it', async () => Number(await master.command('DBSIZE')) === 1);
  await eventually('the replica has it', async () => Number(await replica.command('DBSIZE')) === 1);

  await replica.command('REPLICAOF', 'NO', 'ONE');
  await master.command('REPLICAOF', '127.0.0.1', replica.port);

  let at = 0;
  await eventually('the promoted one stores answers', async () => {
    clock.ms += 2000;
    await ask(`key${(at += 1)}`);
    return Number(await replica.command('DBSIZE')) > 1;
  });
  expect(at).toBeGreaterThan(0);
  await source.close();
  await Promise.all([master.stop(), replica.stop()]);
});

test('a Redis that stands still costs its timeout once, and then nothing for a second', async () => {
  const frozen = await startRedis();
  const service = scriptedService(async () => says(PLAN, 'no-store'));
  const { ask, source, told, clock } = cachedGateway(service, {
    redis: { ...section(frozen), read_timeout: '100ms' },
  });
  await ask();
  await frozen.pause();

  // One timeout of 100 ms, not twenty.
  await within(
    1000,
    (async () => {
      for (let at = 0; at < 20; at += 1) await ask(`key${at}`);
    })(),
  );

  expect(told.events.filter((event) => event === 'read failed')).toHaveLength(1);
  expect(new Set(told.steps)).toEqual(new Set(['service/answered']));
  clock.ms = 1000;
  await ask('later');
  expect(told.events.filter((event) => event === 'read failed')).toHaveLength(2);
  await source.close();
  await frozen.stop();
});

test('a Redis that is not there leaves the service and memory', async () => {
  const gone = await startRedis();
  await gone.stop();
  const { ask, source, told } = cachedGateway(
    scriptedService(async () => says(PLAN)),
    {
      redis: { ...section(gone), read_timeout: '50ms' },
    },
  );

  expect(await ask()).toMatchObject({ step: 'service' });
  expect(await ask()).toMatchObject({ step: 'cache' });
  expect(told.events).toContain('read failed');
  await source.close();
});

test('a Redis that comes back is used again', async () => {
  const server = await startRedis();
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const { ask, source, clock } = cachedGateway(service, { redis: section(server) });
  await ask();
  await server.kill();
  clock.ms += 2000;
  await ask('b');
  await server.restart();

  let at = 0;
  await eventually('an answer is stored', async () => {
    clock.ms += 2000;
    await ask(`key${(at += 1)}`);
    return Number(await server.command('DBSIZE')) > 0;
  });
  expect(at).toBeGreaterThan(0);
  await source.close();
  await server.stop();
});
