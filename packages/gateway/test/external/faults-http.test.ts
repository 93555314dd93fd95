import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { json, PLAN, type Reply, startService, type TestService } from './services.ts';
import { question, testSource, within } from './sources.ts';

const TIMEOUT_MS = 1000;
/** A busy machine; the bound itself is the deadline. */
const SLACK_MS = 500;

const drip: Reply = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const text = JSON.stringify(PLAN);
  let at = 0;
  const timer = setInterval(() => response.write(text.charAt((at += 1) % text.length)), 20);
  response.on('close', () => clearInterval(timer));
};

const truncated: Reply = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '500' });
  response.write('{"average":100,');
  setTimeout(() => response.destroy(), 10);
};

const bomb = gzipSync(Buffer.alloc(100 * 2 ** 20));
const plan = JSON.stringify(PLAN);

/** What the service does, and why there is no answer. */
const FAULTS: readonly (readonly [string, Reply, string])[] = [
  ['never answers', () => undefined, 'timeout'],
  ['sends headers and no body', (response) => response.writeHead(200).flushHeaders(), 'timeout'],
  ['drips a byte at a time', drip, 'timeout'],
  ['resets the connection', (response) => void response.destroy(), 'unreachable'],
  ['stops in the middle', truncated, 'unreachable'],
  ['answers 500', json({}, {}, 500), 'status'],
  ['answers 502 with a page', json('<html>', { 'content-type': 'text/html' }, 502), 'status'],
  ['answers 503', json(PLAN, {}, 503), 'status'],
  ['answers 401', json(PLAN, {}, 401), 'status'],
  ['answers 400', json(PLAN, {}, 400), 'status'],
  ['answers 204', json('', {}, 204), 'status'],
  ['answers 201 with limits', json(PLAN, {}, 201), 'status'],
  ['answers 429', json({}, { 'retry-after': '7' }, 429), 'rateLimited'],
  ['answers 404', json({}, {}, 404), 'unknownKey'],
  ['answers garbage', json('garbage'), 'invalid'],
  ['answers a page with 200', json('<html></html>', { 'content-type': 'text/html' }), 'invalid'],
  ['answers nothing', json(''), 'invalid'],
  ['answers with a BOM', json(`\uFEFF${plan}`), 'invalid'],
  ['answers NaN', json('{"average":NaN,"burst":1,"period":"1s"}'), 'invalid'],
  ['names a field twice', json('{"average":1,"average":0,"burst":1,"period":"1s"}'), 'invalid'],
  [
    'nests deeply',
    json(`{"average":1,"burst":1,"period":"1s","x":${'['.repeat(20_000)}${']'.repeat(20_000)}}`),
    'invalid',
  ],
  ['answers wrong types', json({ ...PLAN, average: '100' }), 'invalid'],
  ['answers an empty object', json({}), 'invalid'],
  ['answers null', json('null'), 'invalid'],
  ['answers 100 KB', json(JSON.stringify({ ...PLAN, note: 'x'.repeat(100_000) })), 'tooLarge'],
  ['answers without end', (response) => endless(response), 'tooLarge'],
  ['sends a gzip bomb', json(bomb, { 'content-encoding': 'gzip' }), 'tooLarge'],
  [
    'sends a small gzip bomb',
    json(gzipSync(Buffer.alloc(2 ** 20)), { 'content-encoding': 'gzip' }),
    'tooLarge',
  ],
  ['says gzip and sends none', json(plan, { 'content-encoding': 'gzip' }), 'invalid'],
  ['packs it in an unknown way', json(plan, { 'content-encoding': 'gzip, gzip' }), 'invalid'],
  ['packs it as every object does', json(plan, { 'content-encoding': 'constructor' }), 'invalid'],
  ['says protobuf and sends JSON', json(plan, { 'content-type': 'application/protobuf' }), 'invalid'],
  ['sends an empty protobuf message', json('', { 'content-type': 'application/protobuf' }), 'invalid'],
  [
    'sends a strange header',
    (response) => void response.socket?.end('HTTP/1.1 200 OK\r\nbad header\r\n\r\n'),
    'unreachable',
  ],
  ['does not speak HTTP', (response) => void response.socket?.end('220 mail ready\r\n'), 'unreachable'],
];

function endless(response: Parameters<Reply>[0]): void {
  response.writeHead(200);
  const write = (): void => {
    while (!response.destroyed && response.write('x'.repeat(16_384)));
  };
  response.on('drain', write);
  write();
}

