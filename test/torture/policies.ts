// What the fleet is asked about. Every policy gets more traffic than it allows, except for the budget.
import { slidingWindowLog, tokenBucket } from 'spillgate';
import { WORKERS } from './plan.ts';

const SECOND_US = 1_000_000;

/**
 * Asked of the gateway, too. A worker has several keys of it, one per stage. All leave a key alone until it is full,
 * then its worker takes it whole, and after a pause the others take what they can: a refund in full shows in what they
 * get.
 */
export const SHARED = { name: 'shared', average: 1000, burst: 400, period: '1s' } as const;

/** The stages follow each other, so that soon after any moment some key is taken whole. */
export const SHARED_CYCLE = { lengthMs: 1500, stages: 5, takenAtMs: 450, sharedAtMs: 650 } as const;

/** The key of one worker in one stage, and what is noted of it. */
export function sharedKey(key: string, worker: number, stage: number): string {
  return `${key}-${worker}-${stage}`;
}
/** The first decisions of it are replayed exactly. */
export const ALONE = { name: 'alone', average: 100, burst: 50, period: '1s' } as const;
export const LEASED = { name: 'leased', average: 1000, burst: 1000, period: '1s', leases: true } as const;
/**
 * All ask for a moment, which leaves them leases; nobody asks until the bucket is full again; then all take what they
 * can: a lease that outlived the pause shows in what they get.
 */
export const LEASED_CYCLE = {
  lengthMs: 2000,
  asksForMs: 60,
  fullAtMs: 1200,
  takesForMs: 400,
  cost: 5,
} as const;
/** Charged together with one that denies: what was spent here comes back. */
export const LEFT = { name: 'left', average: 100, burst: 100, period: '1s' } as const;
export const RIGHT = { name: 'right', quota: 20, window: '1s' } as const;
/** Gets no token back within an episode, so that every charge of it can be counted. */
export const BUDGET = { name: 'budget', average: 1, burst: 1_000_000, period: '1h' } as const;

/** How a policy is judged: at most `burst` above the rate on every interval, or in every window. */
export interface JudgedPolicy {
  readonly name: string;
  readonly burst: number;
  readonly ratePerUs: number;
  /** Set for a log. */
  readonly windowUs?: number;
}

export const JUDGED: readonly JudgedPolicy[] = [
  ...Array.from({ length: WORKERS * SHARED_CYCLE.stages }, (_, at) => {
    const { name, average, burst } = SHARED;
    const key = sharedKey(name, at % WORKERS, Math.floor(at / WORKERS));
    return { name: key, burst, ratePerUs: average / SECOND_US };
  }),
  ...[ALONE, LEASED, LEFT].map(({ name, average, burst }) => {
    return { name, burst, ratePerUs: average / SECOND_US };
  }),
  { name: RIGHT.name, burst: RIGHT.quota, ratePerUs: RIGHT.quota / SECOND_US, windowUs: SECOND_US },
];

export const exactPlan = tokenBucket(ALONE).plan;
export const budgetPolicy = tokenBucket(BUDGET);

/** Under the numbers of all of them, the library takes what the gateway has in its file. */
export const GATEWAY_POLICY = `{ algorithm: tokenBucket, average: ${SHARED.average}, burst: ${SHARED.burst}, period: ${SHARED.period} }`;

/** Mistakes in these numbers are seen here, not in another process. */
slidingWindowLog(RIGHT);
tokenBucket(LEASED);
