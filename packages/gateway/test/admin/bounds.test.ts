import { afterEach, describe, expect, test } from 'vitest';
import { CONFIG, JSON_HEADERS, raw, runAdmin, type Running } from './running-admin.ts';

const started: Running[] = [];

async function run(yaml?: string): Promise<Running> {
  const running = await runAdmin(yaml);
  started.push(running);
  return running;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map(({ stop }) => stop()));
});

describe('bounds', () => {
  test('a body that is announced too large is not read', async () => {
    const { fetch } = await run();

    const { status, headers } = await fetch('/v1/keys/api/ann/override', {
      method: 'PUT',
      headers: { ...JSON_HEADERS, 'content-length': String(2 ** 30) },
    }).catch((error: unknown) => ({ status: String(error), headers: {} as Record<string, string> }));

    expect([status, headers['connection']]).toEqual([413, 'close']);
  });

  test('a body without length ends at 64 KiB', async () => {
    const { fetch } = await run();

    const { status } = await fetch('/v1/keys/api/ann/override', {
      method: 'PUT',
      headers: { ...JSON_HEADERS, 'transfer-encoding': 'chunked' },
      body: ' '.repeat(65_537),
    });

    expect(status).toBe(413);
  });

  test('a body of exactly 64 KiB is read', async () => {
    const { fetch } = await run();
    const body = '{"burst": 5}'.padEnd(65_536);

    expect(
      (await fetch('/v1/keys/api/ann/override', { method: 'PUT', headers: JSON_HEADERS, body })).status,
    ).toBe(200);
  });

  test('whoever sends a request slowly is cut off', async () => {
    const { admin } = await run(CONFIG.replace('admin:\n', 'admin:\n  read_timeout: 300ms\n'));

    const answer = await raw(admin.address.port, 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ');

    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  test('an answer that takes too long is cut off', async () => {
    const { fetch, state } = await run(CONFIG.replace('admin:\n', 'admin:\n  write_timeout: 200ms\n'));
    state.reload = () => new Promise(() => undefined);

    await expect(fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS })).rejects.toThrow(
      /hang up|reset/i,
    );
  });

  test.each(['GET / HTTP/9.9\r\n\r\n', '\u0000\u0001\r\n\r\n', 'GET /healthz HTTP/1.1\r\n\r\n'])(
    'bytes that are no request (%j) end the connection',
    async (bytes) => {
      const { admin } = await run();

      expect(await raw(admin.address.port, bytes)).toMatch(/^HTTP\/1\.1 400 /);
    },
  );

  test('no more than ten thousand overrides are kept', async () => {
    const { admin, override } = await run();
    for (let at = 0; at < 10_000; at += 1) {
      admin.overrides.set({ policy: 'api', key: `k${at}`, numbers: { burst: 5 } });
    }

    const fresh = await override('api', 'one-more', { burst: 5 });
    const known = await override('api', 'k0', { burst: 5 });

    expect([fresh.status, known.status]).toEqual([409, 200]);
    expect(fresh.json).toMatchObject({ code: 'TOO_MANY_OVERRIDES' });
  });
});
