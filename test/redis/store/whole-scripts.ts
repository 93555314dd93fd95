import { ALGORITHMS } from '#limiter/algorithms/index.js';
import {
  decideScriptOf,
  leaseScriptOf,
  refundScriptOf,
  settleScriptOf,
} from '#limiter/stores/redis/script.js';

/** The scripts that know every algorithm. */
const algorithms = Object.values(ALGORITHMS);

export const DECIDE_SCRIPT: string = decideScriptOf(algorithms).source;
/** The same for limits that block keys. */
export const PENALTY_SCRIPT: string = decideScriptOf(algorithms, true).source;
export const REFUND_SCRIPT: string = refundScriptOf(algorithms).source;
export const SETTLE_SCRIPT: string = settleScriptOf(algorithms).source;
export const LEASE_SCRIPT: string = leaseScriptOf(
  algorithms.filter(({ leases }) => leases !== undefined),
).source;
