// Browsers show the token once; a cookie speaks for them afterwards, and for no other page.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SessionState } from '../../src/index.ts';
import { ENDPOINTS } from '../../src/admin/endpoints.ts';
import { CONFIG, JSON_HEADERS, runAdmin, type Answer, type Running } from './running-admin.ts';

const TOKEN = 'a-token-of-an-operator';
const BEARER = { authorization: `Bearer ${TOKEN}` };
const FORGET = '/v1/keys/api/ann';

let running: Running;

beforeEach(async () => {
  running = await runAdmin(
    CONFIG.replace('address: "127.0.0.1:0"', `address: "127.0.0.1:0"\n  token: ${TOKEN}`),
  );
});

afterEach(async () => {
  await running.stop();
});

async function open(headers: Readonly<Record<string, string>> = {}): Promise<{
  readonly answer: Answer;
  readonly cookie: string;
  readonly csrfToken: string;
}> {
  const answer = await running.fetch('/v1/session', {
    method: 'POST',
    headers: { ...BEARER, ...JSON_HEADERS, ...headers },
  });
  const [cookie = ''] = answer.headers['set-cookie'] ?? [];
  const { csrfToken = '' } = answer.json as SessionState;
  return { answer, cookie: cookie.split(';')[0] ?? '', csrfToken };
}

test('the cookie is one that no script reads and no other site sends', async () => {
  const { answer } = await open();

  expect(answer.headers['set-cookie']).toEqual([
    expect.stringMatching(/^spillgate_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=28800$/),
  ]);
  expect(JSON.stringify(answer.json)).not.toContain(TOKEN);
});

test('behind a proxy with TLS it is never sent without', async () => {
  const origin = `https://127.0.0.1:${running.admin.address.port}`;
  const { answer } = await open({ origin, host: `127.0.0.1:${running.admin.address.port}` });

  expect(String(answer.headers['set-cookie'])).toContain('; Secure');
});

describe('a session', () => {
  test('reads what the token reads', async () => {
    const { cookie } = await open();

    expect((await running.fetch('/v1/config', { headers: { cookie } })).status).toBe(200);
    expect((await running.fetch('/v1/config')).status).toBe(401);
    expect((await running.fetch('/v1/config', { headers: { cookie: `${cookie}x` } })).status).toBe(401);
  });

  test('changes things only with its own CSRF token, and the log says who did', async () => {
    const { cookie, csrfToken } = await open();
    const other = await open();
    const forget = async (headers: Readonly<Record<string, string>>): Promise<number> =>
      (await running.fetch(FORGET, { method: 'DELETE', headers: { cookie, ...headers } })).status;

    expect(await forget({})).toBe(403);
    expect(await forget({ 'x-csrf-token': other.csrfToken })).toBe(403);
    expect(await forget({ 'x-csrf-token': csrfToken })).toBe(200);
    expect(running.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ audit: true, action: 'forget', via: 'session' }),
      }),
    );
  });

  test('ends when it is closed', async () => {
    const { cookie, csrfToken } = await open();

    const closed = await running.fetch('/v1/session', {
      method: 'DELETE',
      headers: { cookie, 'x-csrf-token': csrfToken },
    });

    expect(String(closed.headers['set-cookie'])).toContain('Max-Age=0');
    expect((await running.fetch('/v1/config', { headers: { cookie } })).status).toBe(401);
  });

  test('is one of a thousand: the oldest makes room', async () => {
    const first = await open();
    for (let at = 0; at < 1000; at += 1) await open();

    expect((await running.fetch('/v1/config', { headers: { cookie: first.cookie } })).status).toBe(401);
  });
});

test('a session is not opened by another session, nor by a wrong token', async () => {
  const { cookie, csrfToken } = await open();

  const again = await running.fetch('/v1/session', {
    method: 'POST',
    headers: { cookie, 'x-csrf-token': csrfToken, ...JSON_HEADERS },
  });
  const wrong = await running.fetch('/v1/session', {
    method: 'POST',
    headers: { authorization: 'Bearer nonsense', ...JSON_HEADERS },
  });

  expect(again.headers['set-cookie']).toBeUndefined();
  expect([wrong.status, wrong.headers['set-cookie']]).toEqual([401, undefined]);
});

describe('those with the read-only token', () => {
  const READER = 'a-token-of-a-reader';
  const SHOWN = { authorization: `Bearer ${READER}` };
  let watched: Running;

  beforeEach(async () => {
    watched = await runAdmin(
      CONFIG.replace(
        'address: "127.0.0.1:0"',
        `address: "127.0.0.1:0"\n  token: ${TOKEN}\n  read_only_token: ${READER}`,
      ),
    );
  });

  afterEach(async () => {
    await watched.stop();
  });

  const CHANGES = ENDPOINTS.filter(({ effect }) => effect === 'change');

  test('see everything that changes nothing', async () => {
    const asked = ENDPOINTS.filter(({ method, path }) => method === 'GET' && !/\{|live$/.test(path));
    const statuses = await Promise.all(
      asked.map(async ({ path }) => (await watched.fetch(path, { headers: SHOWN })).status),
    );
    const checked = await watched.fetch('/v1/config/check', {
      method: 'POST',
      headers: { ...SHOWN, ...JSON_HEADERS },
      body: '{}',
    });

    expect(asked.length).toBeGreaterThan(10);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect(checked.status).toBe(200);
  });

  test.each(CHANGES.map(({ method, path }) => [method, path]))('are refused %s %s', async (method, path) => {
    const answer = await watched.fetch(path.replace('{policy}', 'api').replace('{key}', 'ann'), {
      method,
      headers: { ...SHOWN, ...JSON_HEADERS },
      ...(method === 'DELETE' ? {} : { body: '{}' }),
    });

    expect(answer.status).toBe(403);
    expect(answer.json).toMatchObject({ code: 'READ_ONLY' });
    expect(watched.lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        fields: expect.objectContaining({ audit: true, role: 'reader', status: 403, code: 'READ_ONLY' }),
      }),
    );
  });

  test('open a session that is theirs, and changes nothing either', async () => {
    const opened = await watched.fetch('/v1/session', {
      method: 'POST',
      headers: { ...SHOWN, ...JSON_HEADERS },
    });
    const [set = ''] = opened.headers['set-cookie'] ?? [];
    const cookie = set.split(';')[0] ?? '';
    const { csrfToken = '' } = opened.json as SessionState;

    const state = await watched.fetch('/v1/session', { headers: { cookie } });
    const change = await watched.fetch(FORGET, {
      method: 'DELETE',
      headers: { cookie, 'x-csrf-token': csrfToken },
    });

    expect(opened.json).toMatchObject({ via: 'session', role: 'reader' });
    expect(state.json).toMatchObject({ via: 'session', role: 'reader' });
    expect(change.json).toMatchObject({ status: 403, code: 'READ_ONLY' });
  });
});
