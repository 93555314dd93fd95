import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Breaker, type BreakerPermit } from '../../src/breaker.ts';
import { runs } from '../../../../test/runs.ts';

const OPTIONS = { threshold: 5, openMs: 30_000, probeLeaseMs: 6000 };

function fail(breaker: Breaker, nowMs: number, times = 1): void {
  for (let at = 0; at < times; at += 1) {
    const permit = breaker.enter(nowMs);
    if (permit !== undefined) breaker.failed(permit, nowMs);
  }
}

test('it opens with the fifth failure in a row, and not with the fourth', () => {
  const breaker = new Breaker(OPTIONS);

  fail(breaker, 0, 4);
  expect([breaker.state(0), breaker.isOpen]).toEqual(['closed', false]);
  fail(breaker, 0);
  expect([breaker.state(0), breaker.isOpen]).toEqual(['open', true]);
  expect(breaker.enter(0)).toBeUndefined();
});

test('a success starts the count anew', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 4);
  breaker.succeeded(breaker.enter(0) ?? { probe: -1 });

  fail(breaker, 0, 4);

  expect(breaker.state(0)).toBe('closed');
  expect(breaker.failuresInARow).toBe(4);
});

test('it lets nobody through for 30 s, and then exactly one', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 5);

  expect(breaker.enter(29_999)).toBeUndefined();
  expect(breaker.state(30_000)).toBe('halfOpen');
  const permits = Array.from({ length: 1000 }, () => breaker.enter(30_000));
  expect(permits.filter((permit) => permit !== undefined)).toHaveLength(1);
});

test('the probe closes it or opens it for 30 s more', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 5);

  fail(breaker, 30_000);
  expect(breaker.state(59_999)).toBe('open');
  expect(breaker.state(60_000)).toBe('halfOpen');
  const probe = breaker.enter(60_000);
  expect(probe).toBeDefined();
  breaker.succeeded(probe ?? { probe: -1 });
  expect(breaker.state(60_000)).toBe('closed');
  fail(breaker, 60_000, 4);
  expect(breaker.state(60_000)).toBe('closed');
});

test('a probe that never ends gives way when its lease is over', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 5);
  const lost = breaker.enter(30_000) ?? { probe: -1 };

  expect(breaker.enter(35_999)).toBeUndefined();
  const second = breaker.enter(36_000) ?? { probe: -1 };
  expect(second.probe).toBeGreaterThan(0);
  breaker.succeeded(lost);
  expect(breaker.isOpen).toBe(true);
  breaker.failed(lost, 36_000);
  expect(breaker.enter(36_001)).toBeUndefined();
  breaker.succeeded(second);
  expect(breaker.isOpen).toBe(false);
});

test('a probe that was not sent makes room for another at once', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 5);

  breaker.abandoned(breaker.enter(30_000) ?? { probe: -1 });

  expect(breaker.enter(30_000)).toBeDefined();
});

test('results of calls from before it opened change nothing', () => {
  const breaker = new Breaker(OPTIONS);
  const early = Array.from({ length: 3 }, () => breaker.enter(0) ?? { probe: -1 });
  fail(breaker, 0, 5);

  breaker.succeeded(early[0] ?? { probe: -1 });
  breaker.failed(early[1] ?? { probe: -1 }, 20_000);

  expect(breaker.state(29_999)).toBe('open');
  expect(breaker.state(30_000)).toBe('halfOpen');
});

test('a service that asks for rest gets it, from the first failure on', () => {
  const breaker = new Breaker(OPTIONS);

  breaker.failed(breaker.enter(0) ?? { probe: -1 }, 0, 2000);

  expect(breaker.state(1999)).toBe('open');
  expect(breaker.state(2000)).toBe('halfOpen');
});

test('the longer of its own rest and the asked one counts', () => {
  const breaker = new Breaker(OPTIONS);
  fail(breaker, 0, 4);

  breaker.failed(breaker.enter(0) ?? { probe: -1 }, 0, 100);
  expect(breaker.state(29_999)).toBe('open');
  breaker.failed(breaker.enter(30_000) ?? { probe: -1 }, 30_000, 50_000);
  expect(breaker.state(79_999)).toBe('open');
});

/** As the table of states has it, in the simplest words. */
class Model {
  state: 'closed' | 'open' | 'halfOpen' = 'closed';
  failures = 0;
  untilMs = 0;
  probe: { readonly permit: BreakerPermit; readonly leaseMs: number } | undefined;
}

test('whatever happens in whatever order, it agrees with the table of its states', () => {
  const step = fc.record({
    act: fc.constantFrom('enter', 'succeed', 'fail', 'abandon'),
    which: fc.nat(8),
    waitMs: fc.constantFrom(0, 1, 2999, 6000, 29_999, 30_000),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const breaker = new Breaker({ ...OPTIONS, threshold: 2 });
      const model = new Model();
      const permits: BreakerPermit[] = [];
      let now = 0;
      for (const { act, which, waitMs } of steps) {
        now += waitMs;
        if (model.state === 'open' && now >= model.untilMs) model.state = 'halfOpen';
        if (act === 'enter') {
          const permit = breaker.enter(now);
          const mayProbe =
            model.state === 'halfOpen' && (model.probe === undefined || now >= model.probe.leaseMs);
          expect(permit !== undefined).toBe(model.state === 'closed' || mayProbe);
          if (permit === undefined) continue;
          permits.push(permit);
          if (mayProbe) model.probe = { permit, leaseMs: now + OPTIONS.probeLeaseMs };
          continue;
        }
        const permit = permits[which % Math.max(1, permits.length)];
        if (permit === undefined) continue;
        if (act === 'abandon') {
          breaker.abandoned(permit);
          if (model.probe?.permit === permit) model.probe = undefined;
          continue;
        }
        const counts = model.state === 'closed' ? permit.probe === 0 : model.probe?.permit === permit;
        if (act === 'succeed') breaker.succeeded(permit);
        else breaker.failed(permit, now);
        if (!counts) continue;
        model.probe = undefined;
        model.failures = act === 'succeed' ? 0 : model.failures + 1;
        const opens = act === 'fail' && (model.state === 'halfOpen' || model.failures >= 2);
        model.state = opens ? 'open' : act === 'succeed' ? 'closed' : model.state;
        if (opens) model.untilMs = now + OPTIONS.openMs;
        expect(breaker.state(now)).toBe(model.state);
      }
    }),
    { numRuns: runs(500) },
  );
});
