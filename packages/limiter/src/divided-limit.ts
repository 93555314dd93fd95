import { divideBucket } from './bucket-rate.ts';
import { Limit, planOf, type Plan } from './limit.ts';
import type { AnyNumbers } from './algorithms/index.ts';

/** One instance's share of limits: the numbers divided by how many instances there are, the same period or window. */
export class Divider {
  private readonly instances: number;
  /** Lives as long as the policies and overrides themselves. */
  private readonly shares = new WeakMap<Plan, Plan>();

  constructor(instances: number) {
    this.instances = instances;
  }

  divide(limits: readonly Limit[]): readonly Limit[] {
    if (this.instances === 1) return limits;
    return limits.map(
      (limit) => new DividedLimit(limit, this.shareOf(limit.plan), this.shareOf(limit.usualPlan)),
    );
  }

  private shareOf(plan: Plan): Plan {
    const known = this.shares.get(plan);
    if (known !== undefined) return known;
    const share = planOf(plan.algorithm, divideNumbers(plan, this.instances), plan.stateId);
    this.shares.set(plan, share);
    return share;
  }
}

class DividedLimit extends Limit {
  private readonly usualShare: Plan;

  constructor(whole: Limit, share: Plan, usualShare: Plan) {
    super(whole.policy, share, whole.key, whole.stateKey);
    this.usualShare = usualShare;
  }

  override get usualPlan(): Plan {
    return this.usualShare;
  }
}

function divideNumbers({ algorithm, numbers }: Plan, instances: number): AnyNumbers {
  if (!('tokenUnits' in numbers)) {
    return { ...numbers, limit: Math.max(1, Math.floor(numbers.limit / instances)) };
  }
  if (algorithm.name === 'tokenBucket') {
    return divideBucket(numbers, { tokens: numbers.limit, delayUs: 0 }, instances);
  }
  // A queue holds one unit that is served and what fits into its delay, which stays: nobody waits longer than the policy says.
  const delayUs = (numbers.capacityUnits - numbers.tokenUnits) / numbers.drainUnits;
  return divideBucket(numbers, { tokens: 1, delayUs }, instances);
}
