import type { Link } from '#limiter/stores/redis/link.js';
import { RedisNode } from '#limiter/stores/redis/redis-node.js';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

const TIMEOUT_MS = 50;
const VERSION = 'redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n';

/** A connection that answers what it is told to, and remembers what was done to it. */
class FakeLink implements Link {
  readonly name = '10.0.0.1:6379';
  readonly done: string[] = [];
  readonly sent: string[] = [];
  connected = true;
  reply: (command: string) => Promise<unknown> = async (command) => (command === 'INFO' ? VERSION : 'OK');
  #ready: () => void = () => undefined;
  #lost: (error: Error) => void = () => undefined;

  readonly send = async (_key: string, command: string): Promise<unknown> => {
    this.sent.push(command);
    return this.reply(command);
  };
  readonly sendAsking = async (command: string): Promise<unknown> => this.send('', command);
  readonly isReady = (): boolean => this.connected;
  readonly connectionError = (): undefined => undefined;
  readonly onReady = (listener: () => void): void => {
    this.#ready = listener;
  };
  readonly onLost = (listener: (error: Error) => void): void => {
    this.#lost = listener;
  };
  readonly renew = (reason: Error): void => {
    this.done.push(`renew: ${reason.message}`);
  };
  readonly close = async (): Promise<void> => {
    this.done.push('close');
  };

  lose(reason: string): void {
    this.connected = false;
    this.#lost(new Error(reason));
  }

  find(): void {
    this.connected = true;
    this.#ready();
  }
}

let link: FakeLink;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
  link = new FakeLink();
});

afterEach(() => {
  vi.useRealTimers();
});

function openNode(decides = true): RedisNode {
  return new RedisNode(link, {
    timeoutMs: TIMEOUT_MS,
    observe: () => undefined,
    probeKey: (key) => key,
    decides,
  });
}

async function fail(node: RedisNode, times: number): Promise<void> {
  for (let call = 0; call < times; call += 1) await node.send('{k}', 'EVALSHA', []).catch(() => undefined);
}

describe('a server of the store', () => {
  test('is not up before it has said what it is', async () => {
    const answers: ((version: string) => void)[] = [];
    link.reply = async () => new Promise((resolve) => answers.push(resolve));
    const node = openNode();
    await vi.advanceTimersByTimeAsync(1000);
    expect(node.health()).toMatchObject({ status: 'down', detail: 'connected, but without an answer yet' });

    for (const answer of answers) answer(VERSION);
    await vi.advanceTimersByTimeAsync(0);

    expect(node.health()).toMatchObject({ status: 'up', detail: 'answers' });
    await node.close();
  });

  test('that only watches others is asked for nothing but an answer', async () => {
    const node = openNode(false);
    await vi.advanceTimersByTimeAsync(0);

    expect(link.sent).toEqual([]);
    expect(node.health().status).toBe('up');
    await node.close();
  });

  test('whose connection is lost is down from that moment, however many calls fail or attempts are made', async () => {
    const node = openNode();
    await vi.advanceTimersByTimeAsync(1000);
    link.find();
    await vi.advanceTimersByTimeAsync(1000);
    link.lose('read ECONNRESET');
    link.reply = async () => Promise.reject(new Error('read ECONNRESET'));
    await fail(node, 1);
    await vi.advanceTimersByTimeAsync(1000);
    link.lose('connect ECONNREFUSED');

    expect(node.health()).toMatchObject({
      status: 'down',
      since: '1970-01-01T00:00:02.000Z',
      lastError: expect.stringContaining('connect ECONNREFUSED'),
    });
    await node.close();
  });

  test('that has become a replica gets a new connection with the first answer that says so', async () => {
    const node = openNode();
    link.reply = async () =>
      Promise.reject(new Error("READONLY You can't write against a read only replica."));

    await fail(node, 1);

    expect(link.done).toEqual([expect.stringMatching(/^renew: .*READONLY/)]);
    await node.close();
  });

  test('that stays silent gets a new connection when a probe shows it, not before', async () => {
    const node = openNode();
    link.reply = async () => new Promise(() => undefined);
    for (let call = 0; call < 5; call += 1) {
      const failure = fail(node, 1);
      await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
      await failure;
    }
    expect(node.health().status).toBe('down');
    expect(link.done).toEqual([]);

    await vi.advanceTimersByTimeAsync(500 + TIMEOUT_MS);

    expect(link.done).toEqual([expect.stringMatching(/^renew: .*did not answer/)]);
    await node.close();
  });

  test('that is left lets calls that are under way end first', async () => {
    const node = openNode();
    await vi.advanceTimersByTimeAsync(0);
    link.reply = async () => new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS - 1, 'decided'));
    const underWay = node.send('{k}', 'EVALSHA', []);

    node.retire();
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1);
    expect(link.done).toEqual([]);

    await vi.advanceTimersByTimeAsync(1);
    expect(await underWay).toBe('decided');
    expect(link.done).toEqual(['close']);
  });
});
