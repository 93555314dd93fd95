import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { messageNamed } from '../../src/service/wire/proto-registry.ts';
import { eventually, exchange, RawClient, startOrigin, startRig, type Respond } from '../proxy/rig.ts';
import { runGateway } from '../runtime/running-gateway.ts';

const LIMIT = `
rate_limit:
  policies: { few: { algorithm: fixedWindow, quota: 2, window: 1h } }
  rules: [{ name: all, policies: [few] }]
`;

/** Lets those pass whose token is `good`. */
const byToken: Respond = (request, response) => {
  const good = request.headers.authorization === 'Bearer good';
  response.writeHead(good ? 200 : 401, {
    'X-User-Id': 'ann',
    'X-Secret': 'not for the backend',
    'WWW-Authenticate': 'Bearer',
    'Content-Type': 'text/plain',
  });
  response.end(good ? '' : 'who are you?');
};

async function guarded(settings = '', respond: Respond = byToken, more = '') {
  const [service, origin] = [await startOrigin(respond), await startOrigin()];
  const gateway = await runGateway(`
backend: { url: "${origin.url}" }
authorization:
  enabled: true
  http: { url: "${service.url}/auth?a=1" }
  upstream_headers: [X-User-Id, X-Roles]
  ${settings}
${more}
${LIMIT}`);
  return { service, origin, ...gateway };
}

const GOOD = { Authorization: 'Bearer good' };

test('a service that says yes lets a request pass, and tells the backend who it is', async () => {
  const { ask, service, origin } = await guarded();

  const { status } = await ask('/items?q=1', {
    method: 'POST',
    headers: { ...GOOD, 'X-User-Id': 'forged', 'x-roles': 'admin', Cookie: 'a=b', 'X-Other': 'kept' },
  });

  expect(status).toBe(200);
  expect(origin.requests[0]?.header('X-User-Id')).toBe('ann');
  expect(origin.requests[0]?.header('X-Roles')).toBeUndefined();
  expect(origin.requests[0]?.header('X-Secret')).toBeUndefined();
  expect(origin.requests[0]?.header('X-Other')).toBe('kept');
  const [asked] = service.requests;
  expect([asked?.method, asked?.url, asked?.body]).toEqual(['GET', '/auth?a=1', '']);
  expect(asked?.header('X-Forwarded-Method')).toBe('POST');
  expect(asked?.header('X-Forwarded-Uri')).toBe('/items?q=1');
  expect(asked?.header('X-Forwarded-For')).toBe('127.0.0.1');
  expect(asked?.header('Cookie')).toBe('a=b');
  expect(asked?.header('X-Other')).toBeUndefined();
});

test('a refusal of the service is the answer to the client, and costs nothing', async () => {
  const { ask, origin, port } = await guarded();

  const refused = [await ask(), await ask(), await ask()];
  const upgrade = await exchange(
    port,
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );
  const passed = [await ask('/', { headers: GOOD }), await ask('/', { headers: GOOD })];
  const limited = await ask('/', { headers: GOOD });

  expect(refused.map(({ status }) => status)).toEqual([401, 401, 401]);
  expect(refused[0]?.body).toBe('who are you?');
  expect(refused[0]?.headers['www-authenticate']).toBe('Bearer');
  expect(refused[0]?.headers).not.toHaveProperty('x-user-id');
  expect(upgrade.statuses).toEqual([401]);
  expect(passed.map(({ status }) => status)).toEqual([200, 200]);
  expect(limited.status).toBe(429);
  expect(origin.requests).toHaveLength(2);
});

test.each([
  ['answers 500', (_: unknown, response: Parameters<Respond>[1]) => void response.writeHead(500).end()],
  ['hangs', () => undefined],
  ['breaks off', (request: Parameters<Respond>[0]) => void request.socket.destroy()],
])('while the service %s, requests get a 503, or pass if that is configured', async (_, respond) => {
  const closed = await guarded('timeout: 50ms', respond);
  const open = await guarded('timeout: 50ms\n  failure_policy: passThrough', respond);

  const { status, body } = await closed.ask('/', { headers: GOOD });

  expect(status).toBe(503);
  expect(JSON.parse(body)).toMatchObject({ code: 'AUTHORIZATION_UNAVAILABLE' });
  expect(closed.origin.requests).toEqual([]);
  expect((await open.ask('/', { headers: { 'X-User-Id': 'forged' } })).status).toBe(200);
  expect(open.origin.requests[0]?.header('X-User-Id')).toBeUndefined();
});

