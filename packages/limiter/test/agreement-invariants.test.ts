import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES } from './model/index.ts';
import { alwaysHolds, nextUs, programFor, startUs, type Program } from './model/program.ts';
import { isSameAnswer, type Engine } from './model/subject.ts';
import { runs } from '../../../test/runs.ts';

const PROGRAMS = runs(200);
const REQUESTS = 25;

describe.each(ALGORITHM_NAMES)('%s', (name) => {
  test('a state that is kept too long decides as if it were gone', () => {
    const wrong = programsBreaking(name, (program) =>
      alwaysHolds(program, REQUESTS, ({ engine, nowUs }) => {
        const staleUs = Math.max(nowUs, engine.absentAtUs() ?? 0);
        const laterUs = staleUs + program.random.magnitude(1, 100 * program.subject.spanUs);
        return [staleUs, laterUs].every((atUs) => decidesLikeUnused(program, engine, atUs));
      }),
    );

    expect(wrong).toEqual([]);
  });

  test('dropping the state at resetAfter changes nothing, and one microsecond earlier it does', () => {
    const wrong = programsBreaking(name, (program) =>
      alwaysHolds(program, REQUESTS, ({ engine, nowUs, outcome }) => {
        // A look keeps nothing of a clock that stepped far back: the wait it names begins with the next request.
        if (engine.peek(0, nowUs).carried !== undefined) return true;
        const resetUs = nowUs + outcome.resetAfterUs;
        if (!decidesLikeUnused(program, engine, resetUs)) return false;
        if (outcome.resetAfterUs === 0) return true;
        const kept = engine.peek(program.subject.limit, resetUs - 1);
        // A queue may take its limit already, but then says how long that has to wait.
        const isDifferent = !kept.allowed || kept.delayUs > 0;
        return isDifferent && engine.absentAtUs() === resetUs;
      }),
    );

    expect(wrong).toEqual([]);
  });

  test('an admission writes, and a request that is not admitted only where the clock stepped far back', () => {
    const wrong = programsBreaking(name, (program) => {
      let latestUs = 0;
      return alwaysHolds(program, REQUESTS, ({ cost, nowUs, outcome }) => {
        const steppedFarBack = nowUs + program.subject.toleratedUs < latestUs;
        latestUs = Math.max(latestUs, nowUs);
        const isAdmission = outcome.allowed && cost > 0;
        return (
          (outcome.spent !== undefined) === isAdmission && (outcome.carried === undefined || steppedFarBack)
        );
      });
    });

    expect(wrong).toEqual([]);
  });

  test('what is available never falls while time passes', () => {
    const wrong = programsBreaking(name, (program) =>
      alwaysHolds(program, REQUESTS, ({ engine, nowUs, outcome }) => {
        const seen = [outcome.remaining];
        let atUs = nowUs;
        for (let look = 0; look < 10; look += 1) {
          atUs = Math.min(MAX_TIME_US, atUs + program.random.magnitude(1, program.subject.spanUs));
          seen.push(engine.peek(0, atUs).remaining);
        }
        return seen.every((available, at) => at === 0 || available >= (seen[at - 1] ?? 0));
      }),
    );

    expect(wrong).toEqual([]);
  });

  test('a clock that steps back never credits', () => {
    const wrong = programsBreaking(name, (program) => {
      const { random, subject } = program;
      let admittedUs = 0;
      return alwaysHolds(program, REQUESTS, ({ engine, cost, nowUs, outcome }) => {
        if (outcome.allowed && cost > 0) admittedUs = Math.max(admittedUs, nowUs);
        const available = engine.peek(0, admittedUs).remaining;
        const stepsBackUs = [1, random.magnitude(1, subject.spanUs), random.integer(0, admittedUs)];
        return stepsBackUs.every(
          (backUs) => engine.peek(0, Math.max(0, admittedUs - backUs)).remaining <= available,
        );
      });
    });

    expect(wrong).toEqual([]);
  });

  test('denied polling, looks and a clock that jumps back and forth do not change a single decision', () => {
    const wrong = programsBreaking(name, (program) => {
      const { random, subject } = program;
      // The model sees only the requests; the engine sees the noise between them as well.
      const quiet = subject.model();
      const noisy = subject.engine();
      let nowUs = startUs(program);
      for (let request = 0; request < REQUESTS; request += 1) {
        for (let noise = 0; noise < 5; noise += 1) pollInVain(program, noisy, nowUs);
        const cost = random.magnitude(1, subject.limit);
        const answer = noisy.check(cost, nowUs);
        if (!isSameAnswer(answer, quiet.check(cost, nowUs))) return false;
        nowUs = nextUs(program, { cost, nowUs, answer });
      }
      return true;
    });

    expect(wrong).toEqual([]);
  });

  test('a cost above the limit is refused for good and locks nobody out', () => {
    const wrong = programsBreaking(name, ({ subject }) =>
      [subject.limit + 1, Number.MAX_SAFE_INTEGER].every((oversized) => {
        const key = subject.engine();
        const refused = key.check(oversized, 1_760_000_000_000_000);
        const admitted = key.check(subject.limit, 1_760_000_000_000_000);
        const never = {
          allowed: false,
          remaining: subject.limit,
          retryAfterUs: -1,
          resetAfterUs: 0,
          delayUs: 0,
        };
        return isSameAnswer(refused, never) && admitted.allowed;
      }),
    );

    expect(wrong).toEqual([]);
  });
});

/** The programs that break a rule. Each test makes them anew, so that it can be repeated alone. */
function programsBreaking(name: AlgorithmName, holds: (program: Program) => boolean): readonly string[] {
  const programs = Array.from({ length: PROGRAMS }, (_, number) => programFor(name, number));
  return programs.filter((program) => !holds(program)).map(({ label }) => label);
}

/** The same answers as without any state for every telling cost, also to what is asked after an admission. */
function decidesLikeUnused({ subject, random }: Program, kept: Engine, nowUs: number): boolean {
  const { limit, spanUs } = subject;
  const laterUs = nowUs + random.magnitude(1, spanUs);
  return [0, 1, random.magnitude(1, limit), limit, limit + 1].every((cost) => {
    const old = kept.copy();
    const unused = subject.engine();
    return (
      isSameAnswer(old.check(cost, nowUs), unused.check(cost, nowUs)) &&
      isSameAnswer(old.check(limit, laterUs), unused.check(limit, laterUs))
    );
  });
}

/** A request that cannot be admitted, at a clock that may be wrong in either direction. */
function pollInVain({ random, subject }: Program, engine: Engine, nowUs: number): void {
  const farUs = random.magnitude(1, subject.spanUs);
  const atUs = Math.min(MAX_TIME_US, Math.max(0, nowUs + random.pick([0, 0, 1, -1, farUs, -farUs])));
  const seen = engine.peek(0, atUs);
  // A clock that steps back by more than a full limit lasts is no noise: what it leaves is in the model.
  if (seen.carried !== undefined) return;
  const tooMuch = seen.remaining + 1;
  engine.check(random.pick([0, tooMuch, tooMuch, subject.limit + 1]), atUs);
}
