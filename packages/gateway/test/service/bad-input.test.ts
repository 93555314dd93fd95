// Whatever is sent to the service and is not a question: a clear answer, and nothing is counted.
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { askRls, callGrpc, descriptor, type Descriptor } from './rls-client.ts';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { startTestService, type AskOptions, type TestService } from './running-service.ts';

const CONFIG = `
server: { client_address: { trusted_proxies: ["198.51.100.1"] } }
rate_limit:
  policies: { api: { algorithm: fixedWindow, quota: 5, window: 1d } }
  rules: [{ name: all, match: {}, policies: [api] }]
service:
  rls: { descriptors: [{ domain: shop, entries: [{ key: user }], policies: [api] }] }
`;

let service: TestService;

beforeEach(async () => {
  service = await startTestService(CONFIG);
});

afterEach(async () => {
  const checks = ['ann', '203.0.113.7', '127.0.0.1'].map((key) => ({ policy: 'api', key }));
  const { text } = await service.post('/v1/peek', { checks });
  const untouched = text.match(/"remaining":5,/g)?.length;
  if (untouched !== checks.length) throw new Error(`something was counted: ${text}`);
});

const GOOD = { policy: 'api', key: 'ann' };
const BIG = 'x'.repeat(5000);

/** What is sent, the status, and what the answer says. */
type Row = readonly [name: string, body: unknown, status: number, says: RegExp];

const BODIES: readonly Row[] = [
  ['no JSON', '{', 400, /1 bytes is not JSON/],
  ['nothing', '', 400, /0 bytes is not JSON/],
  ['a text', '"api"', 400, /The body is "api"; expected object/],
  ['null', 'null', 400, /The body is null/],
  ['a list', '[]', 400, /The body is a list/],
  ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, /not JSON/],
  ['no policy', { key: 'ann' }, 400, /policy is missing/],
  ['no key', { policy: 'api' }, 400, /key is missing/],
  ['an empty policy', { ...GOOD, policy: '' }, 400, /policy has 0 characters; expected at least 1/],
  ['an empty key', { ...GOOD, key: '' }, 400, /key has 0 characters; expected at least 1/],
  ['a policy that is a number', { ...GOOD, policy: 7 }, 400, /policy is 7; expected string/],
  ['a key that is a number', { ...GOOD, key: 7 }, 400, /key is 7; expected string/],
  ['a key that is an object', { ...GOOD, key: {} }, 400, /key is an object; expected string/],
  ['a key that is too long', { ...GOOD, key: BIG }, 400, /key has 5000 characters; expected at most 4096/],
  ['an unknown policy', { ...GOOD, policy: 'nope' }, 404, /The policy is "nope"; expected one of api/],
  ['a name of an object', { ...GOOD, policy: '__proto__' }, 404, /expected one of api/],
  ['a negative cost', { ...GOOD, cost: -1 }, 400, /cost is -1; expected at least 0/],
  ['half a cost', { ...GOOD, cost: 0.5 }, 400, /cost is 0.5/],
  ['a cost beyond 2^53', { ...GOOD, cost: 2 ** 53 }, 400, /cost is 9007199254740992/],
  ['a cost in quotes', { ...GOOD, cost: '1' }, 400, /cost is "1"; expected number/],
  ['a cost of null', { ...GOOD, cost: null }, 400, /cost is null/],
  ['an unknown field', { ...GOOD, costs: 1 }, 400, /has costs, which is not a field/],
  ['both forms', { ...GOOD, limits: [GOOD] }, 400, /limits stands beside policy/],
  ['no limits', { limits: [] }, 400, /limits has 0 entries; expected at least 1/],
  ['a limit twice', { limits: [GOOD, GOOD] }, 400, /with one key twice/],
  [
    'too many limits',
    { limits: Array.from({ length: 33 }, (_, at) => ({ policy: 'api', key: `k${at}` })) },
    400,
    /limits has 33 entries; expected at most 32/,
  ],
  [
    'limits with more in them',
    { limits: [{ ...GOOD, cost: 1 }] },
    400,
    /limits.0 has cost, which is not a field/,
  ],
  ['no checks', { checks: [] }, 400, /checks has 0 entries; expected at least 1/],
  ['checks that are no list', { checks: GOOD }, 400, /checks is an object; expected array/],
  [
    'too many checks',
    { checks: Array.from({ length: 1001 }, () => GOOD) },
    400,
    /checks has 1001 entries; expected at most 1000/,
  ],
  ['a batch with one mistake', { checks: [GOOD, { ...GOOD, cost: -1 }] }, 400, /checks.1.cost is -1/],
  [
    'a batch with one unknown policy',
    { checks: [GOOD, { ...GOOD, policy: 'nope' }] },
    404,
    /checks.1: The policy is "nope"/,
  ],
  ['checks beside a check', { ...GOOD, checks: [GOOD] }, 400, /has policy, which is not a field/],
  ['too much', `{"policy":"${'x'.repeat(1_100_000)}"}`, 413, /expected at most 1048576 bytes/],
];