describe.each(FAULTS)('a service that %s', (_, fault, reason) => {
  let service: TestService;
  let isWell = true;

  beforeAll(async () => {
    isWell = true;
    const well = json(PLAN, { 'cache-control': 'max-age=0' });
    service = await startService((response, asked) => (isWell ? well : fault)(response, asked));
  });
  afterAll(async () => service.close());

  test('leaves the stale copy where there is one, else the static limits, within the deadline', async () => {
    const { source, told } = testSource({
      external: { timeout: `${TIMEOUT_MS}ms`, http: { url: service.url } },
    });
    await source.limitsFor(question('known'));
    isWell = false;

    const [known, unknown] = await within(
      TIMEOUT_MS + SLACK_MS,
      Promise.all([source.limitsFor(question('known')), source.limitsFor(question('unknown'))]),
    );

    expect([known.step, known.policies?.[0]?.limit]).toEqual(['stale', 50]);
    expect([unknown.step, unknown.policies]).toEqual(['static', undefined]);
    expect(told.steps.toSorted()).toEqual(['service/answered', `stale/${reason}`, `static/${reason}`]);
    expect(told.calls).toEqual(['answered', reason, reason]);
    expect(source.snapshot()).toMatchObject({ inFlight: 0, queued: 0 });
    await source.close();
  });
});

test.each([
  [
    'refused',
    async () => {
      const gone = await startService(json(PLAN));
      await gone.close();
      return gone.url;
    },
  ],
  ['to a name that does not exist', async () => Promise.resolve('http://limits.invalid:8080/limits')],
])('a connection %s leaves the static limits', async (_, urlOf) => {
  const { source, told } = testSource({ external: { timeout: '2s', http: { url: await urlOf() } } });

  const limits = await source.limitsFor(question('a'));

  expect(limits.step).toBe('static');
  expect(told.steps).toEqual(['static/unreachable']);
  await source.close();
});

test('a redirect is not followed', async () => {
  const canary = await startService(json(PLAN));
  const service = await startService(json('', { location: canary.url }, 302));
  const { source, told } = testSource({ external: { http: { url: service.url } } });

  await source.limitsFor(question('a'));

  expect(told.steps).toEqual(['static/status']);
  expect(canary.asked).toEqual([]);
  await Promise.all([source.close(), service.close(), canary.close()]);
});

test('packed answers and answers in protobuf are read', async () => {
  // average = 100, burst = 50, period = "1s", tenant_key = "acme"
  const message = Buffer.from([0x08, 100, 0x10, 50, 0x1a, 2, 0x31, 0x73, 0x32, 4, 0x61, 0x63, 0x6d, 0x65]);
  const replies = [
    json(gzipSync(plan), { 'content-encoding': 'gzip' }),
    json(message, { 'content-type': 'application/x-protobuf' }),
    json(gzipSync(message), { 'content-type': 'application/protobuf', 'content-encoding': 'gzip' }),
  ];
  const service = await startService((response, asked) => replies.shift()?.(response, asked));
  const { source } = testSource({ external: { http: { url: service.url } } });

  const limits = [];
  for (const key of ['a', 'b', 'c']) limits.push(await source.limitsFor(question(key)));

  expect(limits.map(({ policies, tenantKey }) => [policies?.[0]?.limit, tenantKey])).toEqual([
    [50, undefined],
    [50, 'acme'],
    [50, 'acme'],
  ]);
  await Promise.all([source.close(), service.close()]);
});

test('a service of before that leaves the zero out of protobuf means unlimited, with a period', async () => {
  const service = await startService(
    json(Buffer.from([0x1a, 2, 0x31, 0x73]), { 'content-type': 'application/protobuf' }),
  );
  const { source } = testSource({ external: { http: { url: service.url } } });

  expect(await source.limitsFor(question('a'))).toMatchObject({ step: 'service', policies: [] });
  await Promise.all([source.close(), service.close()]);
});

test('what a service gets is the key, method, path and allowed headers, as JSON', async () => {
  const service = await startService(json(PLAN));
  const { source } = testSource({
    external: { http: { url: service.url }, header_filter: { allow_list: ['X-Tenant-Id', 'X-Plan'] } },
  });
  const raw = [
    'x-tenant-id',
    't1',
    'Authorization',
    'Bearer secret',
    'X-PLAN',
    'gold',
    'x-plan',
    'extra',
    'Cookie',
    'c=1',
  ];

  await source.limitsFor(question('k', { method: 'POST', path: '/a', headers: { raw } }));

  expect(JSON.parse(service.asked[0]?.body ?? '')).toEqual({
    key: 'k',
    headers: { 'X-Tenant-Id': 't1', 'X-Plan': 'gold, extra' },
    method: 'POST',
    path: '/a',
  });
  expect(service.asked[0]?.headers).toMatchObject({ 'content-type': 'application/json' });
  await Promise.all([source.close(), service.close()]);
});

test('429 keeps the key quiet for Retry-After, and only it', async () => {
  let now = 0;
  const service = await startService((response, asked) =>
    (asked.body.includes('"busy"') ? json({}, { 'retry-after': '20' }, 429) : json(PLAN))(response, asked),
  );
  const { source, told } = testSource({ external: { http: { url: service.url } } }, { now: () => now });

  await source.limitsFor(question('busy'));
  now = 19_999;
  await source.limitsFor(question('busy'));
  await source.limitsFor(question('other'));
  expect(told.calls).toEqual(['rateLimited', 'answered']);
  expect(told.steps).toEqual(['static/rateLimited', 'static/breakerOpen', 'service/answered']);
  now = 21_000;
  await source.limitsFor(question('busy'));
  expect(told.calls).toHaveLength(3);
  await Promise.all([source.close(), service.close()]);
});
