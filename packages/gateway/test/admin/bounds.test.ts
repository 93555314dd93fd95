import { connect, Server, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import type { ReloadResult } from '../../src/admin/control.ts';
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
  test('a connection that the system cannot accept does not end the process', async () => {
    const { admin } = await run();
    const { _getActiveHandles: open } = process as unknown as { _getActiveHandles: () => readonly unknown[] };
    const server = open
      .call(process)
      .find(
        (handle) =>
          handle instanceof Server && (handle.address() as AddressInfo | null)?.port === admin.address.port,
      );

    expect(() => (server as Server).emit('error', new Error('accept EMFILE'))).not.toThrow();
  });

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
    const { fleet, override } = await run();
    for (let at = 0; at < 10_000; at += 1) {
      await fleet.set({
        kind: 'override',
        policy: 'api',
        key: `k${at}`,
        numbers: { burst: 5 },
        setAt: new Date().toISOString(),
      });
    }

    const fresh = await override('api', 'one-more', { burst: 5 });
    const known = await override('api', 'k0', { burst: 5 });

    expect([fresh.status, known.status]).toEqual([409, 200]);
    expect(fresh.json).toMatchObject({ code: 'TOO_MANY_OVERRIDES' });
  });
});

describe('connections', () => {
  test('one address cannot fill the port: probes are answered, and the log says so', async () => {
    const { admin, fetch, lines } = await run();
    const sockets = await Promise.all(
      Array.from({ length: 300 }, async () => idleConnection(admin.address.port)),
    );
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });

    const probes = await Promise.all(Array.from({ length: 20 }, async () => fetch('/healthz')));

    expect(probes.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(lines).toContainEqual(
      expect.objectContaining({ message: 'too many connections to the admin server: idle ones are closed' }),
    );
  });

  test('a request under way is never cut off to make room', async () => {
    const { admin, fetch, state } = await run();
    let finish: (result: ReloadResult) => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      state.reload = async () => {
        resolve();
        return new Promise((done) => {
          finish = done;
        });
      };
    });
    const answer = fetch('/v1/reload', { method: 'POST', headers: JSON_HEADERS, body: '{}' });
    await begun;

    const sockets = await Promise.all(
      Array.from({ length: 300 }, async () => idleConnection(admin.address.port)),
    );
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    finish({ outcome: 'unchanged', generation: 1, problems: [] });

    expect((await answer).status).toBe(200);
  });
});

async function idleConnection(port: number): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    });
    socket.once('data', () => resolve(socket));
    socket.once('close', () => resolve(socket));
    socket.on('error', () => socket.destroy());
  });
}
