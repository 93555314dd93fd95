import type { PenaltyNumbers } from './algorithms/penalty/penalty.ts';
import { formatDuration, parseDuration, type Duration } from './duration.ts';
import { LimiterError, show } from './errors.ts';
import type { Limit } from './limit.ts';

/** When a policy blocks a key by itself: who is denied `after` times `within` a time is denied `for` a time. */
export interface BlockOptions {
  /** The denial that begins the block, an integer from 1 to 1000. */
  readonly after: number;
  /** For how long a denial counts. */
  readonly within: Duration;
  /** How long the block lasts, from the denial that began it. Denials during a block do not extend it. */
  readonly for: Duration;
}

/** A store keeps the moment of each denial that counts. */
const MAX_AFTER = 1000;
/** A year. */
const MAX_BLOCK_US = 365 * 86_400_000_000;

/** The numbers of a block; undefined where a policy has none. */
export function acceptBlock(block: unknown): PenaltyNumbers | undefined {
  if (block === undefined) return undefined;
  if (typeof block !== 'object' || block === null || Array.isArray(block)) {
    throw new LimiterError(
      'INVALID_POLICY',
      `block is ${show(block)}; expected an object such as { after: 5, within: '1m', for: '15m' }.`,
    );
  }
  const unknown = Object.keys(block).find((name) => !['after', 'within', 'for'].includes(name));
  if (unknown !== undefined) {
    throw new LimiterError(
      'INVALID_POLICY',
      `block does not know ${show(unknown)}; it takes after, within, for: correct the spelling or leave it out.`,
    );
  }
  const given = new Map<string, unknown>(Object.entries(block));
  return {
    after: acceptAfter(given.get('after')),
    withinUs: parseDuration(given.get('within'), { name: 'block.within', minUs: 1000, maxUs: MAX_BLOCK_US }),
    forUs: parseDuration(given.get('for'), { name: 'block.for', minUs: 1000, maxUs: MAX_BLOCK_US }),
  };
}

function acceptAfter(after: unknown): number {
  if (typeof after === 'number' && Number.isInteger(after) && after >= 1 && after <= MAX_AFTER) return after;
  throw new LimiterError(
    'INVALID_POLICY',
    `block.after is ${show(after)}; expected an integer from 1 to ${MAX_AFTER}: how many denials begin a block.`,
  );
}

/** Tokens that a process holds in advance are admitted without a look at the block. */
export function requireNoLeases(leases: unknown): void {
  if (leases === undefined || leases === false) return;
  throw new LimiterError(
    'INVALID_POLICY',
    `leases is ${show(leases)} and block is set; a lease would go on admitting a key that is blocked: leave one of them out.`,
  );
}

export function requireNoPenalties(limits: readonly Pick<Limit, 'policy' | 'plan'>[]): void {
  for (const { policy, plan } of limits) {
    if (plan.penalty === undefined) continue;
    throw new LimiterError(
      'BLOCK_UNSUPPORTED',
      `Policy ${show(policy.name)} has block, and the store of this limiter does not keep denials: use memoryStore() or redisStore().`,
    );
  }
}

/** Why a key is blocked, for people. */
export function penaltyReason({ after, withinUs }: PenaltyNumbers): string {
  return `denied ${after} ${after === 1 ? 'time' : 'times'} within ${formatDuration(withinUs)}`;
}
