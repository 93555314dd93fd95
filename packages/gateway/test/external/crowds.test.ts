import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { json, PLAN, startService } from './services.ts';
import { says, scriptedService } from './scripted-service.ts';
import { question, testSource, within } from './sources.ts';

const CROWD = 10_000;

async function later(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

test('10,000 at once who miss the same key cost one call, and all get its answer', async () => {
  const service = await startService(async (response, asked) => {
    await later(100);
    await json({ ...PLAN, tenant_key: 'acme' })(response, asked);
  });
  const { source, told } = testSource({ external: { http: { url: service.url } } });

  const limits = await Promise.all(
    Array.from({ length: CROWD }, async () => source.limitsFor(question('one'))),
  );

  expect(service.asked).toHaveLength(1);
  expect(new Set(limits.map(({ step, tenantKey }) => `${step} ${tenantKey}`))).toEqual(
    new Set(['service acme']),
  );
  expect(told.steps).toHaveLength(CROWD);
  await Promise.all([source.close(), service.close()]);
});

test('10,000 at once who miss the same key of a service that hangs are free at the deadline', async () => {
  const service = await startService(() => undefined);
  const { source, told } = testSource({ external: { timeout: '1s', http: { url: service.url } } });

  const limits = await within(
    1500,
    Promise.all(Array.from({ length: CROWD }, async () => source.limitsFor(question('one')))),
  );

  expect(new Set(limits.map(({ step }) => step))).toEqual(new Set(['static']));
  expect(told.calls).toEqual(['timeout']);
  await Promise.all([source.close(), service.close()]);
});

test('10,000 cold keys never ask more than 50 at once, and nobody waits past the deadline', async () => {
  const service = await startService(async (response, asked) => {
    await later(40);
    await json(PLAN)(response, asked);
  });
  const { source, told } = testSource({
    external: {
      timeout: '20s',
      http: { url: service.url },
      max_concurrent_requests: 50,
      max_queued_requests: 500,
    },
  });
  const settled: string[] = [];

  await within(
    20_000,
    Promise.all(
      Array.from({ length: CROWD }, async (_, at) => {
        const { step } = await source.limitsFor(question(`key${at}`));
        settled.push(step);
      }),
    ),
  );

  expect(service.peak()).toBeLessThanOrEqual(50);
  expect(told.steps.filter((step) => step === 'static/overflow')).toHaveLength(CROWD - 550);
  expect(told.steps.filter((step) => step === 'service/answered')).toHaveLength(550);
  // Who finds no place is told so at once, before anybody has an answer.
  expect(settled.indexOf('service')).toBe(CROWD - 550);
  expect(source.snapshot()).toMatchObject({ inFlight: 0, queued: 0 });
  await Promise.all([source.close(), service.close()]);
});

test('a queue in front of a service that hangs empties at the deadline', async () => {
  const service = await startService(() => undefined);
  const { source, told } = testSource({
    external: {
      timeout: '1s',
      http: { url: service.url },
      max_concurrent_requests: 4,
      max_queued_requests: 100,
    },
  });

  await within(
    1500,
    Promise.all(Array.from({ length: 200 }, async (_, at) => source.limitsFor(question(`key${at}`)))),
  );

  expect(service.peak()).toBeLessThanOrEqual(4);
  // Whoever waits gives up with the calls before it. On a busy machine one may have a moment left, and uses it.
  expect(told.calls.length).toBeLessThan(8);
  expect(source.snapshot()).toMatchObject({ inFlight: 0, queued: 0 });
  await Promise.all([source.close(), service.close()]);
});

test('one key with many paths leaves room for others', async () => {
  const service = await startService(() => undefined);
  const { source, told } = testSource({
    external: {
      timeout: '1s',
      http: { url: service.url },
      max_concurrent_requests: 8,
      max_queued_requests: 0,
    },
  });

  const flood = Array.from({ length: 100 }, async (_, at) =>
    source.limitsFor(question('greedy', { path: `/${at}` })),
  );
  await later(50);
  expect(source.snapshot().inFlight).toBe(2);
  void source.limitsFor(question('modest'));
  await later(20);
  expect(source.snapshot().inFlight).toBe(3);

  await Promise.all(flood);
  expect(told.steps.filter((step) => step === 'static/overflow')).toHaveLength(98);
  await Promise.all([source.close(), service.close()]);
});

/** Texts that try to look like each other: separators, lengths, and parts of neighbours. */
const trickyText = fc.oneof(
  fc.constantFrom(
    '',
    'a',
    'b',
    'ab',
    '1:a',
    ':',
    '1:a1:b',
    '0:',
    '\n',
    'a\u0000',
    't:a',
    '~',
    'é',
    'É',
    'A',
    '{a}',
    '__proto__',
  ),
  fc.string({ maxLength: 6 }),
  fc.string({ minLength: 300, maxLength: 310 }),
);

const trickyQuestion = fc.record({
  key: trickyText.map((text) => `k${text}`),
  method: fc.constantFrom('GET', 'POST', 'get', ''),
  path: trickyText.map((text) => `/${text}`),
  tenant: fc.option(trickyText),
  plan: fc.option(trickyText),
});

test('no question ever gets the answer to another', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(trickyQuestion, { minLength: 2, maxLength: 40 }), async (questions) => {
      // It answers with the question, so that every answer shows whose it is.
      const seen: string[] = [];
      const service = scriptedService(async (request) => {
        const average = seen.push(JSON.stringify(request));
        await Promise.resolve();
        return says({ average, period: '1s' }, 'max-age=100');
      });
      const { source } = testSource(
        {
          external: {
            http: { url: 'http://127.0.0.1:1/' },
            max_queued_requests: 1000,
            header_filter: { allow_list: ['X-Tenant', 'X-Plan'] },
          },
        },
        { service, now: () => 0 },
      );
      const asked = [...questions, ...questions.toReversed()];

      const limits = await Promise.all(
        asked.map(async ({ key, method, path, tenant, plan }) => {
          const raw = [
            ...(tenant === null ? [] : ['x-tenant', tenant]),
            ...(plan === null ? [] : ['X-Plan', plan]),
          ];
          return source.limitsFor({ key, method, path, headers: { raw } });
        }),
      );

      limits.forEach(({ step, policies }, at) => {
        if (step === 'static') return;
        const { key, method, path, tenant, plan } = asked[at] ??
          asked[0] ?? { key: '', method: '', path: '', tenant: null, plan: null };
        const answered: unknown = JSON.parse(seen[(policies?.[0]?.limit ?? 0) - 1] ?? '');
        const headers = {
          ...(tenant === null ? {} : { 'X-Tenant': tenant }),
          ...(plan === null ? {} : { 'X-Plan': plan }),
        };
        expect(answered).toEqual({ key, headers, method, path });
      });
      expect(new Set(seen).size).toBe(seen.length);
      await source.close();
    }),
    { numRuns: 150 },
  );
});
