// What happens to a fleet during one episode: a list of faults that a seed gives, and that can be made shorter.
import type { Random } from '../../packages/limiter/src/testing/random.ts';

export const FAULT_KINDS = [
  'worker killed',
  'worker stopped',
  'worker clock set',
  'Redis killed',
  'Redis stopped',
  'Redis memory full',
  'Redis clock set',
  'network cut',
  'network slow',
  'answers lost',
  'failover',
  'slot moved',
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

export interface PlannedFault {
  readonly kind: FaultKind;
  /** Since the beginning of the traffic. */
  readonly atMs: number;
  /** How long it lasts, where it does. */
  readonly forMs: number;
  /** Which worker or server, counted from 0 and modulo how many there are. */
  readonly target: number;
  /** By how much a clock is set, or a network slowed down. */
  readonly byMs: number;
}

export interface Plan {
  readonly seed: number;
  readonly faults: readonly PlannedFault[];
}

/** Processes that use the library, beside a gateway. */
export const WORKERS = 4;

/** Nothing happens before it, so that the first decisions can be replayed exactly. */
export const CALM_MS = 1000;
/** The last fault has begun by then. */
const LAST_FAULT_MS = 4000;
const LONGEST_MS = 2000;
const SHORTEST_MS = 50;
const MAX_FAULTS = 5;
const CLOCKS: readonly FaultKind[] = ['worker clock set', 'Redis clock set'];

/** Every other plan has faults of one kind only, so that each kind can be measured by itself. */
export function randomPlan(seed: number, random: Random, kinds: readonly FaultKind[]): Plan {
  const only = random.below(2) === 0 ? random.pick(kinds) : undefined;
  const count = 1 + random.below(MAX_FAULTS);
  const faults = Array.from({ length: count }, () => randomFault(only ?? random.pick(kinds), random));
  return { seed, faults: faults.toSorted((a, b) => a.atMs - b.atMs) };
}

function randomFault(kind: FaultKind, random: Random): PlannedFault {
  return {
    kind,
    atMs: CALM_MS + random.below(LAST_FAULT_MS - CALM_MS),
    forMs: SHORTEST_MS + random.below(LONGEST_MS - SHORTEST_MS),
    target: random.below(64),
    byMs: amount(kind, random),
  };
}

function amount(kind: FaultKind, random: Random): number {
  if (CLOCKS.includes(kind)) return random.pick([-3_600_000, -5000, 5000, 3_600_000]);
  if (kind === 'network slow') return random.pick([20, 200, 600]);
  return 0;
}

export function describeFault({ kind, atMs, forMs, target, byMs }: PlannedFault): string {
  const by = byMs === 0 ? '' : ` by ${byMs} ms`;
  return `${kind}${by} (number ${target}) at ${atMs} ms for ${forMs} ms`;
}

/**
 * The shortest list that still fails: leaves out one fault after the other for as long as that changes nothing. `fails`
 * runs an episode; what it finds depends on timing, so each shorter list gets `tries` of them.
 */
export async function shrink(plan: Plan, fails: (plan: Plan) => Promise<boolean>, tries = 3): Promise<Plan> {
  let shortest = plan;
  for (let at = 0; at < shortest.faults.length;) {
    const shorter = { ...shortest, faults: shortest.faults.filter((_, index) => index !== at) };
    if (await failsOnce(shorter, fails, tries)) shortest = shorter;
    else at += 1;
  }
  return shortest;
}

async function failsOnce(
  plan: Plan,
  fails: (plan: Plan) => Promise<boolean>,
  tries: number,
): Promise<boolean> {
  for (let count = 0; count < tries; count += 1) if (await fails(plan)) return true;
  return false;
}