describe.each(['/v1/check', '/v1/peek'])('POST %s with', (path) => {
  test.each(BODIES)('%s', async (_, body, status, says) => {
    const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);

    const reply = await service.ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
    });

    expect(reply).toMatchObject({ status, headers: { 'content-type': 'application/problem+json' } });
    expect(reply.json).toMatchObject({ detail: expect.stringMatching(says) as string });
  });
});

const CALLS: readonly (readonly [
  name: string,
  path: string,
  options: AskOptions,
  status: number,
  code: string,
])[] = [
  ['GET of a check', '/v1/check', {}, 405, 'METHOD_NOT_ALLOWED'],
  ['DELETE of a check', '/v1/check', { method: 'DELETE' }, 405, 'METHOD_NOT_ALLOWED'],
  ['POST of the health', '/healthcheck', { method: 'POST' }, 405, 'METHOD_NOT_ALLOWED'],
  ['no type', '/v1/check', { method: 'POST', body: '{}' }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
  [
    'a form',
    '/v1/check',
    { method: 'POST', body: 'policy=api', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'UNSUPPORTED_MEDIA_TYPE',
  ],
  [
    'text',
    '/v1/forget',
    { method: 'POST', body: '{}', headers: { 'content-type': 'text/json' } },
    415,
    'UNSUPPORTED_MEDIA_TYPE',
  ],
  ['another path', '/v1/nope', { method: 'POST' }, 404, 'NOT_FOUND'],
  ['a path with dots', '/v1/../v1/check', { method: 'POST' }, 404, 'NOT_FOUND'],
  [
    'forget without a key',
    '/v1/forget',
    { method: 'POST', body: '{"policy":"api"}', headers: { 'content-type': 'application/json' } },
    400,
    'INVALID_REQUEST',
  ],
  [
    'forget with a cost',
    '/v1/forget',
    {
      method: 'POST',
      body: '{"policy":"api","key":"ann","cost":1}',
      headers: { 'content-type': 'application/json' },
    },
    400,
    'INVALID_REQUEST',
  ],
  ['/json that is no JSON', '/json', { method: 'POST', body: '{' }, 400, 'INVALID_REQUEST'],
  ['/json of another shape', '/json', { method: 'POST', body: '{"domain": 7}' }, 400, 'INVALID_REQUEST'],
  [
    '/json with an unknown unit',
    '/json',
    {
      method: 'POST',
      body: '{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}],"limit":{"unit":"FORTNIGHT"}}]}',
    },
    400,
    'INVALID_REQUEST',
  ],
  [
    '/json with negative hits',
    '/json',
    {
      method: 'POST',
      body: '{"domain":"shop","hitsAddend":-1,"descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}',
    },
    400,
    'INVALID_REQUEST',
  ],
  [
    '/json without a domain',
    '/json',
    { method: 'POST', body: '{"descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}' },
    400,
    'INVALID_REQUEST',
  ],
  [
    'forged forwarding headers',
    '/v1/forward-auth',
    { headers: { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/', 'x-forwarded-for': '203.0.113.7' } },
    403,
    'UNTRUSTED_PROXY',
  ],
  [
    'a forged request of Envoy',
    '/v1/ext-authz/a',
    { headers: { 'x-forwarded-for': '203.0.113.7' } },
    403,
    'UNTRUSTED_PROXY',
  ],
];

test.each(CALLS)('%s', async (...[, path, options, status, code]) => {
  expect(await service.ask(path, options)).toMatchObject({ status, json: { code } });
});

const user = descriptor('user=ann');

const QUESTIONS: readonly (readonly [
  name: string,
  domain: string,
  descriptors: readonly Descriptor[],
  says: RegExp,
])[] = [
  ['an empty domain', '', [user], /^3: rate limit domain must not be empty$/],
  ['no descriptors', 'shop', [], /^3: rate limit descriptor list must not be empty$/],
  ['a descriptor without entries', 'shop', [user, descriptor('')], /^3: descriptor 1 has no entries/],
  ['an empty key', 'shop', [user, descriptor('=x')], /^3: entry 0 of descriptor 1 has an empty key/],
  [
    'too many descriptors',
    'shop',
    Array.from({ length: 33 }, () => user),
    /^3: the request has 33 descriptors; expected at most 32$/,
  ],
  [
    'too many entries',
    'shop',
    [descriptor(Array(33).fill('a=b').join(','))],
    /^3: descriptor 0 has 33 entries/,
  ],
  [
    'hits beyond 2^53',
    'shop',
    [descriptor('user=ann', { hitsAddend: 2n ** 63n })],
    /^3: hits_addend is 9223372036854775808; expected at most/,
  ],
  [
    'hits beyond 2^53 together',
    'shop',
    [2n ** 53n - 1n, 1n].map((hitsAddend) => descriptor('user=ann', { hitsAddend })),
    /^3: descriptors of one limit have 9007199254740991 and 1 hits; expected at most 9007199254740991 together$/,
  ],
  [
    'hits beyond 2^53 together in 32 descriptors',
    'shop',
    Array.from({ length: 32 }, () => descriptor('user=ann', { hitsAddend: 2n ** 49n })),
    /^3: descriptors of one limit have/,
  ],
  [
    'negative hits',
    'shop',
    [descriptor('user=ann', { isNegativeHits: true })],
    /^12: descriptor 0 gives hits back/,
  ],
  [
    'an unknown unit',
    'shop',
    [descriptor('user=ann', { limit: { requestsPerUnit: 1, unit: 77 } })],
    /^3: a limit of a descriptor has the unit 77/,
  ],
  [
    'no unit',
    'shop',
    [descriptor('user=ann', { limit: { requestsPerUnit: 1 } })],
    /^3: a limit of a descriptor has the unit 0/,
  ],
  ['a message that is too large', 'shop', [descriptor(`user=${'x'.repeat(1_100_000)}`)], /^8: /],
];

test.each(QUESTIONS)('ShouldRateLimit with %s', async (_, domain, descriptors, says) => {
  expect(await askRls(service.port, { domain, descriptors })).toMatch(says);
});

test('ext_authz over gRPC of a proxy that is not trusted', async () => {
  const answer = await callGrpc({
    port: service.port,
    method: 'envoy.service.auth.v3.Authorization/Check',
    input: messageNamed('envoy.service.auth.v3.CheckRequest'),
    output: messageNamed('envoy.service.auth.v3.CheckResponse'),
    fields: { attributes: { source: { address: { socketAddress: { address: '203.0.113.7' } } } } },
  });

  expect(answer).toMatch(
    /^7: The proxy is 127\.0\.0\.1, which is not in server\.client_address\.trusted_proxies/,
  );
});

test('a method that does not exist', async () => {
  const empty = messageNamed('grpc.health.v1.HealthCheckRequest');

  expect(
    await callGrpc({
      port: service.port,
      method: 'envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit',
      input: empty,
      output: empty,
      fields: {},
    }),
  ).toMatch(/^(?:5|12): /);
});

test('bytes that are no protobuf', async () => {
  const session = connectHttp2(`http://127.0.0.1:${service.port}`);
  const stream = session.request({
    ':method': 'POST',
    ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.end(Buffer.from([0, 0, 0, 0, 3, 0xff, 0xff, 0xff]));
  stream.resume();
  const status = await new Promise((resolve) => {
    const take = (headers: Readonly<Record<string, unknown>>): void => {
      if (headers['grpc-status'] !== undefined) resolve(headers['grpc-status']);
    };
    stream.once('response', take).once('trailers', take);
  });
  session.close();

  expect(status).toBe('3');
});

test('bytes that are no HTTP end the connection', async () => {
  const socket = connect(service.port, '127.0.0.1');
  socket.write('\u0016\u0003\u0001 hello\r\n\r\n');
  const received = await new Promise<string>((resolve) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    socket.on('close', () => resolve(text));
  });

  expect(received).toMatch(/^HTTP\/1\.1 400 /);
});
