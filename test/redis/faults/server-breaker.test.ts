import type { Command } from '#limiter/stores/redis/script.js';
import { RedisNode } from '#limiter/stores/redis/redis-node.js';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { FakeConnection } from './fake-connection.ts';

const TIMEOUT_MS = 50;
const CALL: Command = { key: '{k}', name: 'GET', args: ['{k}'] };

let events: string[];
let probes: number[];
/** What the next calls and probes meet. */
let reply: () => Promise<unknown>;
let probe: () => Promise<unknown>;
let connection: FakeConnection;
let server: RedisNode;

beforeEach(async () => {
  vi.useFakeTimers({ now: 0 });
  // The longest pauses that chance allows.
  vi.spyOn(Math, 'random').mockReturnValue(1);
  events = [];
  probes = [];
  probe = refused('BUSY Redis is busy running a script.');
  connection = new FakeConnection();
  server = openNode();
  await vi.advanceTimersByTimeAsync(0);
});

afterEach(async () => {
  await server.close();
  vi.useRealTimers();
});

function openNode(): RedisNode {
  const introduce = connection.reply;
  connection.reply = (command) => {
    if (command.name === 'GET') return reply();
    // A script without keys only shows that scripts run.
    if (command.name !== 'EVALSHA' || command.args[1] === '0') return introduce(command);
    probes.push(Date.now());
    return probe();
  };
  return new RedisNode(connection, {
    timeoutMs: () => TIMEOUT_MS,
    observe: (event) => {
      if (event.type === 'nodeDown') events.push('open');
      if (event.type === 'nodeUp') events.push(`close after ${event.afterMs} ms`);
    },
    probeKey: (key) => key,
  });
}

function isDown(): boolean {
  return server.health().status === 'down';
}

function refused(message: string): () => Promise<never> {
  return async () => Promise.reject(new Error(message));
}

const lost = refused('read ECONNRESET');
const answered = async (): Promise<string> => 'OK';
const silent = async (): Promise<never> => new Promise(() => undefined);

/** Runs calls one after the other and answers what became of the last one. */
async function run(...calls: readonly (() => Promise<unknown>)[]): Promise<unknown> {
  let outcome: unknown;
  for (const call of calls) {
    reply = call;
    const result = server.call(CALL).catch((error: unknown) => error);
    if (call === silent) await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    outcome = await result;
  }
  return outcome;
}

