import { expect, test } from 'vitest';
import type { Limit } from '../../src/limit.ts';
import { fixedWindow, slidingWindowCounter, slidingWindowLog, tokenBucket } from '../../src/policy.ts';
import { memoryStore } from '../../src/stores/memory-store.ts';
import { DenialCache } from '../../src/stores/local/denial-cache.ts';
import { StoreClock } from '../../src/stores/local/store-clock.ts';
import { seededRandom } from '../../src/testing/random.ts';

const START_US = 1_000_000_000;
const bucket = tokenBucket({ name: 'api', average: 10, burst: 5, period: '1s' });
const ann = bucket.for('ann');
const DENIED = { allowed: false, remaining: 0, retryAfterUs: 100_000, resetAfterUs: 500_000, delayUs: 0 };
const AT_ONCE = new StoreClock().heard({ storeUs: START_US, sentUs: 0, heardUs: 0 });

function afterDenial(cost = 1, limits: readonly Limit[] = [ann]): DenialCache {
  const cache = new DenialCache();
  cache.note(
    limits,
    cost,
    limits.map(() => DENIED),
    AT_ONCE,
  );
  return cache;
}

test('a denial is repeated until its wait is over, with the wait that is left', () => {
  const [verdict] = afterDenial().repeat([ann], 1, 60_000) ?? [];

  expect(verdict).toMatchObject({ allowed: false, remaining: 0, local: 'denialCache' });
  expect(verdict?.retryAfterUs).toBeGreaterThanOrEqual(40_000);
  expect(verdict?.retryAfterUs).toBeLessThanOrEqual(40_014); // 200 millionths of 60 ms, rounded up
});

test('the store is asked when the wait may be over', () => {
  expect(afterDenial().repeat([ann], 1, 100_000)).toBeUndefined();
});

test('another cost has another wait, and is asked for', () => {
  const cache = afterDenial(3);

  expect(cache.repeat([ann], 2, 10)).toBeUndefined();
  expect(cache.repeat([ann], 4, 10)).toBeUndefined();
});

test('another key, another number and another list of limits are other questions', () => {
  const cache = afterDenial();
  const raised = bucket.with({ burst: 50 });

  expect(cache.repeat([bucket.for('bob')], 1, 10)).toBeUndefined();
  expect(cache.repeat([raised.for('ann')], 1, 10)).toBeUndefined();
  expect(cache.repeat([ann, bucket.for('bob')], 1, 10)).toBeUndefined();
});

test('a denial learned over a slow round trip stands until its moment, once a fast one has told the time', () => {
  const clock = new StoreClock();
  clock.heard({ storeUs: START_US, sentUs: -5, heardUs: 10 });
  const cache = new DenialCache();
  // Decided 1.5 ms after the question left: what is known of the time by this answer alone would end the denial then.
  const slow = clock.heard({ storeUs: START_US + 1500, sentUs: 0, heardUs: 3000 });
  cache.note([ann], 1, [DENIED], slow);

  expect(cache.repeat([ann], 1, 101_400)?.[0]?.allowed).toBe(false);
  expect(cache.repeat([ann], 1, 101_500)).toBeUndefined();
});

test.each([
  ['forward', 5_000_000],
  ['back', -5_000_000],
])("the server's clock is set %s: denials end by the time that it shows now", (_way, stepUs) => {
  const clock = new StoreClock();
  clock.heard({ storeUs: START_US, sentUs: 0, heardUs: 10 });
  const cache = new DenialCache();
  const storeUs = START_US + stepUs + 1500;
  cache.note([ann], 1, [DENIED], clock.heard({ storeUs, sentUs: 1000, heardUs: 2000 }));

  expect(cache.repeat([ann], 1, 100_900)?.[0]?.allowed).toBe(false);
  expect(cache.repeat([ann], 1, 101_500)).toBeUndefined();
});

