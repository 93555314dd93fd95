import type { Limit, Policy } from '../limit.ts';
import type { Store, StoreVerdict } from '../stores/store.ts';
import { seededRandom, type Random } from './random.ts';
import { ReferenceStore, toVerdict } from './reference-store.ts';
import { SAMPLE_POLICIES } from './sample-policies.ts';
import { virtualClock, type VirtualClock } from './virtual-clock.ts';

export interface RandomProgram {
  readonly seed: number;
  readonly operations: number;
  /** The store under test, deciding by the clock it is given. */
  readonly createStore: (clock: VirtualClock) => Store | Promise<Store>;
  /** Also steps the clock back now and then. Default: true. */
  readonly clockSteps?: boolean | undefined;
}

export interface RandomProgramResult {
  readonly operations: number;
  readonly allowed: number;
  readonly denied: number;
}

/** Every algorithm, with numbers that do not divide evenly, that are tiny, and that are huge. */
export function awkwardPolicies(): readonly Policy[] {
  return Object.values(SAMPLE_POLICIES).flatMap(({ awkward }) => awkward);
}

const KEYS = ['ann', 'bob', '__proto__', '{x}', 'a:b', '\ud800', 'k'.repeat(300)];

/**
 * Runs a seeded random program against a store and against the pure functions, and throws at the first answer that
 * differs. It replays requests exactly at, and one microsecond before, the moment the last denial named.
 */
export async function runRandomProgram(program: RandomProgram): Promise<RandomProgramResult> {
  const random = seededRandom(program.seed);
  const clock = virtualClock();
  const reference = new ReferenceStore(clock);
  const store = await program.createStore(clock);
  const policies = awkwardPolicies();
  let last: readonly StoreVerdict[] = [];
  let allowed = 0;
  try {
    for (let operation = 0; operation < program.operations; operation += 1) {
      moveClock(random, clock, last, program.clockSteps !== false);
      const step = randomStep(random, policies);
      const [actual, expected] = await runStep(step, store, reference);
      if (JSON.stringify(actual) !== JSON.stringify(expected))
        throw mismatch(program, operation, step, { actual, expected });
      if (actual.every((verdict) => verdict.allowed)) allowed += 1;
      if (actual.length > 0) last = actual;
    }
  } finally {
    await store.close();
  }
  return { operations: program.operations, allowed, denied: program.operations - allowed };
}

interface Step {
  readonly verb: 'check' | 'peek' | 'forget';
  readonly limits: readonly Limit[];
  readonly cost: number;
}

type Answers = readonly [actual: readonly StoreVerdict[], expected: readonly StoreVerdict[]];

async function runStep(
  { verb, limits, cost }: Step,
  store: Store,
  reference: ReferenceStore,
): Promise<Answers> {
  if (verb === 'forget') {
    await store.forget(limits);
    reference.forget(limits);
    return [[], []];
  }
  const actual = await store[verb](limits, cost);
  return [actual.map(toVerdict), reference[verb](limits, cost)];
}

function randomStep(random: Random, policies: readonly Policy[]): Step {
  const count = random.below(4) === 0 ? 2 + random.below(3) : 1;
  const first = random.below(policies.length);
  // Neighbours in the list: all different, so no limit stands twice.
  const limits = Array.from({ length: count }, (_, at) => {
    const policy = policies[(first + at) % policies.length] ?? random.pick(policies);
    return policy.for(random.pick(KEYS));
  });
  const limit = limits[0]?.plan.limit ?? 1;
  const cost = random.pick([
    1,
    1,
    1,
    1,
    2,
    3,
    0,
    limit,
    limit - 1,
    limit + 1,
    Math.ceil(limit / 3),
    2 ** 53 - 1,
  ]);
  const dice = random.below(40);
  return { verb: dice === 0 ? 'forget' : dice < 6 ? 'peek' : 'check', limits, cost };
}

function moveClock(
  random: Random,
  clock: VirtualClock,
  last: readonly StoreVerdict[],
  clockSteps: boolean,
): void {
  const verdict = last.length === 0 ? undefined : random.pick(last);
  const retryUs = Math.max(0, verdict?.retryAfterUs ?? 0);
  const resetUs = verdict?.resetAfterUs ?? 0;
  const short = random.below(2_000_000);
  const steps = [
    0,
    0,
    1,
    short,
    short,
    retryUs,
    retryUs,
    retryUs - 1,
    resetUs,
    resetUs - 1,
    random.below(1000),
  ];
  if (random.below(200) === 0) steps.push(86_400_000_000);
  if (clockSteps && random.below(50) === 0) steps.push(-random.below(3_000_000));
  // A wait of years would leave the range of clocks after a few of them.
  const stepUs = Math.min(random.pick(steps), 40 * 86_400_000_000);
  clock.set(clock() + (clockSteps ? stepUs : Math.max(0, stepUs)));
}

function mismatch(program: RandomProgram, operation: number, step: Step, answers: object): Error {
  const limits = step.limits.map((limit) => ({ policy: limit.policy.name, key: limit.key }));
  const detail = JSON.stringify({ operation, ...step, limits, ...answers }, undefined, 2);
  return new Error(`The store disagrees with the algorithms (seed ${program.seed}): ${detail}`);
}
