import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually, type RedisServer, startRedis } from '../../../../test/redis/servers.ts';
import { fails, type ScriptedService, says, scriptedService } from './scripted-service.ts';
import { PLAN } from './services.ts';
import { cachedGateway, section } from './cached-gateway.ts';
import { question } from './sources.ts';

let redis: RedisServer;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => redis.stop());
beforeEach(async () => {
  await redis.command('FLUSHALL');
});

function gateway(
  service: ScriptedService,
  settings: object = { redis: section(redis) },
  external: object = {},
) {
  return cachedGateway(service, settings, external);
}

async function names(): Promise<string[]> {
  const reply = await redis.command('KEYS', '*');
  return Array.isArray(reply) ? reply.map(String) : [];
}

async function stored(count = 1): Promise<string> {
  let found: string[] = [];
  await eventually('the answer is stored', async () => {
    found = await names();
    return found.length >= count;
  });
  return found[0] ?? '';
}

test('what one gateway asked the others know', async () => {
  const service = scriptedService(async () => says({ ...PLAN, tenant_key: 'acme' }, 'max-age=60'));
  const [one, two] = [gateway(service), gateway(service)];
  await one.ask();
  await stored();

  const limits = await two.ask();

  expect(limits).toMatchObject({ step: 'cache', tenantKey: 'acme' });
  expect(two.told.steps).toEqual(['cache/shared']);
  expect(two.source.limitsFor(question('a'))).toMatchObject({ step: 'cache' });
  expect(service.asked).toHaveLength(1);
  await Promise.all([one.source.close(), two.source.close()]);
});

test('an answer lives in Redis for its time and the time it may stand in, to the millisecond', async () => {
  const { ask, source } = gateway(scriptedService(async () => says(PLAN, 'max-age=60')));
  await ask();

  const ttl = Number(await redis.command('PTTL', await stored()));

  expect(ttl).toBeLessThanOrEqual(360_000);
  expect(ttl).toBeGreaterThan(355_000);
  await source.close();
});

test('how long it is fresh is what Redis says is left, whatever the clocks of gateways say', async () => {
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const one = gateway(service);
  await one.ask();
  const name = await stored();
  // As if 50 s had passed.
  await redis.command('PEXPIRE', name, '310000');
  const two = gateway(service);

  await two.ask();
  two.clock.ms = 9000;
  expect(two.source.limitsFor(question('a'))).toMatchObject({ step: 'cache' });
  two.clock.ms = 10_001;
  await redis.command('PEXPIRE', name, '299999');
  service.answer = async () => says({ ...PLAN, burst: 60 }, 'max-age=60');
  await two.ask();

  expect(service.asked).toHaveLength(2);
  await Promise.all([one.source.close(), two.source.close()]);
});

test('the copy of another gateway stands in when the service fails', async () => {
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const one = gateway(service);
  await one.ask();
  const name = await stored();
  await redis.command('PEXPIRE', name, '100000');
  service.answer = async () => fails();
  const two = gateway(service);

  expect(await two.ask()).toMatchObject({ step: 'stale' });
  expect(two.told).toMatchObject({ steps: ['stale/status'], events: ['read stale'] });
  await Promise.all([one.source.close(), two.source.close()]);
});

test('no-store leaves nothing in Redis', async () => {
  const { ask, source } = gateway(scriptedService(async () => says(PLAN, 'max-age=60, no-store')));
  await ask();
  await ask('b');

  expect(await names()).toEqual([]);
  await source.close();
});

test('an answer that may not be stored also ends the one before it', async () => {
  const service = scriptedService(async () => says(PLAN, 'max-age=100'));
  const { ask, source, clock } = gateway(service);
  for (let at = 0; at < 5; at += 1) await ask();
  await redis.command('PEXPIRE', await stored(), '305000');
  service.answer = async () => says({ ...PLAN, burst: 9 }, 'no-store');
  clock.ms = 95_000;
  await ask();
  await eventually('it is gone from Redis', async () => (await names()).length === 0);

  expect(await ask()).toMatchObject({ step: 'service' });
  expect((await ask()).policies?.[0]?.limit).toBe(9);
  await source.close();
});

test('a lowering that another gateway heard of keeps raises waiting here too', async () => {
  const burst = (value: number) => says({ ...PLAN, burst: value }, 'max-age=100');
  const service = scriptedService(async () => burst(50));
  const [one, two] = [gateway(service), gateway(service)];
  await one.ask();
  await stored();
  await two.ask();
  service.answer = async () => burst(10);
  await redis.command('FLUSHALL');
  one.clock.ms = 100_000;
  await one.ask();
  await stored();
  two.clock.ms = 100_000;
  expect((await two.ask()).policies?.[0]?.limit).toBe(10);

  service.answer = async () => burst(50);
  await redis.command('FLUSHALL');
  two.clock.ms = 200_001;
  expect((await two.ask()).policies?.[0]?.limit).toBe(10);
  expect(two.told.events).toContain('changed held');
  await Promise.all([one.source.close(), two.source.close()]);
});

test('names hold a hash of what was asked, and nothing of it', async () => {
  const { ask, source } = gateway(
    scriptedService(async () => says(PLAN)),
    {
      redis: { ...section(redis), key_prefix: 'gw:' },
    },
  );
  await ask('secret}{key\r\nspillgate:1{');

  const name = await stored();

  expect(name).toMatch(/^gw:limits:1:[0-9a-f]{64}$/);
  const value = String(await redis.command('GET', name));
  expect(value).not.toContain('secret');
  await source.close();
});