test('a clock that is set back while a denial stands never makes an admission of it', () => {
  const clock = new StoreClock();
  const cache = new DenialCache();
  cache.note([ann], 1, [DENIED], clock.heard({ storeUs: START_US, sentUs: 0, heardUs: 10 }));
  clock.heard({ storeUs: START_US + 50_000 - 300_000, sentUs: 50_000, heardUs: 50_010 });

  expect(cache.repeat([ann], 1, 99_000)?.[0]?.allowed).toBe(false);
  expect(cache.repeat([ann], 1, 100_100)).toBeUndefined();
});

test('whatever clocks answer, what is repeated denies', () => {
  const random = seededRandom(11);
  let repeated = 0;
  for (let run = 0; run < 500; run += 1) {
    const clock = new StoreClock();
    const cache = new DenialCache();
    let nowUs = 0;
    let stepUs = 0;
    for (let step = 0; step < 40; step += 1) {
      nowUs += random.below(30_000);
      if (random.below(4) === 0) stepUs += random.below(400_001) - 200_000;
      const sentUs = nowUs;
      nowUs += random.below(3000);
      const reading = clock.heard({ storeUs: START_US + nowUs + stepUs, sentUs, heardUs: nowUs });
      if (random.below(3) === 0) cache.note([ann], 1, [DENIED], reading);
      nowUs += random.below(60_000);
      const verdicts = cache.repeat([ann], 1, nowUs);
      if (verdicts === undefined) continue;
      repeated += 1;
      expect(verdicts[0]?.allowed).toBe(false);
    }
  }
  expect(repeated).toBeGreaterThan(1000);
});

test('a denial is repeated for at most a second, however long its wait', () => {
  const cache = new DenialCache();
  cache.note([ann], 1, [{ ...DENIED, retryAfterUs: 3_600_000_000 }], AT_ONCE);

  expect(cache.repeat([ann], 1, 999_999)?.[0]?.allowed).toBe(false);
  expect(cache.repeat([ann], 1, 1_000_000)).toBeUndefined();
});

test('admissions and costs that never fit are not remembered', () => {
  const cache = new DenialCache();
  cache.note([ann], 1, [{ ...DENIED, allowed: true, retryAfterUs: 0 }], AT_ONCE);
  cache.note([ann], 9, [{ ...DENIED, retryAfterUs: -1 }], AT_ONCE);

  expect(cache.repeat([ann], 1, 0)).toBeUndefined();
  expect(cache.repeat([ann], 9, 0)).toBeUndefined();
});

test('while somebody asks whether a denial is over, others can wait for that answer', async () => {
  const cache = afterDenial();
  cache.repeat([ann], 1, 100_000);
  let answer: () => void = () => undefined;

  cache.noteAsked([ann], 1, new Promise<void>((resolve) => void (answer = resolve)));
  const underWay = cache.answerFor([ann], 1);
  cache.note(
    [ann],
    1,
    [DENIED],
    new StoreClock().heard({ storeUs: START_US, sentUs: 100_000, heardUs: 100_100 }),
  );
  answer();
  await underWay;

  expect(underWay).toBeDefined();
  expect(cache.repeat([ann], 1, 100_200)?.[0]?.allowed).toBe(false);
  expect(cache.answerFor([ann], 1)).toBeUndefined();
});

test('who asks about something else, or while the denial stands, waits for nobody', () => {
  const standing = afterDenial();
  standing.noteAsked([ann], 1, new Promise(() => undefined));
  const over = afterDenial();
  over.repeat([ann], 1, 100_000);
  over.noteAsked([ann], 2, new Promise(() => undefined));
  over.noteAsked([bucket.for('bob')], 1, new Promise(() => undefined));

  expect(standing.answerFor([ann], 1)).toBeUndefined();
  expect(over.answerFor([ann], 1)).toBeUndefined();
  expect(over.answerFor([ann], 2)).toBeUndefined();
});

test('nobody waits for an answer where a denial is over before it is heard', () => {
  const cache = new DenialCache();
  const distant = new StoreClock().heard({ storeUs: START_US, sentUs: 0, heardUs: DENIED.retryAfterUs });
  cache.note([ann], 1, [DENIED], distant);
  cache.repeat([ann], 1, DENIED.retryAfterUs);
  cache.noteAsked([ann], 1, new Promise(() => undefined));

  expect(cache.answerFor([ann], 1)).toBeUndefined();
});

