import { expect, test } from 'vitest';
import type { AnnouncedLimits, AnnouncedQuota } from '../../src/client/index.ts';
import { WaitSlots } from '../../src/client/wait-slots.ts';
import { Pacer, type SentRequest } from '../../src/client/pacer.ts';
import { Timeline } from './timeline.ts';

const SHARE = 0.25;
const MINUTE_MS = 60_000;

/** A pacer, and what happens in it, one thing after the other. */
class Traffic {
  readonly time = new Timeline();
  readonly pacer = new Pacer({ nowMs: () => this.time.clock() / 1000, sleep: this.time.sleep }, SHARE);
  private readonly waitSlots = new WaitSlots(100);
  private arrivals = 0;

  /** Somebody who goes right now. */
  async send(): Promise<SentRequest> {
    const sent = await this.waitToSend();
    if (this.time.nowMs() > 0) throw new Error('had to wait');
    return sent;
  }

  /** How long somebody has to wait who comes now, with a minute of patience. */
  async waitMs(): Promise<number> {
    await this.waitToSend();
    return this.time.nowMs();
  }

  private waitToSend(): Promise<SentRequest> {
    this.arrivals += 1;
    return this.pacer.waitToSend({
      arrival: this.arrivals,
      notBeforeMs: -Infinity,
      deadlineMs: this.time.clock() / 1000 + MINUTE_MS,
      signal: undefined,
      slot: this.waitSlots.slot(),
    });
  }
}

function says(...quotas: readonly Partial<AnnouncedQuota>[]): AnnouncedLimits {
  const usual = { policy: 'api', partitionKey: undefined, remaining: 100, resetAfterMs: 10_000, limit: 100 };
  return { retryAfterMs: undefined, quotas: quotas.map((quota) => ({ ...usual, ...quota })) };
}

test('a newer answer replaces an older one, also with more', async () => {
  const traffic = new Traffic();
  const first = await traffic.send();
  first.answered(says({ remaining: 50 }), undefined);
  const [second, third] = [await traffic.send(), await traffic.send()];

  second.answered(says({ remaining: 0 }), undefined);
  third.answered(says({ remaining: 99 }), undefined);

  expect(await traffic.waitMs()).toBe(0);
});

test('an older answer that is overtaken counts only when it leaves less', async () => {
  for (const [older, newer, waitMs] of [
    [0, 99, 10_000],
    [99, 0, 10_000],
    [98, 99, 0],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).answered(says({}), undefined);
    const [second, third] = [await traffic.send(), await traffic.send()];

    third.answered(says({ remaining: newer }), undefined);
    second.answered(says({ remaining: older }), undefined);

    expect(await traffic.waitMs()).toBe(waitMs);
  }
});

test('an overtaken answer that leaves less does not make an even older one newer', async () => {
  const traffic = new Traffic();
  (await traffic.send()).answered(says({}), undefined);
  const [second, third, fourth] = [await traffic.send(), await traffic.send(), await traffic.send()];

  fourth.answered(says({ remaining: 50 }), undefined);
  second.answered(says({ remaining: 0 }), undefined);
  third.answered(says({ remaining: 99 }), undefined);

  expect(await traffic.waitMs()).toBe(10_000);
});

test('32 policies are remembered, known ones also beyond that', async () => {
  const names = Array.from({ length: 32 }, (_, at) => ({ policy: `p${at}` }));
  for (const [known, policy, waitMs] of [
    [names.slice(0, 31), 'another', 10_000],
    [names, 'another', 0],
    [names, 'p31', 10_000],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).answered(says(...known), undefined);
    (await traffic.send()).answered(says({ policy, remaining: 0 }), undefined);

    expect(await traffic.waitMs()).toBe(waitMs);
  }
});

test('what is over makes waitSlots for new policies', async () => {
  const traffic = new Traffic();
  const names = Array.from({ length: 32 }, (_, at) => ({ policy: `p${at}`, resetAfterMs: 1000 }));
  const [first, second] = [await traffic.send(), traffic.send()];
  first.answered(says(...names), undefined);
  const sent = await second;

  traffic.time.clock.advance('1s');
  sent.answered(says({ policy: 'another', remaining: 0 }), undefined);

  expect(await traffic.waitMs()).toBe(11_000);
});