test.each<readonly [string, (value: string, name: string) => string]>([
  ['garbage', () => 'garbage'],
  ['nothing', () => ''],
  ['another format', (value) => value.replace('"format":1', '"format":2')],
  ['the answer to another question', (value) => value.replace(/limits:1:[0-9a-f]{8}/, 'limits:1:00000000')],
  ['an answer that is wrong', (value) => value.replace('"average":100', '"average":"100"')],
  [
    'an answer with other numbers for its time',
    (value) => value.replace('"freshMs":60000', '"freshMs":1000'),
  ],
  ['a negative time', (value) => value.replace('"freshMs":60000', '"freshMs":-60000')],
  ['a field more', (value) => value.replace('{', '{"extra":1,')],
  ['half of it', (value) => value.slice(0, value.length / 2)],
  ['far too much', () => 'x'.repeat(2 ** 20 + 1)],
])('%s in Redis is not used', async (_, spoil) => {
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const one = gateway(service);
  await one.ask();
  const name = await stored();
  const value = String(await redis.command('GET', name));
  await redis.command('SET', name, spoil(value, name), 'PX', '360000');
  const two = gateway(service);

  expect(await two.ask()).toMatchObject({ step: 'service' });
  expect(two.told.events).toContain('read corrupt');
  await Promise.all([one.source.close(), two.source.close()]);
});

test('an entry without end, or of another type, is not used', async () => {
  const service = scriptedService(async () => says(PLAN, 'max-age=60'));
  const one = gateway(service);
  await one.ask();
  const name = await stored();
  await redis.command('PERSIST', name);
  const two = gateway(service);
  expect(await two.ask()).toMatchObject({ step: 'service' });

  await redis.command('DEL', name);
  await redis.command('LPUSH', name, 'a');
  const three = gateway(service);
  expect(await three.ask()).toMatchObject({ step: 'service' });
  expect(three.told.events).toContain('read failed');
  await Promise.all([one, two, three].map(async ({ source }) => source.close()));
});

test('services at two addresses never answer for each other', async () => {
  const service = (id: string, burst: number) => ({
    ...scriptedService(async () => says({ ...PLAN, burst })),
    id,
  });
  const one = gateway(service('http one', 1));
  await one.ask();
  await stored();
  const two = gateway(service('http two', 2));

  expect((await two.ask()).policies?.[0]?.limit).toBe(2);
  await Promise.all([one.source.close(), two.source.close()]);
});

test('questions that look alike find only their own answers in Redis', async () => {
  const texts = [
    'a',
    'A',
    'a ',
    '1:a',
    'a1:',
    ':',
    '~',
    'a\u0000',
    '{a}',
    'é',
    'e\u0301',
    'x'.repeat(300),
    'x'.repeat(301),
  ];
  const questions = texts.flatMap((key) => texts.map((path) => question(key, { path: `/${path}` })));
  const asked = new Map<string, number>();
  const service = scriptedService(async ({ key, path }) => {
    const average = asked.size + 1;
    asked.set(JSON.stringify([key, path]), average);
    return says({ average, period: '1s' }, 'max-age=60');
  });
  const one = gateway(service);
  for (const each of questions) await one.source.limitsFor(each);
  await stored(questions.length);
  service.answer = async () => fails();
  const two = gateway(service);

  const limits = await Promise.all(questions.map(async (each) => two.source.limitsFor(each)));

  expect(limits.map(({ step }) => step)).toEqual(questions.map(() => 'cache'));
  expect(limits.map(({ policies }) => policies?.[0]?.limit)).toEqual(
    questions.map(({ key, path }) => asked.get(JSON.stringify([key, path]))),
  );
  await Promise.all([one.source.close(), two.source.close()]);
});

test('cache_redis keeps the answers where it is given', async () => {
  const other = await startRedis();
  const { ask, source } = gateway(
    scriptedService(async () => says(PLAN)),
    {
      redis: section(redis),
      cache_redis: section(other),
    },
  );
  await ask();
  await eventually('the answer is stored', async () => Number(await other.command('DBSIZE')) === 1);

  expect(await names()).toEqual([]);
  await source.close();
  await other.stop();
});

test('a refresh takes what another gateway has just asked', async () => {
  const service = scriptedService(async () => says(PLAN, 'max-age=100'));
  const [one, two] = [gateway(service), gateway(service)];
  for (let at = 0; at < 5; at += 1) await one.ask();
  await stored();
  for (let at = 0; at < 5; at += 1) await two.ask();
  // As if 95 s had passed for everybody; Redis began to count a little later than the gateway that asked.
  await redis.command('PEXPIRE', await stored(), '305020');
  one.clock.ms = 95_000;
  await one.ask();
  await eventually('one has refreshed', () => Promise.resolve(service.asked.length === 2));
  await eventually(
    'the refreshed answer is stored',
    async () => Number(await redis.command('PTTL', await stored())) > 399_000,
  );

  two.clock.ms = 95_000;
  await two.ask();
  await eventually('two has looked', () =>
    Promise.resolve(two.told.events.filter((event) => event === 'read hit').length === 2),
  );

  two.clock.ms = 150_000;
  expect(two.source.limitsFor(question('a'))).toMatchObject({ step: 'cache' });
  expect(service.asked).toHaveLength(2);
  await Promise.all([one.source.close(), two.source.close()]);
});
