// Hits that Envoy gives back (`is_negative_hits`).
import { createLimiter, fixedWindow } from 'spillgate';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../../../../test/redis/servers.ts';
import { chargeAll, RefundLedger } from '../../src/service/rls/charges.ts';
import { askRls, descriptor, type Descriptor } from './rls-client.ts';
import { codesOf, OK } from './rls-files.ts';
import { startTestService } from './running-service.ts';

const LIMIT = 5;

function configuration(redisPort: number | undefined, rls = 'refunds: true'): string {
  // A busy machine may take longer than the defaults.
  const redis =
    redisPort === undefined ? '' : `redis: { endpoints: ["127.0.0.1:${redisPort}"], read_timeout: 10s }`;
  return `
${redis}
rate_limit:
  deadline: 10s
  policies:
    window: { algorithm: fixedWindow, quota: ${LIMIT}, window: 1d }
    log: { algorithm: slidingWindowLog, quota: ${LIMIT}, window: 1d }
    counter: { algorithm: slidingWindowCounter, quota: ${LIMIT}, window: 1d }
    bucket: { algorithm: tokenBucket, average: 1, burst: ${LIMIT}, period: 1d }
service:
  rls:
    ${rls}
    descriptors:
      - { domain: shop, entries: [{ key: window }], policies: [window] }
      - { domain: shop, entries: [{ key: log }], policies: [log] }
      - { domain: shop, entries: [{ key: counter }], policies: [counter] }
      - { domain: shop, entries: [{ key: bucket }], policies: [bucket] }
      - { domain: shop, entries: [{ key: both }], policies: [window, log] }
`;
}

interface Hits {
  /** Whether they were admitted. */
  readonly take: (text: string, hits: number) => Promise<boolean>;
  /** What is left afterwards. */
  readonly giveBack: (text: string, hits: number) => Promise<number>;
  readonly ask: (...descriptors: readonly Descriptor[]) => Promise<unknown>;
}

async function startHits(redisPort?: number, rls?: string): Promise<Hits> {
  const { port } = await startTestService(configuration(redisPort, rls));
  const ask = async (...descriptors: readonly Descriptor[]): Promise<unknown> =>
    askRls(port, { descriptors });
  return {
    ask,
    take: async (text, hits) => codesOf(await ask(descriptor(text, { hitsAddend: BigInt(hits) }))) === OK,
    giveBack: async (text, hits) => {
      const answer = await ask(descriptor(text, { hitsAddend: BigInt(hits), isNegativeHits: true }));
      expect(codesOf(answer)).toBe(OK);
      return remainingIn(answer);
    },
  };
}

function remainingIn(answer: unknown): number {
  const { statuses } = answer as { readonly statuses: readonly { readonly limitRemaining?: number }[] };
  return statuses[0]?.limitRemaining ?? 0;
}

async function startedRedis(): Promise<number> {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  return redis.port;
}