test('a policy is another one under another partition key', async () => {
  const traffic = new Traffic();
  (await traffic.send()).answered(says({ remaining: 0, partitionKey: 'YQ==' }), undefined);
  const waiting = traffic.waitMs();
  expect(await waiting).toBe(10_000);

  const other = new Traffic();
  (await other.send()).answered(says({ partitionKey: 'YQ==' }), undefined);
  const [second, third] = [await other.send(), await other.send()];
  second.answered(says({ remaining: 0, partitionKey: 'YQ==' }), undefined);
  third.answered(says({ remaining: 100, partitionKey: 'Yg==' }), undefined);

  expect(await other.waitMs()).toBe(10_000);
});

test('of two holds the longer one counts', async () => {
  for (const holds of [
    [3000, 5000],
    [5000, 3000],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).answered(says({}), undefined);
    const [second, third] = [await traffic.send(), await traffic.send()];
    second.answered(says({}), holds[0]);
    third.answered(says({}), holds[1]);

    expect(await traffic.waitMs()).toBe(5000);
  }
});

test('a pacer is idle when nobody waits and nothing is on the way', async () => {
  const traffic = new Traffic();
  expect(traffic.pacer.isIdle()).toBe(true);
  const sent = await traffic.send();
  expect(traffic.pacer.isIdle()).toBe(false);

  sent.answered(says({ remaining: 0 }), undefined);
  expect(traffic.pacer.isIdle()).toBe(true);
  const waiting = traffic.waitMs();
  expect(traffic.pacer.isIdle()).toBe(false);

  await waiting;
  expect(traffic.pacer.isIdle()).toBe(false);
});

test('an answer that never came tells nothing, but is not on the way any more', async () => {
  const traffic = new Traffic();
  (await traffic.send()).answered(undefined, undefined);

  expect(traffic.pacer.isIdle()).toBe(true);
  expect(await traffic.waitMs()).toBe(0);
});

/** When three go who come together, if none of them ever gets an answer. */
function threeTogether(traffic: Traffic): Promise<number[]> {
  return Promise.all([traffic.waitMs(), traffic.waitMs(), traffic.waitMs()]);
}

test.each<[string, AnnouncedLimits, readonly number[]]>([
  ['nothing about limits', says(), [0, 0, 0]],
  ['of a quota without a time', says({ resetAfterMs: undefined, remaining: 1 }), [0, 0, 0]],
  ['of a quota that is over', says({ resetAfterMs: 0, remaining: 0 }), [0, 0, 0]],
  ['of enough', says({ remaining: 100 }), [0, 0, 0]],
  ['of one that is left', says({ remaining: 1, limit: 1 }), [0, 10_000, 11_000]],
])('how three go after an answer that speaks %s', async (_, limits, times) => {
  const traffic = new Traffic();
  (await traffic.send()).answered(limits, undefined);

  expect(await threeTogether(traffic)).toEqual(times);
});

test('while nobody knows anything, one goes and the next waits a second for its answer', async () => {
  expect(await threeTogether(new Traffic())).toEqual([0, 1000, 2000]);
});

test('after a refusal that says only when to come back, one goes ahead then', async () => {
  const traffic = new Traffic();
  (await traffic.send()).answered(says(), 5000);

  expect(await threeTogether(traffic)).toEqual([5000, 6000, 7000]);
});

test('those who would be refused for longer than they may wait go one at a time', async () => {
  const traffic = new Traffic();
  (await traffic.send()).answered(says({ remaining: 0, resetAfterMs: 3_600_000 }), undefined);

  expect(await threeTogether(traffic)).toEqual([0, 1000, 2000]);
});

test('of two words about one policy in one answer the tighter one counts', async () => {
  for (const remaining of [
    [0, 100],
    [100, 0],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).answered(
      says({ remaining: remaining[0] }, { remaining: remaining[1] }),
      undefined,
    );

    expect(await traffic.waitMs()).toBe(10_000);
  }
});
