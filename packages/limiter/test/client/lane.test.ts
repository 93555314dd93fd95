import { expect, test } from 'vitest';
import type { AnnouncedLimits, AnnouncedQuota } from '../../src/client/index.ts';
import type { Passage } from '../../src/client/gate.ts';
import { WaitingRoom } from '../../src/client/gate.ts';
import { Lane } from '../../src/client/lane.ts';
import { Timeline } from './timeline.ts';

const SHARE = 0.25;
const MINUTE_MS = 60_000;

/** A lane, and what happens in it, one thing after the other. */
class Traffic {
  readonly time = new Timeline();
  readonly lane = new Lane({ nowMs: () => this.time.clock() / 1000, sleep: this.time.sleep }, SHARE);
  private readonly room = new WaitingRoom(100);
  private arrivals = 0;

  /** Somebody who goes right now. */
  async send(): Promise<Passage> {
    const passage = await this.enter();
    if (this.time.nowMs() > 0) throw new Error('had to wait');
    return passage;
  }

  /** How long somebody has to wait who comes now, with a minute of patience. */
  async waitMs(): Promise<number> {
    await this.enter();
    return this.time.nowMs();
  }

  private enter(): Promise<Passage> {
    this.arrivals += 1;
    return this.lane.enter({
      arrival: this.arrivals,
      notBeforeMs: -Infinity,
      deadlineMs: this.time.clock() / 1000 + MINUTE_MS,
      signal: undefined,
      place: this.room.place(),
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
  first.arrived(says({ remaining: 50 }), undefined);
  const [second, third] = [await traffic.send(), await traffic.send()];

  second.arrived(says({ remaining: 0 }), undefined);
  third.arrived(says({ remaining: 99 }), undefined);

  expect(await traffic.waitMs()).toBe(0);
});

test('an older answer that is overtaken counts only when it leaves less', async () => {
  for (const [older, newer, waitMs] of [
    [0, 99, 10_000],
    [99, 0, 10_000],
    [98, 99, 0],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).arrived(says({}), undefined);
    const [second, third] = [await traffic.send(), await traffic.send()];

    third.arrived(says({ remaining: newer }), undefined);
    second.arrived(says({ remaining: older }), undefined);

    expect(await traffic.waitMs()).toBe(waitMs);
  }
});

test('an overtaken answer that leaves less does not make an even older one newer', async () => {
  const traffic = new Traffic();
  (await traffic.send()).arrived(says({}), undefined);
  const [second, third, fourth] = [await traffic.send(), await traffic.send(), await traffic.send()];

  fourth.arrived(says({ remaining: 50 }), undefined);
  second.arrived(says({ remaining: 0 }), undefined);
  third.arrived(says({ remaining: 99 }), undefined);

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
    (await traffic.send()).arrived(says(...known), undefined);
    (await traffic.send()).arrived(says({ policy, remaining: 0 }), undefined);

    expect(await traffic.waitMs()).toBe(waitMs);
  }
});

test('what is over makes room for new policies', async () => {
  const traffic = new Traffic();
  const names = Array.from({ length: 32 }, (_, at) => ({ policy: `p${at}`, resetAfterMs: 1000 }));
  const [first, second] = [await traffic.send(), traffic.send()];
  first.arrived(says(...names), undefined);
  const passage = await second;

  traffic.time.clock.advance('1s');
  passage.arrived(says({ policy: 'another', remaining: 0 }), undefined);

  expect(await traffic.waitMs()).toBe(11_000);
});

test('a policy is another one under another partition key', async () => {
  const traffic = new Traffic();
  (await traffic.send()).arrived(says({ remaining: 0, partitionKey: 'YQ==' }), undefined);
  const waiting = traffic.waitMs();
  expect(await waiting).toBe(10_000);

  const other = new Traffic();
  (await other.send()).arrived(says({ partitionKey: 'YQ==' }), undefined);
  const [second, third] = [await other.send(), await other.send()];
  second.arrived(says({ remaining: 0, partitionKey: 'YQ==' }), undefined);
  third.arrived(says({ remaining: 100, partitionKey: 'Yg==' }), undefined);

  expect(await other.waitMs()).toBe(10_000);
});

test('of two holds the longer one counts', async () => {
  for (const holds of [
    [3000, 5000],
    [5000, 3000],
  ] as const) {
    const traffic = new Traffic();
    (await traffic.send()).arrived(says({}), undefined);
    const [second, third] = [await traffic.send(), await traffic.send()];
    second.arrived(says({}), holds[0]);
    third.arrived(says({}), holds[1]);

    expect(await traffic.waitMs()).toBe(5000);
  }
});

test('a lane is idle when nobody waits and nothing is on the way', async () => {
  const traffic = new Traffic();
  expect(traffic.lane.isIdle()).toBe(true);
  const passage = await traffic.send();
  expect(traffic.lane.isIdle()).toBe(false);

  passage.arrived(says({ remaining: 0 }), undefined);
  expect(traffic.lane.isIdle()).toBe(true);
  const waiting = traffic.waitMs();
  expect(traffic.lane.isIdle()).toBe(false);

  await waiting;
  expect(traffic.lane.isIdle()).toBe(false);
});

test('an answer that never came tells nothing, but is not on the way any more', async () => {
  const traffic = new Traffic();
  (await traffic.send()).arrived(undefined, undefined);

  expect(traffic.lane.isIdle()).toBe(true);
  expect(await traffic.waitMs()).toBe(0);
});