describe.each([
  ['in memory', async () => undefined],
  ['in Redis', startedRedis],
])('hits are given back %s', (_, portOf) => {
  test.each(['window', 'log', 'counter', 'bucket'])('to a %s: what was charged, and once', async (policy) => {
    const { take, giveBack } = await startHits(await portOf());
    const ann = `${policy}=ann`;

    expect(await take(ann, LIMIT)).toBe(true);
    expect(await take(ann, 1)).toBe(false);
    expect(await giveBack(ann, 3)).toBe(3);
    expect(await take(ann, 4)).toBe(false);
    expect(await take(ann, 3)).toBe(true);
    // The charge of 5 has had its refund: only that of 3 is left.
    expect(await giveBack(ann, LIMIT)).toBe(3);
    expect(await giveBack(ann, LIMIT)).toBe(3);
  });

  test('never to somebody who has paid nothing, nor for somebody else', async () => {
    const { take, giveBack } = await startHits(await portOf());
    await take('window=ann', 4);

    expect(await giveBack('window=bob', 100)).toBe(LIMIT);
    expect(await take('window=bob', LIMIT + 1)).toBe(false);
    expect(await giveBack('log=ann', 100)).toBe(LIMIT);
    expect(await giveBack('window=ann', 0)).toBe(1);
    expect(await take('window=ann', 2)).toBe(false);
  });

  test('to all descriptors that were charged together', async () => {
    const { ask, take } = await startHits(await portOf());
    const both = (more: Readonly<Record<string, unknown>>): readonly Descriptor[] => [
      descriptor('window=ann', more),
      descriptor('log=ann', more),
    ];
    await ask(...both({ hitsAddend: 4n }));

    const answer = await ask(...both({ hitsAddend: 2n, isNegativeHits: true }));

    expect(answer).toMatchObject({
      overallCode: 'OK',
      statuses: [{ limitRemaining: 3 }, { limitRemaining: 3 }],
    });
    expect([await take('window=ann', 4), await take('log=ann', 4)]).toEqual([false, false]);
    expect([await take('window=ann', 3), await take('log=ann', 3)]).toEqual([true, true]);
  });

  test('to one of two descriptors that were charged different hits in one step', async () => {
    const { ask, giveBack, take } = await startHits(await portOf());
    await ask(descriptor('window=ann', { hitsAddend: 1n }), descriptor('log=ann', { hitsAddend: 4n }));

    expect(await giveBack('log=ann', 3)).toBe(4);
    expect(await giveBack('log=ann', 3)).toBe(4);
    expect(await giveBack('window=ann', 1)).toBe(LIMIT);
    expect([await take('window=ann', LIMIT), await take('log=ann', LIMIT)]).toEqual([true, false]);
  });

  test('beside hits that are charged', async () => {
    const { ask, take } = await startHits(await portOf());
    await take('window=ann', LIMIT);
    await take('log=ann', LIMIT);

    const answer = await ask(
      descriptor('window=ann', { hitsAddend: 2n, isNegativeHits: true }),
      descriptor('log=ann'),
    );

    expect(answer).toMatchObject({
      overallCode: 'OVER_LIMIT',
      statuses: [{ code: 'OK', limitRemaining: 2 }, { code: 'OVER_LIMIT' }],
    });
  });

  test('by many at once: exactly what was charged', async () => {
    const { take, giveBack } = await startHits(await portOf());
    const ones = Array.from({ length: LIMIT }, async () => take('window=ann', 1));
    expect(await Promise.all(ones)).not.toContain(false);

    await Promise.all(Array.from({ length: 20 }, async () => giveBack('window=ann', 1)));

    expect(await giveBack('window=ann', 1)).toBe(LIMIT);
    expect(await take('window=ann', LIMIT)).toBe(true);
    expect(await take('window=ann', 1)).toBe(false);
  });
});

test('a process gives back only what it has charged itself', async () => {
  const port = await startedRedis();
  const [one, other] = [await startHits(port), await startHits(port)];
  await one.take('window=ann', 4);

  expect(await other.giveBack('window=ann', 4)).toBe(1);
  expect(await one.giveBack('window=ann', 4)).toBe(LIMIT);
});

test.each([
  ['compat: exact', '12'],
  // Every mistake has the status that the reference server gives it.
  ['refunds: true\n    compat: strict', '2'],
])('needs the setting, and to count exactly: %s', async (rls, status) => {
  const { ask } = await startHits(undefined, rls);

  expect(await ask(descriptor('window=ann', { isNegativeHits: true }))).toBe(
    `${status}: descriptor 0 gives hits back, which needs service.rls.refunds: true and compat: exact`,
  );
});

test('a request that meets too many limits gives nothing back', async () => {
  const { take, giveBack, ask } = await startHits();
  await take('window=ann', LIMIT);
  const more = { isNegativeHits: true };
  const others = Array.from({ length: 31 }, (_, at) => descriptor(`both=user${at}`, more));

  expect(await ask(descriptor('window=ann', more), ...others)).toBe(
    '3: the descriptors meet 63 limits; expected at most 32',
  );
  expect(await giveBack('window=ann', 0)).toBe(0);
});

test('at most 64 charges of the same limits are remembered', async () => {
  const limiter = createLimiter();
  onTestFinished(() => limiter.close());
  const refunds = new RefundLedger();
  const limits = [fixedWindow({ name: 'window', quota: 100, window: '1d' }).for('ann')];
  for (let count = 0; count < 70; count += 1)
    await chargeAll(
      limits.map((limit) => ({ limit, cost: 1 })),
      { limiter, refunds },
    );

  await refunds.giveBack(limits, 70);

  expect((await limiter.peek(limits)).remaining).toBe(94);
});
