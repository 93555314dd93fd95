// What the fleet is asked about. Every policy gets more traffic than it allows, except for the budget.
import { slidingWindowLog, tokenBucket } from 'spillgate';
import { WORKERS } from './plan.ts';

const SECOND_US = 1_000_000;

/**
 * Asked of the gateway, too, under a key per worker. All leave it alone until it is full, then its worker takes it
 * whole, and after a pause the others take what they can: a refund in full shows in what they get.
 */
export const SHARED = { name: 'shared', average: 1000, burst: 400, period: '1s' } as const;

/** The key of one worker, and what is noted of it. */
export function sharedKey(key: string, worker: number): string {
  return `${key}-${worker}`;
}
/** The first decisions of it are replayed exactly. */
export const ALONE = { name: 'alone', average: 100, burst: 50, period: '1s' } as const;
export const LEASED = { name: 'leased', average: 400, burst: 200, period: '1s', leases: true } as const;
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
  ...Array.from({ length: WORKERS }, (_, worker) => {
    const { name, average, burst } = SHARED;
    return { name: sharedKey(name, worker), burst, ratePerUs: average / SECOND_US };
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