test.each<readonly [string, () => Promise<void>]>([
  ['it fails', async () => Promise.reject(new Error('the connection was lost'))],
  ['it says nothing about this denial', async () => undefined],
])('an answer is waited for once: when %s, the next one asks', async (_, answer) => {
  const cache = afterDenial();
  cache.repeat([ann], 1, 100_000);
  cache.noteAsked([ann], 1, answer());

  await cache.answerFor([ann], 1);

  expect(cache.repeat([ann], 1, 100_000)).toBeUndefined();
  expect(cache.answerFor([ann], 1)).toBeUndefined();
});

test('past ten thousand denials the oldest makes room', () => {
  const cache = afterDenial();
  for (let key = 0; key < 10_000; key += 1) cache.note([bucket.for(`key-${key}`)], 1, [DENIED], AT_ONCE);

  expect(cache.repeat([ann], 1, 0)).toBeUndefined();
  expect(cache.repeat([bucket.for('key-9999')], 1, 0)).toBeDefined();
});

/** The clock of a process runs up to 190 millionths fast or slow, and answers take a while. */
const POLICIES = [
  bucket,
  tokenBucket({ name: 'odd', average: 7, burst: 3, period: '1s' }),
  fixedWindow({ name: 'window', quota: 4, window: '300ms' }),
  slidingWindowLog({ name: 'log', quota: 4, window: '300ms' }),
  slidingWindowCounter({ name: 'counter', quota: 4, window: '300ms' }),
];

test.each(POLICIES.map((policy) => [policy.algorithm, policy] as const))(
  '%s: what is repeated is what the store would have said, and obeying the wait is enough',
  (_algorithm, policy) => {
    const random = seededRandom(7);
    let repeated = 0;
    for (let run = 0; run < 200; run += 1) {
      const drift = 1 + (random.below(381) - 190) / 1e6;
      let nowUs = START_US;
      const localUs = (): number => Math.floor((nowUs - START_US) * drift);
      const store = memoryStore({ clock: () => nowUs });
      const cache = new DenialCache();
      const clock = new StoreClock();
      const limits = [policy.for('ann')];
      for (let step = 0; step < 60; step += 1) {
        nowUs += random.below(40_000);
        const cost = 1 + random.below(3);
        const local = cache.repeat(limits, cost, localUs());
        if (local !== undefined) {
          repeated += 1;
          const [would] = store.peekSync(limits, cost);
          expect(would?.allowed).toBe(false);
          expect(local[0]?.retryAfterUs).toBeGreaterThanOrEqual(would?.retryAfterUs ?? 0);
          continue;
        }
        const sentUs = localUs();
        nowUs += random.below(3000);
        const storeUs = nowUs;
        const verdicts = store.checkSync(limits, cost).map((verdict) => ({ ...verdict }));
        nowUs += random.below(3000);
        cache.note(limits, cost, verdicts, clock.heard({ storeUs, sentUs, heardUs: localUs() }));
      }
    }
    expect(repeated).toBeGreaterThan(500);
  },
);

test('what may have room again is asked for, alone and beside others, and nothing else', () => {
  const [bob, cleo] = [bucket.for('bob'), bucket.for('cleo')];
  const questions = [[ann], [bob], [ann, bob], [bob, cleo], [cleo, ann, bob]];
  const cache = new DenialCache();
  const note = (limits: readonly Limit[]): void =>
    cache.note(
      limits,
      1,
      limits.map(() => DENIED),
      AT_ONCE,
    );
  const repeated = (): readonly boolean[] =>
    questions.map((limits) => cache.repeat(limits, 1, 10) !== undefined);
  questions.forEach(note);
  expect(repeated()).toEqual([true, true, true, true, true]);

  cache.drop([ann]);
  expect(repeated()).toEqual([false, true, false, true, false]);
  note([ann, bob]);
  cache.drop([cleo]);

  expect(repeated()).toEqual([false, true, true, false, false]);
});
