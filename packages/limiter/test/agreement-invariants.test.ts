import { describe, expect, test } from 'vitest';
import { MAX_TIME_US } from '../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../src/algorithms/index.ts';
import { ALGORITHM_NAMES } from './model/index.ts';
import { nextUs, programFor, run, startUs, type Program } from './model/program.ts';
import { answerOf, type Engine } from './model/subject.ts';

const PROGRAMS = 200;
const REQUESTS = 25;

describe.each(ALGORITHM_NAMES)('%s', (name) => {
  test('a state that is kept too long decides as if it were gone', () => {
    const differing = programsOf(name).filter((program) => {
      let isSame = true;
      run(program, REQUESTS, (engine, { nowUs }) => {
        const absentAtUs = engine.absentAtUs() ?? 0;
        const laterUs =
          Math.max(nowUs, absentAtUs) + program.random.magnitude(1, 100 * program.subject.spanUs);
        for (const atUs of [Math.max(nowUs, absentAtUs), laterUs]) {
          isSame &&= decidesAlike(program, engine, program.subject.engine(), atUs);
        }
      });
      return !isSame;
    });

    expect(labels(differing)).toEqual([]);
  });

  test('dropping the state at resetAfter changes nothing, and one microsecond earlier it does', () => {
    const differing = programsOf(name).filter((program) => {
      const { limit } = program.subject;
      let isExact = true;
      run(program, REQUESTS, (engine, { nowUs }, outcome) => {
        const resetAtUs = nowUs + outcome.resetAfterUs;
        const fresh = program.subject.engine();
        isExact &&= decidesAlike(program, engine, fresh, resetAtUs);
        if (outcome.resetAfterUs === 0) return;
        const kept = engine.peek(limit, resetAtUs - 1);
        const dropped = fresh.peek(limit, resetAtUs - 1);
        // A queue may admit its limit already, but then says how long it has to wait.
        isExact &&= dropped.allowed && (!kept.allowed || kept.delayUs > dropped.delayUs);
        isExact &&= engine.absentAtUs() === resetAtUs;
      });
      return !isExact;
    });

    expect(labels(differing)).toEqual([]);
  });

  test('a request that is not admitted never writes', () => {
    const writing = programsOf(name).filter((program) => {
      let hasWritten = false;
      run(program, REQUESTS, (_, { cost }, outcome) => {
        const isAdmission = outcome.allowed && cost > 0;
        if (isAdmission ? outcome.spent === undefined : outcome.spent !== undefined) hasWritten = true;
        if (outcome.carried !== undefined) hasWritten = true;
      });
      return hasWritten;
    });

    expect(labels(writing)).toEqual([]);
  });

  test('what is available never falls while time passes', () => {
    const falling = programsOf(name).filter((program) => {
      let hasFallen = false;
      run(program, REQUESTS, (engine, { nowUs }, outcome) => {
        let available = outcome.remaining;
        let atUs = nowUs;
        for (let look = 0; look < 10; look += 1) {
          atUs = Math.min(MAX_TIME_US, atUs + program.random.magnitude(1, program.subject.spanUs));
          const { remaining } = engine.peek(0, atUs);
          if (remaining < available) hasFallen = true;
          available = remaining;
        }
      });
      return hasFallen;
    });

    expect(labels(falling)).toEqual([]);
  });

  test('a clock that steps back never credits', () => {
    const crediting = programsOf(name).filter((program) => {
      const { random, subject } = program;
      let hasCredited = false;
      let admittedUs = 0;
      run(program, REQUESTS, (engine, { cost, nowUs }, outcome) => {
        if (outcome.allowed && cost > 0) admittedUs = Math.max(admittedUs, nowUs);
        const available = engine.peek(0, admittedUs).remaining;
        for (const backUs of [1, random.magnitude(1, subject.spanUs), random.integer(0, admittedUs)]) {
          if (engine.peek(0, Math.max(0, admittedUs - backUs)).remaining > available) hasCredited = true;
        }
      });
      return hasCredited;
    });

    expect(labels(crediting)).toEqual([]);
  });

  test('denied polling, looks and a clock that jumps back and forth do not change a single decision', () => {
    const changed = programsOf(name).filter((program) => {
      const { random, subject } = program;
      // The model sees only the requests; the engine sees the noise between them as well.
      const quiet = subject.model();
      const noisy = subject.engine();
      let isSame = true;
      let nowUs = startUs(program);
      for (let request = 0; request < REQUESTS; request += 1) {
        for (let noise = 0; noise < 5; noise += 1) pollInVain(program, noisy, nowUs);
        const cost = random.magnitude(1, subject.limit);
        const answer = answerOf(noisy.check(cost, nowUs));
        isSame &&= JSON.stringify(answer) === JSON.stringify(quiet.check(cost, nowUs));
        nowUs = nextUs(program, { cost, nowUs, answer });
      }
      return !isSame;
    });

    expect(labels(changed)).toEqual([]);
  });

  test('a cost above the limit is refused for good and locks nobody out', () => {
    for (const { subject, label } of programsOf(name)) {
      for (const oversized of [subject.limit + 1, Number.MAX_SAFE_INTEGER]) {
        const engine = subject.engine();

        const refused = engine.check(oversized, 1_760_000_000_000_000);
        const admitted = engine.check(subject.limit, 1_760_000_000_000_000);

        const never = {
          allowed: false,
          remaining: subject.limit,
          retryAfterUs: -1,
          resetAfterUs: 0,
          delayUs: 0,
        };
        expect(answerOf(refused), label).toEqual(never);
        expect(admitted.allowed, label).toBe(true);
      }
    }
  });
});

/** Made anew for each test, so that each can be repeated alone. */
function programsOf(name: AlgorithmName): readonly Program[] {
  return Array.from({ length: PROGRAMS }, (_, number) => programFor(name, number));
}

/** The same answers for every telling cost, also to what is asked after an admission. */
function decidesAlike({ subject, random }: Program, kept: Engine, fresh: Engine, nowUs: number): boolean {
  const { limit, spanUs } = subject;
  const laterUs = nowUs + random.magnitude(1, spanUs);
  return [0, 1, random.magnitude(1, limit), limit, limit + 1].every((cost) => {
    const [a, b] = [kept.copy(), fresh.copy()];
    const first = [a, b].map((engine) => JSON.stringify(answerOf(engine.check(cost, nowUs))));
    const next = [a, b].map((engine) => JSON.stringify(answerOf(engine.check(limit, laterUs))));
    return first[0] === first[1] && next[0] === next[1];
  });
}

/** A request that cannot be admitted, at a clock that may be wrong in either direction. */
function pollInVain({ random, subject }: Program, engine: Engine, nowUs: number): void {
  const wrongUs = random.pick([
    0,
    0,
    1,
    -1,
    random.magnitude(1, subject.spanUs),
    -random.magnitude(1, subject.spanUs),
  ]);
  const atUs = Math.min(MAX_TIME_US, Math.max(0, nowUs + wrongUs));
  const tooMuch = engine.peek(0, atUs).remaining + 1;
  engine.check(random.pick([0, tooMuch, tooMuch, subject.limit + 1]), atUs);
}

function labels(programs: readonly Program[]): readonly string[] {
  return programs.map(({ label }) => label);
}