test('a service that fails is spared for a while', async () => {
  const { ask, service } = await guarded(
    'circuit_breaker: { threshold: 2, reset_timeout: 1h }',
    (_, response) => void response.writeHead(500).end(),
  );

  for (let sent = 0; sent < 5; sent += 1) await ask();

  expect(service.requests).toHaveLength(2);
});

test('an answer is used again for requests that look the same to the service, and for no others', async () => {
  const { ask, service } = await guarded('cache_ttl: 1h');

  await ask('/', { headers: GOOD });
  await ask('/', { headers: { ...GOOD, 'X-Other': 'unseen' } });
  const stranger = await ask('/', { headers: { Authorization: 'Bearer bad' } });
  const elsewhere = await ask('/other', { headers: GOOD });

  expect(service.requests).toHaveLength(3);
  expect(stranger.status).toBe(401);
  // It was let through to the limit, which two others have spent.
  expect(elsewhere.status).toBe(429);
});

test('an answer that says no-store is not kept', async () => {
  const { ask, service } = await guarded('cache_ttl: 1h', (_, response) => {
    response.writeHead(200, { 'Cache-Control': 'no-store' }).end();
  });

  await ask();
  await ask();

  expect(service.requests).toHaveLength(2);
});

test('some requests pass without being asked about, and only exactly those', async () => {
  const { ask, service } = await guarded('except: [{ path: /health, method: GET }]');

  expect((await ask('/health')).status).toBe(200);
  expect((await ask('/health', { method: 'POST' })).status).toBe(401);
  expect((await ask('/health/')).status).toBe(401);
  expect(service.requests).toHaveLength(2);
});

