import { RedisNode } from '#limiter/stores/redis/redis-node.js';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FakeConnection } from './fake-connection.ts';

const TIMEOUT_MS = 50;
const CALL = { key: '{k}', name: 'GET', args: ['{k}'] };
const VERSION = 'redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n';

let connection: FakeConnection;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
  connection = new FakeConnection();
});

afterEach(() => {
  vi.useRealTimers();
});

function openNode(decides = true): RedisNode {
  return new RedisNode(connection, {
    timeoutMs: () => TIMEOUT_MS,
    observe: () => undefined,
    probeKey: (key) => key,
    decides,
  });
}

async function fail(server: RedisNode, times: number): Promise<void> {
  for (let call = 0; call < times; call += 1) await server.call(CALL).catch(() => undefined);
}

describe('a server of the store', () => {
  test('is not up before it has said what it is', async () => {
    const answers: ((version: string) => void)[] = [];
    connection.reply = async () => new Promise((resolve) => answers.push(resolve));
    const server = openNode();
    await vi.advanceTimersByTimeAsync(1000);
    expect(server.health()).toMatchObject({ status: 'down', detail: 'connected, but without an answer yet' });

    for (const answer of answers) answer(VERSION);
    await vi.advanceTimersByTimeAsync(0);

    expect(server.health()).toMatchObject({ status: 'up', detail: 'answers' });
    await server.close();
  });

  test('that only watches others is asked for nothing but an answer', async () => {
    const server = openNode(false);
    await vi.advanceTimersByTimeAsync(0);

    expect(connection.sent).toEqual([]);
    expect(server.health().status).toBe('up');
    await server.close();
  });

  test('whose connection is lost is down from that moment, however many calls fail or attempts are made', async () => {
    const server = openNode();
    await vi.advanceTimersByTimeAsync(1000);
    connection.find();
    await vi.advanceTimersByTimeAsync(1000);
    connection.lose('read ECONNRESET');
    connection.reply = async () => Promise.reject(new Error('read ECONNRESET'));
    await fail(server, 1);
    await vi.advanceTimersByTimeAsync(1000);
    connection.lose('connect ECONNREFUSED');

    expect(server.health()).toMatchObject({
      status: 'down',
      since: '1970-01-01T00:00:02.000Z',
      lastError: expect.stringContaining('connect ECONNREFUSED'),
    });
    await server.close();
  });

  test('that has become a replica gets a new connection with the first answer that says so', async () => {
    const server = openNode();
    connection.reply = async () =>
      Promise.reject(new Error("READONLY You can't write against a read only replica."));

    await fail(server, 1);

    expect(connection.done).toEqual([expect.stringMatching(/^renew: .*READONLY/)]);
    await server.close();
  });

  test('that stays silent gets a new connection when a probe shows it, not before', async () => {
    const server = openNode();
    connection.reply = async () => new Promise(() => undefined);
    for (let call = 0; call < 5; call += 1) {
      const failure = fail(server, 1);
      await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
      await failure;
    }
    expect(server.health().status).toBe('down');
    expect(connection.done).toEqual([]);

    await vi.advanceTimersByTimeAsync(450);
    expect(connection.done).toEqual([]);
    await vi.advanceTimersByTimeAsync(500);

    expect(connection.done).toEqual([expect.stringMatching(/^renew: .*did not answer/)]);
    await server.close();
  });

  test('that is left lets calls that are under way end first', async () => {
    const server = openNode();
    await vi.advanceTimersByTimeAsync(0);
    connection.reply = async () => new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS - 1, 'decided'));
    const underWay = server.call(CALL);

    server.retire();
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1);
    expect(connection.done).toEqual([]);

    await vi.advanceTimersByTimeAsync(1);
    expect(await underWay).toBe('decided');
    expect(connection.done).toEqual(['close']);
  });
});
