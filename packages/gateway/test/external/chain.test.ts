import { expect, test } from 'vitest';
import type { ServiceAnswer } from '../../src/external/service/service.ts';
import { fails, type ScriptedService, says, scriptedService } from './scripted-service.ts';
import { PLAN } from './services.ts';
import { question, testSource } from './sources.ts';

const HTTP = { url: 'http://127.0.0.1:1/' };

function world(answer: ScriptedService['answer'], external: object = {}, rateLimit: object = {}) {
  const service = scriptedService(answer);
  const clock = { ms: 0 };
  const made = testSource(
    { external: { http: HTTP, ...external }, rate_limit: rateLimit },
    { service, now: () => clock.ms },
  );
  const ask = async (key = 'a', more = {}) => made.source.limitsFor(question(key, more));
  return { ...made, service, clock, ask };
}

/** Lets everything that is only waiting for its turn happen. */
async function settled(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

test('an answer is used from memory, without a promise, until its time is over', async () => {
  const { source, service, clock, told } = world(() => says(PLAN, 'max-age=10'));
  await source.limitsFor(question('a'));

  clock.ms = 9999;
  const cached = source.limitsFor(question('a'));
  expect(cached).toMatchObject({ step: 'cache' });
  expect(service.asked).toHaveLength(1);
  clock.ms = 10_000;
  expect(await source.limitsFor(question('a'))).toMatchObject({ step: 'service' });
  expect(service.asked).toHaveLength(2);
  expect(told.steps).toEqual(['service/answered', 'cache/local', 'service/answered']);
});

test('what may not be stored is asked for every time, and never stands in', async () => {
  const { service, ask, told } = world(() => says(PLAN, 'max-age=60, no-store'));
  await ask();
  await ask();
  service.answer = async () => fails();
  await ask();

  expect(told.steps).toEqual(['service/answered', 'service/answered', 'static/status']);
  expect(service.asked).toHaveLength(3);
});

test('an answer stands in for five minutes after its time, and not longer', async () => {
  const { service, clock, ask, told } = world(() => says(PLAN, 'max-age=10'));
  await ask();
  service.answer = async () => fails();

  clock.ms = 10_000;
  expect(await ask()).toMatchObject({ step: 'stale' });
  clock.ms = 309_999;
  expect(await ask()).toMatchObject({ step: 'stale' });
  clock.ms = 316_000;
  expect(await ask()).toMatchObject({ step: 'static', policies: undefined });
  expect(told.steps.at(-1)).toBe('static/status');
});

test('a failure is remembered for a second, and longer with every one in a row, but never over five', async () => {
  const { service, clock, ask, told } = world(async () => fails(), { circuit_breaker: { threshold: 100 } });
  const quietMs: number[] = [];
  for (let round = 0; round < 7; round += 1) {
    await ask();
    const asked = service.asked.length;
    const startedMs = clock.ms;
    while (service.asked.length === asked) {
      clock.ms += 500;
      await ask();
    }
    quietMs.push(clock.ms - startedMs);
    // The call that ended the silence failed too: start the next round after it.
  }

  expect(Math.min(...quietMs)).toBeGreaterThanOrEqual(1000);
  expect(Math.max(...quietMs)).toBe(5000);
  expect(quietMs[0]).toBe(1000);
  expect(told.steps.filter((step) => step === 'static/quiet').length).toBeGreaterThan(20);
});

test('five failures in a row open the breaker of the key for 30 s, and one probe closes it', async () => {
  const { service, clock, ask, told } = world(async () => fails());
  for (let at = 0; at < 5; at += 1) {
    await ask();
    clock.ms += 6000;
  }
  expect(service.asked).toHaveLength(5);
  expect(told.events).toContain('key open');

  await ask();
  clock.ms += 22_000;
  await ask();
  expect(service.asked).toHaveLength(5);
  expect(told.steps.at(-1)).toBe('static/breakerOpen');

  service.answer = async () => says(PLAN, 'max-age=10');
  clock.ms += 5000;
  await ask();
  expect(service.asked).toHaveLength(6);
  expect(told.steps.at(-1)).toBe('service/answered');
  expect(told.events.filter((event) => event.startsWith('key'))).toEqual(['key open', 'key closed']);
});

test('an open breaker of one key leaves others alone', async () => {
  const { clock, ask, told } = world(async (request) =>
    request.key === 'bad' ? fails('invalid') : says(PLAN),
  );
  for (let at = 0; at < 40; at += 1) {
    await ask('bad');
    clock.ms += 6000;
  }

  expect(await ask('good')).toMatchObject({ step: 'service' });
  expect(told.events).not.toContain('global open');
});

test('when everything fails the global breaker opens, tries again after 5 s, and closes', async () => {
  const { service, clock, ask, told, source } = world(async () => fails('unreachable'));
  for (let at = 0; at < 30; at += 1) await ask(`key${at}`);
  expect(service.asked).toHaveLength(25);
  expect(told.events).toEqual(['global open']);
  expect(told.steps.at(-1)).toBe('static/globalBreakerOpen');
  expect(source.snapshot().globalBreaker).toBe('open');

  service.answer = async () => says(PLAN);
  clock.ms += 5000;
  const limits = await Promise.all(Array.from({ length: 20 }, async (_, at) => ask(`new${at}`)));

  expect(limits.filter(({ step }) => step === 'service')).toHaveLength(1);
  expect(told.events).toEqual(['global open', 'global closed']);
  expect(await ask('later')).toMatchObject({ step: 'service' });
});

test('wrong answers to single questions say nothing about the service as a whole', async () => {
  const { source, ask } = world(async () => says({ average: 'many' }));
  for (let at = 0; at < 100; at += 1) await ask(`key${at}`);

  expect(source.snapshot().globalBreaker).toBe('closed');
});

test('a caller who goes away is released, and the answer is kept for the others', async () => {
  let reply: (answer: ServiceAnswer) => void = () => undefined;
  const { ask, told, source } = world(() => new Promise((resolve) => (reply = resolve)));
  const leaving = new AbortController();
  const first = ask('a', { signal: leaving.signal });
  const second = ask('a');

  leaving.abort();
  expect(await first).toMatchObject({ step: 'static' });
  reply(await says(PLAN, 'max-age=10'));
  expect(await second).toMatchObject({ step: 'service' });
  expect(source.limitsFor(question('a'))).toMatchObject({ step: 'cache' });
  expect(told.calls).toEqual(['answered']);
  expect(told.events).toEqual([]);
  expect(await ask('b', { signal: leaving.signal })).toMatchObject({ step: 'static' });
});

test('a hot key is asked for again before its time is over, and nobody waits', async () => {
  let version = 1;
  const { source, service, clock, told } = world(async () =>
    says({ ...PLAN, burst: 50 * version }, 'max-age=100'),
  );
  await source.limitsFor(question('hot'));
  for (let at = 0; at < 5; at += 1) await source.limitsFor(question('hot'));
  version = 2;

  clock.ms = 74_999;
  expect(source.limitsFor(question('hot'))).toMatchObject({ step: 'cache' });
  expect(service.asked).toHaveLength(1);
  clock.ms = 90_000;
  expect(source.limitsFor(question('hot'))).toMatchObject({ step: 'cache' });
  await settled();
  expect(service.asked).toHaveLength(2);
  expect(told.events).toContain('refreshed');

  clock.ms = 150_000;
  const limits = source.limitsFor(question('hot'));
  expect(limits).toMatchObject({ step: 'cache' });
  expect((await limits).policies?.[0]?.limit).toBe(100);
});

test('a refresh that fails changes nothing while the answer holds', async () => {
  const { source, service, clock } = world(async () => says(PLAN, 'max-age=100'));
  for (let at = 0; at < 5; at += 1) await source.limitsFor(question('hot'));
  service.answer = async () => fails();

  clock.ms = 95_000;
  void source.limitsFor(question('hot'));
  await settled();

  expect(service.asked).toHaveLength(2);
  expect(source.limitsFor(question('hot'))).toMatchObject({ step: 'cache' });
  await settled();
  expect(service.asked).toHaveLength(2);
});

test('a key that is used now and then is not refreshed', async () => {
  const { source, service, clock } = world(async () => says(PLAN, 'max-age=100'));
  await source.limitsFor(question('cold'));

  clock.ms = 95_000;
  await source.limitsFor(question('cold'));
  await settled();

  expect(service.asked).toHaveLength(1);
});

test('a service of which one copy in two is behind gives the lower limits, not both by turns', async () => {
  const burst = (value: number) => says({ ...PLAN, burst: value }, 'max-age=10');
  const { clock, ask, service, told } = world(async () => burst(100));
  const seen: (number | undefined)[] = [];
  const round = async (value: number) => {
    service.answer = async () => burst(value);
    clock.ms += 10_000;
    seen.push((await ask()).policies?.[0]?.limit);
  };
  await ask();

  for (let at = 0; at < 10; at += 1) await round(at % 2 === 0 ? 50 : 100);
  expect(seen).toEqual([50, 50, 50, 50, 50, 50, 50, 50, 50, 50]);
  expect(told.events.filter((event) => event === 'changed lower')).toHaveLength(1);

  // All copies agree again: the raise comes after two lifetimes at most.
  const before = seen.length;
  for (let at = 0; at < 3; at += 1) await round(100);
  expect(seen.slice(before)).toContain(100);
  expect(seen.at(-1)).toBe(100);
  expect(told.log.filter((line) => line.startsWith('External limits changed'))).toHaveLength(2);
});

test('a raise without a lowering before it acts with the next answer', async () => {
  const { clock, ask, service, told } = world(async () => says({ ...PLAN, burst: 10 }, 'max-age=10'));
  await ask();
  service.answer = async () => says({ ...PLAN, burst: 500 }, 'max-age=10');
  clock.ms = 10_000;

  expect((await ask()).policies?.[0]?.limit).toBe(500);
  expect(told.events).toEqual(['changed higher']);
});

test('errors every other time leave the limits as they are', async () => {
  let round = 0;
  const { clock, ask } = world(async () => ((round += 1) % 2 === 0 ? fails() : says(PLAN, 'max-age=2')));
  const limits = new Set<number | undefined>();
  for (let at = 0; at < 60; at += 1) {
    limits.add((await ask()).policies?.[0]?.limit);
    clock.ms += 2000;
  }

  expect([...limits]).toEqual([50]);
});

test('who is counted for whom is written down, without the key itself', async () => {
  const { ask, told } = world(async () => says({ ...PLAN, tenant_key: 'acme' }));
  await ask('secret-api-key');

  expect(told.log.join('\n')).toContain('"tenant":"acme"');
  expect(told.log.join('\n')).not.toContain('secret-api-key');
});

test('a price list that changes everything does not flood the log', async () => {
  const { clock, ask, service, told } = world(async () => says({ ...PLAN, burst: 10 }, 'max-age=10'));
  for (let at = 0; at < 300; at += 1) await ask(`key${at}`);
  service.answer = async () => says({ ...PLAN, burst: 20 }, 'max-age=10');
  clock.ms = 10_000;
  for (let at = 0; at < 300; at += 1) await ask(`key${at}`);
  clock.ms = 40_000;
  for (let at = 0; at < 300; at += 1) await ask(`key${at}`);

  expect(told.events.filter((event) => event === 'changed higher')).toHaveLength(300);
  expect(told.log.filter((line) => line.startsWith('External limits changed'))).toHaveLength(100);
});

test('refused parts of an answer are counted and written down', async () => {
  const answer = { ...PLAN, failure_policy: 'passthrough', backend_url: 'http://evil/' };
  const { ask, told } = world(async () => says(answer), {}, { failure_policy: 'failClosed' });

  const limits = await ask();

  expect(limits).toMatchObject({ failurePolicy: undefined, backendUrl: undefined, step: 'service' });
  expect(told.events).toEqual(['refused failurePolicy', 'refused backendUrl']);
  expect(told.log).toHaveLength(2);
});

test('a source that is closed answers with the static limits, at once and also those who wait', async () => {
  const { ask, source, told } = world(() => new Promise(() => undefined));
  const waiting = ask('a');
  await settled();

  await source.close();

  expect(await waiting).toMatchObject({ step: 'static' });
  expect(await ask('a')).toMatchObject({ step: 'static' });
  expect(told.steps).toEqual(['static/closed', 'static/closed']);
});

test('only so many answers are kept, those in use rather than others', async () => {
  const { source, service, ask } = world(async () => says(PLAN, 'max-age=1000'), { max_cached_keys: 10 });
  for (let at = 0; at < 8; at += 1) await ask('hot');
  for (let at = 0; at < 50; at += 1) {
    await ask(`once${at}`);
    await ask('hot');
  }

  expect(source.snapshot().entries).toBe(10);
  expect(service.asked.filter(({ key }) => key === 'hot')).toHaveLength(1);
});