test('an answer of your own replaces that of the service', async () => {
  const origin = await startOrigin();
  const service = await startOrigin(byToken);
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
server: { answers: [{ on: [authorization], status: 403, text: "go away" }] }
authorization: { enabled: true, http: { url: "${service.url}/" } }
`);

  const { status, body } = await ask();

  expect([status, body]).toEqual([403, 'go away']);
});

test.each([
  ['other headers', 'headers: { X-Why: authorization }', 401],
  ['another status', 'status: 403', 403],
  ['a page that the client does not accept', 'html: "<p>no</p>"', 401],
])('an answer of your own with %s leaves the words of the service', async (_, answer, expected) => {
  const { ask } = await guarded('', byToken, `server: { answers: [{ on: [authorization], ${answer} }] }`);

  const { status, body } = await ask('/', { headers: { Accept: 'text/plain' } });

  expect([status, body]).toEqual([expected, 'who are you?']);
});

test('a header that the service has seen reaches the backend, whatever Connection says', async () => {
  const { ask, service, origin } = await guarded('request_headers: [Authorization, X-Org-Id]');

  await ask('/', { headers: { ...GOOD, 'X-Org-Id': 'acme', Connection: 'close, X-Org-Id' } });

  expect(service.requests[0]?.header('X-Org-Id')).toBe('acme');
  expect(origin.requests[0]?.header('X-Org-Id')).toBe('acme');
});

test('questions share a connection to the service', async () => {
  const { ask, service } = await guarded();

  for (let sent = 0; sent < 3; sent += 1) await ask('/', { headers: GOOD });

  expect(service.requests).toHaveLength(3);
  expect(service.connections).toBe(1);
});

test('a connection that the service closes just when it is used again costs nobody a 503', async () => {
  const used = new Set<unknown>();
  const { ask, service } = await guarded('', (request, response) => {
    if (used.has(request.socket)) request.socket.destroy();
    else response.writeHead(200).end();
    used.add(request.socket);
  });

  const answers = [await ask(), await ask()];

  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(service.requests).toHaveLength(3);
});

interface AskedHttp {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A service of ext_authz, on an implementation of gRPC that is not ours. */
async function grpcService(answer: (http: AskedHttp) => Record<string, unknown>): Promise<string> {
  const [request, response] = ['CheckRequest', 'CheckResponse'].map((name) =>
    messageNamed(`envoy.service.auth.v3.${name}`),
  );
  if (request === undefined || response === undefined) throw new Error('no such messages');
  const server = new Server();
  server.addService(
    {
      check: {
        path: '/envoy.service.auth.v3.Authorization/Check',
        requestStream: false,
        responseStream: false,
        requestSerialize: () => Buffer.alloc(0),
        requestDeserialize: (bytes: Buffer) => fromBinary(request, bytes),
        responseSerialize: (value: Record<string, unknown>) =>
          Buffer.from(toBinary(response, create(response, value))),
        responseDeserialize: () => ({}),
      },
    },
    {
      check: (
        call: { request: { attributes: { request: { http: AskedHttp } } } },
        reply: (failure: null, value: Record<string, unknown>) => void,
      ) => reply(null, answer(call.request.attributes.request.http)),
    },
  );
  onTestFinished(() => server.forceShutdown());
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (failure, bound) =>
      failure === null ? resolve(bound) : reject(failure),
    );
  });
  return `127.0.0.1:${port}`;
}

const header = (key: string, value: string): object => ({ header: { key, value } });

test('the same over gRPC, as Envoy asks', async () => {
  const asked: AskedHttp[] = [];
  const address = await grpcService((http) => {
    asked.push(http);
    if (http.headers['authorization'] === 'Bearer good') {
      return {
        status: { code: 0 },
        httpResponse: {
          case: 'okResponse',
          value: { headers: [header('x-user-id', 'ann'), header('x-no', 'no')] },
        },
      };
    }
    if (http.path === '/plain') return { status: { code: 7 } };
    if (http.path === '/nothing') return {};
    const headers = [header('WWW-Authenticate', 'Bearer'), header('content-type', 'text/plain')];
    const value = { status: { code: http.path === '/bad' ? 42 : 401 }, headers, body: 'who are you?' };
    return { status: { code: 16 }, httpResponse: { case: 'deniedResponse', value } };
  });
  const origin = await startOrigin();
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
authorization: { enabled: true, grpc: { address: "${address}" }, upstream_headers: [X-User-Id] }
`);

  const passed = await ask('/items?q=1', { method: 'PUT', headers: { ...GOOD, 'X-User-Id': 'forged' } });
  const refused = await ask('/items');
  const others = [await ask('/plain'), await ask('/nothing'), await ask('/bad')];

  expect(passed.status).toBe(200);
  expect(origin.requests[0]?.header('X-User-Id')).toBe('ann');
  expect(origin.requests[0]?.header('X-No')).toBeUndefined();
  expect(asked[0]).toMatchObject({
    method: 'PUT',
    path: '/items?q=1',
    headers: { authorization: 'Bearer good' },
  });
  expect([refused.status, refused.body, refused.headers['www-authenticate']]).toEqual([
    401,
    'who are you?',
    'Bearer',
  ]);
  // Nobody has said yes to them.
  expect(others.map(({ status }) => status)).toEqual([403, 403, 503]);
  expect(origin.requests).toHaveLength(1);
});

test('a header of the service that could end a line is an answer that cannot be used', async () => {
  const address = await grpcService(() => ({
    status: { code: 0 },
    httpResponse: { case: 'okResponse', value: { headers: [header('x-user-id', 'ann\r\nX-Admin: 1')] } },
  }));
  const origin = await startOrigin();
  const { ask } = await runGateway(`
backend: { url: "${origin.url}" }
authorization: { enabled: true, grpc: { address: "${address}" }, upstream_headers: [X-User-Id] }
`);

  expect((await ask()).status).toBe(503);
  expect(origin.requests).toEqual([]);
});

test('while a request waits for the service, its configuration stays open', async () => {
  let answer: () => void = () => undefined;
  let held = 0;
  const rig = await startRig({ origin: await startOrigin() });
  rig.use({
    authorizer: {
      authorize: async () =>
        new Promise((resolve) => (answer = () => resolve({ allowed: true, headers: [] }))),
    },
    hold: () => {
      held += 1;
      return () => (held -= 1);
    },
  });

  const client = await RawClient.connect(rig.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await eventually(() => held === 1);
  answer();
  await client.until(({ statuses }) => statuses.length === 1);

  expect(client.statuses).toEqual([200]);
  expect(held).toBe(0);
});
