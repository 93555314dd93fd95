// Every change leaves a line in the log: who, from where, what, what it was and what it is.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CONFIG, JSON_HEADERS, runAdmin, type Running } from './running-admin.ts';

let running: Running;

beforeEach(async () => {
  running = await runAdmin(CONFIG);
});

afterEach(async () => {
  await running.stop();
});

function audited(): readonly object[] {
  return running.lines.filter(({ message }) => message === 'admin write').map(({ fields }) => fields);
}

async function put(path: string, body: object): Promise<void> {
  await running.fetch(path, { method: 'PUT', headers: JSON_HEADERS, body: JSON.stringify(body) });
}

describe('the line of', () => {
  test('an override has the numbers before and after', async () => {
    await put('/v1/keys/api/ann/override', { burst: 5 });
    await put('/v1/keys/api/ann/override', { burst: 9, note: 'a good customer', by: 'eve' });
    await running.fetch('/v1/keys/api/ann/override', { method: 'DELETE' });

    expect(audited()).toEqual([
      expect.objectContaining({ action: 'override', before: null, after: { burst: 5 } }),
      expect.objectContaining({
        action: 'override',
        policy: 'api',
        key: 'ann',
        remote: '127.0.0.1',
        via: 'open',
        role: 'operator',
        before: { burst: 5 },
        after: { burst: 9, note: 'a good customer', by: 'eve' },
      }),
      expect.objectContaining({ action: 'removeOverride', after: null }),
    ]);
  });

  test('a block and of its end', async () => {
    await put('/v1/keys/api/ann/block', { expires_in: '1h' });
    await running.fetch('/v1/keys/api/ann/block', { method: 'DELETE' });

    const blocked = { blocked: true, expiresAt: expect.any(String) };
    expect(audited()).toEqual([
      expect.objectContaining({ action: 'block', before: null, after: blocked }),
      expect.objectContaining({ action: 'removeBlock', before: blocked, after: null }),
    ]);
  });

  test('a key that is forgotten has what was left', async () => {
    await running.limiter.check(running.policy('api').for('ann'), { cost: 3 });
    await running.fetch('/v1/keys/api/ann', { method: 'DELETE' });

    expect(audited()).toEqual([
      expect.objectContaining({
        action: 'forget',
        before: { remaining: 17, limit: 20 },
        after: { remaining: 20, limit: 20 },
      }),
    ]);
  });

  test('maintenance has both states', async () => {
    await running.fetch('/v1/maintenance/on', { method: 'POST', headers: JSON_HEADERS });

    expect(audited()).toEqual([
      expect.objectContaining({
        action: 'switchMaintenance',
        state: 'on',
        before: expect.objectContaining({ enabled: false }),
        after: expect.objectContaining({ enabled: true }),
      }),
    ]);
  });

  test('a reload has what it changed', async () => {
    running.state.reload = async () => {
      const differences = { total: 1, items: [{ path: 'rate_limit.average', before: 10, after: 20 }] };
      const result = { outcome: 'applied', generation: 2, problems: [] } as const;
      running.state.last = { ...result, at: new Date(), differences };
      return Promise.resolve(result);
    };
    await running.fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS });

    expect(audited()).toEqual([
      expect.objectContaining({
        action: 'reload',
        before: { generation: 1 },
        after: {
          generation: 2,
          differences: { total: 1, items: [{ path: 'rate_limit.average', before: 10, after: 20 }] },
        },
      }),
    ]);
  });
});

test('a question leaves none', async () => {
  const checked = await running.fetch('/v1/config/check', {
    method: 'POST',
    headers: JSON_HEADERS,
    body: '{}',
  });

  expect(checked.status).toBe(200);
  expect(audited()).toEqual([]);
});

test('the secret of a client is written as its hash', async () => {
  const secrets = await runAdmin(`${CONFIG}  key_strategy: { type: header, header_name: X-Api-Key }\n`);
  await secrets.fetch('/v1/keys/api/a-secret-of-ann', { method: 'DELETE' });
  await secrets.stop();

  expect(JSON.stringify(secrets.lines)).toContain('forget');
  expect(JSON.stringify(secrets.lines)).not.toContain('a-secret-of-ann');
});
