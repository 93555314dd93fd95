import { connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { ENDPOINTS } from '../../src/admin/endpoints.ts';
import { ask, CONFIG, JSON_HEADERS, raw, runAdmin, type Running } from './running-admin.ts';

const TOKEN = 'planted-secret-3f9a7c';
const WITH_TOKEN = CONFIG.replace('admin:\n', `admin:\n  token: ${TOKEN}\n`);
const BEARER = { authorization: `Bearer ${TOKEN}` };
const started: Running[] = [];

async function run(yaml?: string): Promise<Running> {
  const running = await runAdmin(yaml);
  started.push(running);
  return running;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map(({ stop }) => stop()));
});

describe('the token', () => {
  test('is needed by everything but probes and what describes the API', async () => {
    const { fetch } = await run(WITH_TOKEN);

    for (const { method, path, access } of ENDPOINTS) {
      const real = path.replace('{policy}', 'api').replace('{key}', 'ann');
      const { status } = await fetch(real, { method, headers: JSON_HEADERS });
      expect([path, status === 401]).toEqual([path, access === 'token']);
    }
    expect((await fetch('/readyz?deep=1')).status).toBe(401);
  });

  test.each([
    undefined,
    '',
    'Bearer',
    'Bearer ',
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(0, -1)}`,
    `Basic ${TOKEN}`,
    TOKEN,
    `Bearer ${'x'.repeat(5000)}`,
  ])('%j is no token', async (authorization) => {
    const { fetch } = await run(WITH_TOKEN);

    const { status, headers } = await fetch('/v1/config', {
      headers: authorization === undefined ? {} : { authorization },
    });

    expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer realm="spillgate"']);
  });

  test('the right one opens everything', async () => {
    const { fetch } = await run(WITH_TOKEN);

    expect((await fetch('/v1/config', { headers: BEARER })).status).toBe(200);
    expect((await fetch('/v1/config', { headers: { authorization: `bearer ${TOKEN}` } })).status).toBe(200);
  });

  test('whoever sends ten wrong ones is not listened to any more, with the right one neither', async () => {
    const { fetch, lines } = await run(WITH_TOKEN);
    for (let at = 0; at < 10; at += 1) {
      expect((await fetch('/v1/stats', { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
    }

    const { status, json, headers } = await fetch('/v1/stats', { headers: BEARER });

    expect(status).toBe(429);
    expect(json).toMatchObject({ code: 'TOO_MANY_FAILURES' });
    expect(headers['retry-after']).toBe('6');
    expect(lines.filter(({ message }) => message.includes('no valid token'))).toHaveLength(10);
    expect((await fetch('/healthz')).status).toBe(200);
  });

  test.each([{}, { authorization: '' }])(
    'none at all is no guess: %j is refused every time, and locks nobody out',
    async (headers) => {
      const { fetch, lines } = await run(WITH_TOKEN);

      for (let at = 0; at < 12; at += 1) expect((await fetch('/v1/stats', { headers })).status).toBe(401);

      expect((await fetch('/v1/stats', { headers: BEARER })).status).toBe(200);
      expect(lines.filter(({ level }) => level !== 'debug')).toEqual([]);
    },
  );

  test('who is locked out and then sends none is told to send one', async () => {
    const { fetch } = await run(WITH_TOKEN);
    for (let at = 0; at < 10; at += 1) {
      await fetch('/v1/stats', { headers: { authorization: 'Basic wrong' } });
    }

    expect((await fetch('/v1/stats')).status).toBe(401);
    expect((await fetch('/v1/stats', { headers: BEARER })).status).toBe(429);
  });

  test('is not needed on loopback where none is configured', async () => {
    const { fetch } = await run();

    expect((await fetch('/v1/config')).status).toBe(200);
  });
});

describe('the host', () => {
  test.each([
    'evil.example',
    '127.0.0.1.evil.example',
    'localhost.evil.example:9090',
    'localhost.',
    '127.0.0.2',
    '[::2]',
    'localhost:9090:1',
    'x@localhost',
  ])('%s is not served', async (host) => {
    const { fetch } = await run();

    const { status, json } = await fetch('/v1/config', { headers: { host } });

    expect([status, json]).toMatchObject([421, { code: 'MISDIRECTED_HOST' }]);
  });

  test.each(['localhost', 'LOCALHOST:1', '127.0.0.1:9090', '[::1]', '[::1]:9090'])(
    '%s is served',
    async (host) => {
      const { fetch } = await run();

      expect((await fetch('/v1/config', { headers: { host } })).status).toBe(200);
    },
  );

  test.each(['gw.internal', 'GW.internal:9090', 'localhost:1', '127.0.0.1:9090', '[::1]:9090'])(
    '%s is served beside a name of the configuration: no page of an attacker has a name of loopback',
    async (host) => {
      const { fetch } = await run(CONFIG.replace('admin:\n', 'admin:\n  allowed_hosts: [gw.Internal]\n'));

      expect((await fetch('/v1/config', { headers: { host } })).status).toBe(200);
      expect((await fetch('/v1/config', { headers: { host: `evil.${host}` } })).status).toBe(421);
    },
  );

  test('does not matter to probes: an orchestrator asks by address', async () => {
    const { fetch } = await run();

    expect((await fetch('/readyz', { headers: { host: '10.1.2.3:9090' } })).status).toBe(200);
    expect((await fetch('/readyz?deep=1', { headers: { host: '10.1.2.3:9090' } })).status).toBe(421);
  });

  test('two of them are a bad request', async () => {
    const { admin } = await run();

    expect(
      await raw(
        admin.address.port,
        'GET /v1/config HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n',
      ),
    ).toMatch(/^HTTP\/1\.1 400 /);
  });

  test('a target with another host in it is nothing here', async () => {
    const { admin } = await run();

    expect(
      await raw(
        admin.address.port,
        'GET http://evil.example/v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
      ),
    ).toMatch(/^HTTP\/1\.1 404 /);
  });
});

describe('other sites', () => {
  test.each([
    ['a form', { 'content-type': 'text/plain' }, 415],
    ['a form that says nothing', {}, 415],
    ['a form with JSON in it', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['nearly JSON', { 'content-type': 'application/json-patch' }, 415],
    ['a page of another origin', { ...JSON_HEADERS, origin: 'http://evil.example' }, 403],
    ['a page without an origin', { ...JSON_HEADERS, origin: 'null' }, 403],
    ['a page of another port', { ...JSON_HEADERS, origin: 'http://localhost:1' }, 403],
    ['a browser that says cross-site', { ...JSON_HEADERS, 'sec-fetch-site': 'cross-site' }, 403],
    ['a browser that says same-site', { ...JSON_HEADERS, 'sec-fetch-site': 'same-site' }, 403],
  ])('%s cannot reload', async (_, headers, status) => {
    const { fetch, state } = await run();
    let reloads = 0;
    state.reload = () => {
      reloads += 1;
      return Promise.resolve({ outcome: 'applied', generation: 2, problems: [] });
    };

    const answer = await fetch('/v1/reload', { method: 'POST', headers: { host: 'localhost', ...headers } });

    expect([answer.status, reloads]).toEqual([status, 0]);
  });

  test('a page of this server can', async () => {
    const { fetch, admin } = await run();
    const host = `localhost:${admin.address.port}`;

    const { status } = await fetch('/v1/reload', {
      method: 'POST',
      headers: {
        host,
        origin: `http://${host}`,
        'sec-fetch-site': 'same-origin',
        'content-type': 'application/json; charset=utf-8',
      },
    });

    expect(status).toBe(200);
  });

  test('cannot forget a key', async () => {
    const { fetch } = await run();

    expect(
      (await fetch('/v1/keys/api/ann', { method: 'DELETE', headers: { origin: 'http://evil.example' } }))
        .status,
    ).toBe(403);
  });

  test('are never told that they may ask', async () => {
    const { fetch } = await run();

    const preflight = await fetch('/v1/reload', {
      method: 'OPTIONS',
      headers: { origin: 'http://evil.example', 'access-control-request-method': 'POST' },
    });

    expect(preflight.status).toBe(405);
    expect(Object.keys(preflight.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('every answer', () => {
  test.each(['/', '/healthz', '/v1/config', '/metrics', '/openapi.json', '/nope'])(
    '%s keeps browsers from doing more than showing it',
    async (path) => {
      const { fetch } = await run();

      expect((await fetch(path)).headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
    },
  );

  test('an error is a problem that names the value, what was expected and what to do', async () => {
    const { fetch } = await run();

    const { headers, json } = await fetch('/v1/config', { headers: { host: 'evil.example' } });

    expect(headers['content-type']).toBe('application/problem+json');
    expect(json).toEqual({
      type: 'about:blank',
      title: 'This host is not served here',
      status: 421,
      detail:
        'The host is "evil.example"; expected one of localhost, 127.0.0.1, [::1]: ask for one of these, or add it to admin.allowed_hosts.',
      code: 'MISDIRECTED_HOST',
    });
  });

  test('a failure of the gateway tells nothing of its inside', async () => {
    const { fetch, state, lines } = await run();
    state.reload = () => Promise.reject(new Error(`password ${TOKEN}`));

    const { status, text } = await fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS });

    expect([status, text.includes(TOKEN)]).toEqual([500, false]);
    expect(lines.some(({ level }) => level === 'error')).toBe(true);
  });
});

describe('who did what', () => {
  test('every write is in the log, with a key on one line', async () => {
    const { fetch, lines, override } = await run();
    const key = 'ann\r\n\u001b[31m';

    await override('api', encodeURIComponent(key), { burst: 5 });
    await fetch('/v1/keys/nope/ann', { method: 'DELETE' });

    expect(lines).toMatchObject([
      {
        level: 'info',
        message: 'admin write',
        fields: {
          audit: true,
          action: 'override',
          policy: 'api',
          key: 'ann\\u000d\\u000a\\u001b[31m',
          status: 200,
        },
      },
      { level: 'warn', fields: { audit: true, action: 'forget', policy: 'nope', key: 'ann', status: 404 } },
    ]);
  });

  test('looking is not', async () => {
    const { fetch, lines } = await run();

    await fetch('/v1/keys/api/ann');

    expect(lines).toEqual([]);
  });
});

test('no secret is in any answer, line or metric', async () => {
  const { fetch, lines, metrics } = await run(`${WITH_TOKEN}
redis:
  endpoints: ["127.0.0.1:1"]
  password: ${TOKEN}-redis
`);

  const texts = await Promise.all(
    // A stream of events has no end; each event of it is what GET /v1/live/sample answers.
    ENDPOINTS.filter(({ path }) => path !== '/v1/live').map(async ({ method, path }) => {
      const real = path.replace('{policy}', 'api').replace('{key}', 'ann');
      const { text } = await fetch(real, { method, headers: { ...BEARER, ...JSON_HEADERS } });
      return text;
    }),
  );
  const shown = [...texts, JSON.stringify(lines), await metrics.text()];

  expect(shown.join('\n')).toContain('********');
  for (const text of shown) expect(text).not.toContain(TOKEN);
});

test('a port that is taken is an error', async () => {
  const { admin } = await run();

  await expect(runAdmin(CONFIG.replace(':0"', `:${admin.address.port}"`))).rejects.toThrow(/EADDRINUSE/);
});

test('closing does not wait for connections that are idle', async () => {
  const running = await runAdmin();
  const socket = connect(running.admin.address.port, '127.0.0.1');
  await new Promise((resolve) => socket.once('connect', resolve));

  await running.stop();

  await expect(ask(running.admin.address.port, '/healthz')).rejects.toThrow(/ECONNREFUSED/);
});
