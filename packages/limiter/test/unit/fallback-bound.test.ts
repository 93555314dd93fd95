import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tokenBucket } from '../../src/index.ts';
import { isAtMost } from '../model/rational.ts';
import { fleet, type Fleet, type Link } from './fleet.ts';
import { PROMISES, type Promised } from './outage-promises.ts';
import { runs } from '../../../../test/runs.ts';

type Step =
  | { readonly kind: 'wait'; readonly us: number }
  | { readonly kind: 'link'; readonly instance: number; readonly link: Link }
  | { readonly kind: 'all links'; readonly link: Link }
  | { readonly kind: 'check'; readonly instance: number; readonly key: string; readonly cost: number }
  | { readonly kind: 'drain'; readonly instance: number; readonly key: string };

const MOST_INSTANCES = 5;
const DRAIN_CHECKS = 30;

const instance = fc.nat({ max: MOST_INSTANCES - 1 });
const key = fc.constantFrom('ann', 'bob');
const anyLink = fc.constantFrom<Link>('answers', 'answers', 'rejects', 'loses the answer', 'says nonsense');
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait'), us: fc.integer({ min: 1, max: 2000 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('link'), instance, link: anyLink }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('all links'), link: anyLink }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('check'),
      instance,
      key,
      cost: fc.integer({ min: 0, max: 12 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('drain'), instance, key }) },
);
const program = fc.array(anyStep, { maxLength: 40 });

describe.each(PROMISES)('$algorithm, on instances that lose and find their store at random', ({ draw }) => {
  test('no stretch of time admits more than the store and all shares of the policy', async () => {
    await fc.assert(
      fc.asyncProperty(
        draw,
        fc.integer({ min: 1, max: MOST_INSTANCES }),
        program,
        async (promised, instances, steps) => {
          const subject = fleet(instances);
          for (const each of steps) await take(each, subject, promised);

          expect(excessOf(subject, promised, 'ann')).toBeUndefined();
          expect(excessOf(subject, promised, 'bob')).toBeUndefined();
        },
      ),
      { numRuns: runs(1000) },
    );
  });
});

async function take(chosen: Step, subject: Fleet, { policy }: Promised): Promise<void> {
  const { limiters, links, clock } = subject;
  switch (chosen.kind) {
    case 'wait':
      clock.advance(chosen.us / 1000);
      return;
    case 'link':
      links[chosen.instance % limiters.length] = chosen.link;
      return;
    case 'all links':
      links.fill(chosen.link);
      return;
    case 'check':
      await subject.check(chosen.instance % limiters.length, policy.for(chosen.key), chosen.cost);
      return;
    case 'drain':
      for (let checks = 0; checks < DRAIN_CHECKS; checks += 1) {
        const decision = await subject.check(chosen.instance % limiters.length, policy.for(chosen.key), 1);
        if (!decision.allowed) return;
      }
  }
}

/** The first run of admissions, from any one to any later one, that is above what is published. */
function excessOf(subject: Fleet, promised: Promised, chosen: string): string | undefined {
  const admissions = subject.admissions.filter((admission) => admission.key === chosen);
  for (const [first, { atUs: fromUs }] of admissions.entries()) {
    let total = 0;
    let localFromUs: number | undefined;
    let localToUs = 0;
    for (const { atUs, cost, source } of admissions.slice(first)) {
      total += cost;
      if (source === 'fallback') {
        localFromUs ??= atUs;
        localToUs = atUs;
      }
      const local = localFromUs === undefined ? undefined : ([localFromUs, localToUs] as const);
      const most = promised.most([fromUs, atUs], local, subject.limiters.length);
      if (!isAtMost({ numerator: BigInt(total), denominator: 1n }, most)) {
        return `${total} admitted in [${fromUs}, ${atUs}], locally in [${String(local)}]`;
      }
    }
  }
  return undefined;
}

describe('the bound is tight', () => {
  test.each([
    { instances: 1, burst: 10, average: 10 },
    { instances: 5, burst: 10, average: 10 },
    { instances: 5, burst: 3, average: 20 },
    { instances: 4, burst: 4, average: 1000 },
  ])(
    '$instances instances, burst $burst: whoever asks often enough gets all of it',
    async ({ instances, burst, average }) => {
      const subject = fleet(instances);
      const policy = tokenBucket({ name: 'api', average, burst, period: '1s' });
      const drainBoth = async (): Promise<void> => {
        for (const link of ['answers', 'rejects'] as const) {
          subject.links.fill(link);
          await drain(subject, policy.for('ann'));
        }
      };

      await drainBoth();
      const atOnce = subject.admitted('ann');
      // After as many steps as instances, each of them has got one token back.
      for (let step = 0; step < instances; step += 1) {
        subject.clock.advance(1000 / average);
        await drainBoth();
      }

      expect(atOnce).toBe(burst + Math.max(burst, instances));
      expect(subject.admitted('ann')).toBe(atOnce + 2 * instances);
    },
  );

  test('a store that flaps hands out no second burst: the local states stay between outages', async () => {
    const subject = fleet(2);
    const policy = tokenBucket({ name: 'api', average: 1, burst: 10, period: '1h' });

    for (let flap = 0; flap < 20; flap += 1) {
      subject.links.fill('rejects');
      await drain(subject, policy.for('ann'));
      subject.links.fill('answers');
      await drain(subject, policy.for('ann'));
    }

    expect(subject.admitted('ann')).toBe(10 + 10);
  });

  async function drain(subject: Fleet, limit: Parameters<Fleet['check']>[1]): Promise<void> {
    for (const at of subject.limiters.keys()) {
      while ((await subject.check(at, limit, 1)).allowed);
    }
  }
});
