import { Limit, planOf, type Plan } from './limit.ts';

/** One instance's share of limits: the numbers divided by how many instances there are, the same period or window. */
export class InstanceShare {
  private readonly instances: number;
  /** Lives as long as the policies and overrides themselves. */
  private readonly shares = new WeakMap<Plan, Plan>();

  constructor(instances: number) {
    this.instances = instances;
  }

  divide(limits: readonly Limit[]): readonly Limit[] {
    if (this.instances === 1) return limits;
    return limits.map(
      (limit) => new SharedLimit(limit, this.shareOf(limit.plan), this.shareOf(limit.usualPlan)),
    );
  }

  private shareOf(plan: Plan): Plan {
    const known = this.shares.get(plan);
    if (known !== undefined) return known;
    const { algorithm, numbers, stateId, penalty } = plan;
    const share = planOf(algorithm, algorithm.share(numbers, this.instances), stateId, penalty);
    this.shares.set(plan, share);
    return share;
  }
}

class SharedLimit extends Limit {
  private readonly usualShare: Plan;

  constructor(whole: Limit, share: Plan, usualShare: Plan) {
    super(whole.policy, share, whole.key, whole.stateKey);
    Object.assign(this, { cost: whole.cost });
    this.usualShare = usualShare;
  }

  override get usualPlan(): Plan {
    return this.usualShare;
  }
}