describe('a breaker', () => {
  test('opens after five failures in a row, and then refuses at once and with the reason', async () => {
    await run(lost, lost, lost, lost);
    expect(server.health()).toMatchObject({ status: 'degraded', since: new Date(0).toISOString() });

    await run(lost);
    const call = vi.fn<() => Promise<string>>(answered);
    const refusal = await run(call);

    expect(server.health()).toMatchObject({ status: 'down', since: new Date(0).toISOString() });
    expect(events).toEqual(['open']);
    expect(call).not.toHaveBeenCalled();
    expect(refusal).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(String(refusal)).toMatch(
      /redis 10\.0\.0\.1:6379 is down; .* redis 10\.0\.0\.1:6379 could not decide: read ECONNRESET/,
    );
  });

  test('forgets failures when there is an answer in between, also one that redirects', async () => {
    await run(lost, silent, lost, lost, answered, lost, lost, lost, lost);
    await run(refused('MOVED 7 10.0.0.1:6379'));

    expect(server.health().status).toBe('up');
    expect(events).toEqual([]);
  });

  test('counts refusals whatever is answered in between: a server that cannot write still reads', async () => {
    const full = refused("OOM command not allowed when used memory > 'maxmemory'.");
    await run(full, answered, full, answered, full, answered, full, answered);
    expect(server.health()).toMatchObject({ status: 'degraded', since: new Date(0).toISOString() });

    await run(full);

    expect(server.health()).toMatchObject({ status: 'down', since: new Date(0).toISOString() });
  });

  test('finds out by itself that a server no longer refuses, although nobody asks', async () => {
    await run(refused('NOREPLICAS Not enough good replicas to write.'));
    probe = answered;

    await vi.advanceTimersByTimeAsync(1000);

    expect(server.health().status).toBe('up');
    expect(events).toEqual([]);
  });

  test('probes soon, then every 1 to 1.5 s for as long as it takes, and closes with the first answer', async () => {
    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(99_000);
    const pauses = probes.map((at, index) => at - (probes[index - 1] ?? 0));
    expect(pauses.slice(0, 7)).toEqual([75, 150, 300, 600, 1200, 1500, 1500]);
    expect(new Set(pauses.slice(5))).toEqual(new Set([1500]));
    const before = probes.length;

    probe = answered;
    await vi.advanceTimersByTimeAsync(1500);

    expect(server.health().status).toBe('up');
    expect(events.at(-1)).toMatch(/^close after \d+ ms$/);
    expect(await run(answered)).toBe('OK');
    await vi.advanceTimersByTimeAsync(100_000);
    expect(probes).toHaveLength(before + 1);
  });

  test('never probes more often than once a second in a steady outage, whatever chance says', async () => {
    vi.mocked(Math.random).mockReturnValue(0);

    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(20_000);

    const pauses = probes.map((at, index) => at - (probes[index - 1] ?? 0));
    expect(pauses.slice(0, 5)).toEqual([50, 100, 200, 400, 800]);
    expect(new Set(pauses.slice(5))).toEqual(new Set([1000]));
  });

  test('spreads probes by chance', async () => {
    vi.mocked(Math.random).mockReturnValueOnce(0.5).mockReturnValueOnce(0.1);

    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(200);

    expect(probes).toEqual([62, 167]);
  });

  test('probes at once when there is a new connection, and an answer that comes late delays no probe', async () => {
    let answerLate: (value: unknown) => void = () => undefined;
    const late = async () => new Promise((resolve) => (answerLate = resolve));
    reply = late;
    const pending = server.call(CALL).catch(() => undefined);
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    await pending;
    await run(lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(1500);
    const before = probes.length;

    probe = answered;
    server.probeNow();
    answerLate('OK');
    await vi.advanceTimersByTimeAsync(0);

    expect(probes).toHaveLength(before + 1);
    expect(events.at(-1)).toMatch(/^close/);
  });

  test('takes an answer that comes late as a sign of life, at most once a second', async () => {
    const late: ((value: unknown) => void)[] = [];
    reply = async () => new Promise((resolve) => late.push(resolve));
    const pending = Array.from({ length: 5 }, () => server.call(CALL).catch(() => undefined));
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    await Promise.all(pending);
    await vi.advanceTimersByTimeAsync(4000);
    const before = probes.length;

    for (const resolve of late) resolve('OK');
    await vi.advanceTimersByTimeAsync(999);

    expect(probes.length - before).toBe(1);
  });

  test('sends one probe at a time, and gives up a connection on which they stay without an answer', async () => {
    probe = silent;
    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(525);
    expect(probes).toEqual([75, 225, 525]);
    expect(connection.done).toEqual([]);
    server.probeNow();
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1);
    expect(probes).toHaveLength(3);

    probe = answered;
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);

    expect(events).toEqual(['open', 'close after 575 ms']);
    expect(connection.done).toEqual([`renew: redis 10.0.0.1:6379 did not answer within ${TIMEOUT_MS} ms.`]);
  });

  test('is opened by a reason that no call has met, and tells the newest reason', async () => {
    connection.reply = async ({ name }) => (name === 'INFO' ? 'redis_version:4.0.14' : 'OK');
    connection.find();
    await vi.advanceTimersByTimeAsync(0);
    expect(isDown()).toBe(true);
    expect(await run(answered)).toMatchObject({ code: 'STORE_MISCONFIGURED' });

    connection.lose('connect ECONNREFUSED');

    expect(String(await run(answered))).toContain('connect ECONNREFUSED');
  });

  test('does nothing any more when it is closed', async () => {
    await run(lost, lost, lost, lost, lost);
    await server.close();
    server.probeNow();

    await vi.advanceTimersByTimeAsync(100_000);

    expect(probes).toEqual([]);
  });
});
