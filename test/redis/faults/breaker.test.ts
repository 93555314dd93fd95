import { Breaker, type BreakerOptions } from '#limiter/stores/redis/breaker.js';
import { LimiterError } from 'spillgate';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

const TIMEOUT_MS = 50;

let events: string[];
let probes: number[];
/** What the next probes meet. */
let probe: () => Promise<unknown>;
let breaker: Breaker;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  // The longest pauses that chance allows.
  vi.spyOn(Math, 'random').mockReturnValue(1);
  events = [];
  probes = [];
  probe = refused('BUSY Redis is busy running a script.');
  breaker = open();
});

afterEach(() => {
  breaker.close();
  vi.useRealTimers();
});

function open(options: Partial<BreakerOptions> = {}): Breaker {
  return new Breaker({
    name: 'redis test',
    timeoutMs: TIMEOUT_MS,
    probe: () => {
      probes.push(Date.now());
      return probe();
    },
    onFailedProbe: ({ message }) => events.push(`failed: ${message}`),
    onOpen: () => events.push('open'),
    onClose: (afterMs) => events.push(`close after ${afterMs} ms`),
    ...options,
  });
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
    const result = breaker.run(call).catch((error: unknown) => error);
    if (call === silent) await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    outcome = await result;
  }
  return outcome;
}

describe('a breaker', () => {
  test('opens after five failures in a row, and then refuses at once and with the reason', async () => {
    await run(lost, lost, lost, lost);
    expect(breaker).toMatchObject({ downSince: undefined, failingSince: 0 });

    await run(lost);
    const call = vi.fn<() => Promise<string>>(answered);
    const refusal = await run(call);

    expect(breaker.downSince).toBe(0);
    expect(events).toEqual(['open']);
    expect(call).not.toHaveBeenCalled();
    expect(refusal).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(String(refusal)).toMatch(/redis test is down; .* redis test could not decide: read ECONNRESET/);
  });

  test('forgets failures when there is an answer in between, also one that redirects', async () => {
    await run(lost, silent, lost, lost, answered, lost, lost, lost, lost);
    await run(refused('MOVED 7 10.0.0.1:6379'));

    expect(breaker).toMatchObject({ downSince: undefined, failingSince: undefined });
    expect(events).toEqual([]);
  });

  test('counts refusals whatever is answered in between: a server that cannot write still reads', async () => {
    const full = refused("OOM command not allowed when used memory > 'maxmemory'.");
    await run(full, answered, full, answered, full, answered, full, answered);
    expect(breaker).toMatchObject({ downSince: undefined, failingSince: 0 });

    await run(full);

    expect(breaker.downSince).toBe(0);
  });

  test('finds out by itself that a server no longer refuses, although nobody asks', async () => {
    await run(refused('NOREPLICAS Not enough good replicas to write.'));
    probe = answered;

    await vi.advanceTimersByTimeAsync(1000);

    expect(breaker.failingSince).toBeUndefined();
    expect(events).toEqual([]);
  });

  test('probes after at most 1 s, then with pauses that double up to 30 s, and closes with the first answer', async () => {
    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(100_000);
    const pauses = probes.map((at, index) => at - (probes[index - 1] ?? 0));
    expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);

    probe = answered;
    await vi.advanceTimersByTimeAsync(30_000);

    expect(breaker).toMatchObject({ downSince: undefined, failingSince: undefined });
    expect(events.at(-1)).toBe('close after 121000 ms');
    expect(await run(answered)).toBe('OK');
    await vi.advanceTimersByTimeAsync(100_000);
    expect(probes).toHaveLength(8);
  });

  test('spreads probes by full jitter', async () => {
    vi.mocked(Math.random).mockReturnValueOnce(0.25).mockReturnValueOnce(0.01);

    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(300);

    expect(probes).toEqual([250, 270]);
  });

  test('probes at once when there is a new connection, and an answer that comes late delays no probe', async () => {
    let answerLate: (value: unknown) => void = () => undefined;
    const late = async () => new Promise((resolve) => (answerLate = resolve));
    const pending = breaker.run(late).catch(() => undefined);
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    await pending;
    await run(lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(1500);
    const before = probes.length;

    probe = answered;
    breaker.probeNow();
    answerLate('OK');
    await vi.advanceTimersByTimeAsync(0);

    expect(probes).toHaveLength(before + 1);
    expect(events.at(-1)).toMatch(/^close/);
  });

  test('takes an answer that comes late as a sign of life, at most once a second', async () => {
    const late: ((value: unknown) => void)[] = [];
    const pending = Array.from({ length: 5 }, () =>
      breaker.run(async () => new Promise((resolve) => late.push(resolve))).catch(() => undefined),
    );
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);
    await Promise.all(pending);
    await vi.advanceTimersByTimeAsync(4000);
    const before = probes.length;

    for (const resolve of late) resolve('OK');
    await vi.advanceTimersByTimeAsync(999);

    expect(probes.length - before).toBe(1);
  });

  test('sends one probe at a time, and reports one that stays without an answer', async () => {
    probe = silent;
    await run(lost, lost, lost, lost, lost);
    await vi.advanceTimersByTimeAsync(1000);
    breaker.probeNow();
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1);
    expect(probes).toEqual([1000]);

    probe = answered;
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS);

    expect(events).toEqual([
      'open',
      `failed: redis test did not answer within ${TIMEOUT_MS} ms.`,
      'close after 1050 ms',
    ]);
  });

  test('is opened by a reason that no call has met, and tells the newest reason', async () => {
    breaker.open(new LimiterError('STORE_MISCONFIGURED', 'too old'));
    expect(breaker.downSince).toBe(0);
    expect(await run(answered)).toMatchObject({ code: 'STORE_MISCONFIGURED' });

    breaker.explain(new Error('connect ECONNREFUSED'));

    expect(String(await run(answered))).toContain('connect ECONNREFUSED');
  });

  test('does nothing any more when it is closed', async () => {
    await run(lost, lost, lost, lost, lost);
    breaker.close();
    breaker.probeNow();

    await vi.advanceTimersByTimeAsync(100_000);

    expect(probes).toEqual([]);
  });
});
