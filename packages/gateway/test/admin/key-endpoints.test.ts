import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { configOf, CONFIG, JSON_HEADERS, policiesOf, runAdmin, type Running } from './running-admin.ts';

const LOGIN = '{ algorithm: fixedWindow, quota: 1, window: 1d, block: { after: 2, within: 1m, for: 15m } }';

let running: Running;

beforeEach(async () => {
  running = await runAdmin();
});

afterEach(async () => {
  await running.stop();
});

describe('a key', () => {
  test('a look at it spends nothing', async () => {
    await running.limiter.check(running.policy('api').for('ann'), { cost: 5 });

    await running.fetch('/v1/keys/api/ann');
    const { status, json } = await running.fetch('/v1/keys/api/ann?cost=15');

    expect(status).toBe(200);
    expect(json).toMatchObject({
      policy: 'api',
      key: 'ann',
      allowed: true,
      limit: 20,
      remaining: 15,
      override: null,
    });
  });

  test('a cost that never fits has no wait', async () => {
    expect((await running.fetch('/v1/keys/api/ann?cost=21')).json).toMatchObject({
      allowed: false,
      retryAfterMs: null,
    });
  });

  test('forgotten is as if never used, also twice', async () => {
    await running.limiter.check(running.policy('api').for('ann'), { cost: 20 });

    const first = await running.fetch('/v1/keys/api/ann', { method: 'DELETE' });
    const second = await running.fetch('/v1/keys/api/ann', { method: 'DELETE' });

    expect([first.status, second.status]).toEqual([200, 200]);
    expect((await running.limiter.peek(running.policy('api').for('ann'))).remaining).toBe(20);
  });

  test('a penalty is shown with its reason and its end, until it is forgotten', async () => {
    await running.stop();
    running = await runAdmin(`${CONFIG}    login: ${LOGIN}\n`);
    for (let request = 0; request < 3; request += 1) {
      await running.limiter.check(running.policy('login').for('ann'));
    }

    const { penalty } = (await running.fetch('/v1/keys/login/ann')).json as { readonly penalty: unknown };
    expect(penalty).toEqual({ endsInMs: expect.any(Number) as number, reason: 'denied 2 times within 1m' });

    await running.fetch('/v1/keys/login/ann', { method: 'DELETE' });
    expect((await running.fetch('/v1/keys/login/ann')).json).toMatchObject({ penalty: null, allowed: true });
  });

  test('an override acts at once, is idempotent and can be taken back', async () => {
    const put = () =>
      running.fetch('/v1/keys/api/ann/override', {
        method: 'PUT',
        headers: JSON_HEADERS,
        body: '{"average": 1000, "burst": 50}',
      });

    const first = await put();
    const second = await put();

    expect(first.json).toMatchObject({
      policy: 'api',
      key: 'ann',
      limit: 50,
      override: { average: 1000, burst: 50 },
    });
    expect(second).toMatchObject({
      status: 200,
      json: { limit: 50, override: { average: 1000, burst: 50 } },
    });
    expect(running.policy('api').for('ann').limit).toBe(50);
    expect((await running.fetch('/v1/policies')).json).toMatchObject({
      policies: [{ overrides: { configured: 1, runtime: 1 } }, {}, {}, {}],
    });

    await running.fetch('/v1/keys/api/ann/override', { method: 'DELETE' });
    const again = await running.fetch('/v1/keys/api/ann/override', { method: 'DELETE' });

    expect(again.json).toMatchObject({ policy: 'api', key: 'ann', limit: 20, override: null });
  });

  test('without its override a key has what the configuration gives it', async () => {
    await running.override('api', 'configured', { burst: 7 });
    expect(running.policy('api').for('configured').limit).toBe(7);

    await running.fetch('/v1/keys/api/configured/override', { method: 'DELETE' });

    expect(running.policy('api').for('configured').limit).toBe(500);
  });

  test('an address stands for those that are counted together with it', async () => {
    await running.stop();
    running = await runAdmin(CONFIG.replace('average: 10\n', 'average: 10\n  period: 1h\n'));
    await running.limiter.check(running.policy('default').for('2001:db8::/64'), { cost: 4 });

    const peeked = await running.fetch('/v1/keys/default/2001:DB8::7');
    const put = await running.override('default', '2001:db8::8', { burst: 7 });
    const seen = await running.fetch('/v1/keys/default/2001:db8::9');

    expect(peeked.json).toMatchObject({ key: '2001:db8::/64', remaining: 6, override: null });
    expect(put.json).toMatchObject({ key: '2001:db8::/64', limit: 7 });
    expect(seen.json).toMatchObject({ limit: 7, override: { burst: 7 } });
  });

  test('a queue takes max_delay', async () => {
    expect(await running.override('queue', 'ann', { max_delay: '5s' })).toMatchObject({
      status: 200,
      json: { override: { max_delay: '5s' } },
    });
  });

  test('overrides outlive a reload; those of a policy that is gone are kept, and hold again when it is back', async () => {
    await running.override('api', 'ann', { burst: 50 });
    await running.override('daily', 'bob', { quota: 5 });
    const { config } = configOf(CONFIG.replace(/ {4}daily.*\n/, ''));
    running.state.policies = policiesOf(config);
    expect(running.policy('api').for('ann').limit).toBe(20);

    running.settings.applied.reapply();

    expect(running.policy('api').for('ann').limit).toBe(50);
    expect(running.fleet.settings()).toHaveLength(2);
    running.state.policies = policiesOf(configOf(CONFIG).config);
    running.settings.applied.reapply();
    expect(running.policy('daily').for('bob').limit).toBe(5);
  });

  test.each([
    ['{"burst": 0}', 400],
    ['{"burst": -1}', 400],
    ['{"burst": 1.5}', 400],
    ['{"quota": 5}', 422],
    ['{"period": "soon"}', 422],
    ['{"periode": "1s"}', 400],
    ['{}', 400],
    ['[]', 400],
    ['null', 400],
    ['{"burst":', 400],
    ['', 400],
  ])('the override %s is refused', async (body, status) => {
    const answer = await running.fetch('/v1/keys/api/ann/override', {
      method: 'PUT',
      headers: JSON_HEADERS,
      body,
    });

    expect(answer.status).toBe(status);
    expect(running.policy('api').for('ann').limit).toBe(20);
  });

  test('the message of a refused override names value, bound and fix', async () => {
    expect(await running.override('api', 'ann', { period: 'soon' })).toMatchObject({
      json: { code: 'INVALID_NUMBERS', detail: expect.stringMatching(/^period is "soon", .*'1d'\.$/) },
    });
  });

  test.each([
    '<img src=x onerror=alert(1)>',
    'a\r\nSet-Cookie: x=1',
    '../../etc/passwd',
    '..',
    'ä/ö%',
    '=cmd()',
    '\u202e',
  ])('the key %j comes back as it is, and as JSON', async (key) => {
    const { status, json, headers } = await running.fetch(`/v1/keys/api/${encodeURIComponent(key)}`);

    expect(status).toBe(200);
    expect(json).toMatchObject({ key });
    expect(headers['set-cookie']).toBeUndefined();
    expect(headers['content-type']).toBe('application/json');
  });

  test('every key can be asked for', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), async (key) => {
        const { status, json } = await running.fetch(`/v1/keys/daily/${encodeURIComponent(key)}`);

        expect([status, json]).toMatchObject([200, { key }]);
      }),
    );
  });

  test('a key of a mebibyte is refused before it is read', async () => {
    const answer = await running
      .fetch(`/v1/keys/api/${'k'.repeat(2 ** 20)}`)
      .catch((error: unknown) => error);

    // Node may answer 431 or cut the connection off while the key is still being sent.
    expect(answer).toSatisfy(
      (value: object) => 'code' in value || ('status' in value && value.status === 431),
    );
    expect((await running.fetch('/healthz')).status).toBe(200);
  });

  test('an unknown policy is named with those that exist', async () => {
    expect((await running.fetch('/v1/keys/nope/ann')).json).toMatchObject({
      status: 404,
      code: 'UNKNOWN_POLICY',
      detail: 'The policy is "nope"; expected one of api, queue, daily, default.',
    });
  });

  test('a broken percent-encoding is a bad request', async () => {
    expect((await running.fetch('/v1/keys/api/%zz')).json).toMatchObject({
      status: 400,
      code: 'INVALID_REQUEST',
    });
  });

  test('a store that fails makes forgetting fail', async () => {
    await running.limiter.close();

    expect((await running.fetch('/v1/keys/api/ann', { method: 'DELETE' })).status).toBe(503);
  });
});
