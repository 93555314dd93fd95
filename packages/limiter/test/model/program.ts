import { MAX_TIME_US, type Outcome } from '../../src/algorithms/algorithm.ts';
import type { AlgorithmName } from '../../src/algorithms/index.ts';
import type { Answer } from './model.ts';
import { MODELS } from './index.ts';
import { drawAccepted } from './policies.ts';
import { Random } from './random.ts';
import type { Engine, Subject } from './subject.ts';

/** Every run is the same unless another seed is asked for, to search further or to repeat a failure. */
export const SEED = Number(process.env['SPILLGATE_SEED'] ?? 20_251);

/** A random run of requests; the same name and number give the same run. */
export interface Program {
  readonly random: Random;
  readonly subject: Subject;
  /** What to print when the run fails. */
  readonly label: string;
}

/** Every second program runs a policy known to be hard. */
export function programFor(name: AlgorithmName, number: number): Program {
  const random = new Random(SEED + number);
  const awkward = MODELS[name].awkward();
  const hard = number % 2 === 0 ? awkward[(number / 2) % awkward.length] : undefined;
  const subject = hard ?? drawAccepted(() => MODELS[name].random(random));
  return { random, subject, label: `SPILLGATE_SEED=${SEED}, program ${number}, ${subject.label}` };
}

/** What was asked last and what came out: the next step aims at the moments around its answers. */
export interface Moment {
  readonly cost: number;
  readonly nowUs: number;
  readonly answer: Answer;
}

/** 1970, a little after it, today, or the last moments the engine can count. */
export function startUs({ random, subject: { spanUs } }: Program): number {
  return random.pick([
    0,
    Math.min(3 * spanUs, MAX_TIME_US),
    1_760_000_000_000_000 + random.integer(0, 1_000_000_000),
    Math.max(0, MAX_TIME_US - 10 * spanUs),
  ]);
}

/** The next clock reading: later, the same, exactly at or just before a promised moment, or earlier. */
export function nextUs({ random, subject: { spanUs } }: Program, last: Moment): number {
  const { answer, nowUs } = last;
  const retryUs = Math.max(0, answer.retryAfterUs);
  const stepUs = random.pick([
    0,
    0,
    1,
    retryUs,
    retryUs,
    retryUs - 1,
    retryUs - 1,
    answer.resetAfterUs,
    answer.resetAfterUs - 1,
    random.magnitude(1, spanUs),
    random.magnitude(1, spanUs),
    random.magnitude(spanUs, 100 * spanUs),
    -1,
    -random.magnitude(1, spanUs),
    random.chance(0.1) ? -random.integer(0, nowUs) : 0,
  ]);
  return Math.min(MAX_TIME_US, Math.max(0, nowUs + stepUs));
}

/** Around what is left, around the limit, nothing, and far too much. */
export function anyCost({ random, subject: { limit } }: Program, remaining: number): number {
  const cost = random.pick([
    0,
    1,
    1,
    random.integer(1, 5),
    limit - 1,
    limit,
    limit + 1,
    Number.MAX_SAFE_INTEGER,
    remaining,
    remaining + 1,
    random.magnitude(1, limit),
    random.magnitude(1, limit),
    Math.ceil(limit / 2),
  ]);
  return Math.min(Number.MAX_SAFE_INTEGER, cost);
}

/** One request to the engine alone, with what came out and the state it left behind. */
export interface Step {
  readonly engine: Engine;
  readonly cost: number;
  readonly nowUs: number;
  readonly outcome: Outcome<unknown>;
}

/** Whether `holds` after every request of the program. */
export function alwaysHolds(program: Program, requests: number, holds: (step: Step) => boolean): boolean {
  const engine = program.subject.engine();
  let nowUs = startUs(program);
  let remaining = program.subject.limit;
  for (let done = 0; done < requests; done += 1) {
    const cost = anyCost(program, remaining);
    const outcome = engine.check(cost, nowUs);
    if (!holds({ engine, cost, nowUs, outcome })) return false;
    remaining = outcome.remaining;
    nowUs = nextUs(program, { cost, nowUs, answer: outcome });
  }
  return true;
}
