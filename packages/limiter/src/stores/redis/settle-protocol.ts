import { costOf, debtPlan, type Limit } from '../../limit.ts';
import { chargeIn, handsOutMoments, partAsLease } from '../settlement.ts';
import {
  SETTLEMENT_REMEMBERED_MS,
  type AdjustedLimit,
  type Adjustment,
  type ReservedCharge,
} from '../store.ts';
import { encodedPlan, notAState, toNumbers, type Answer } from './protocol.ts';
import { scriptCommand, settleScript, type Command } from './script.ts';

/** What an admitted check has charged, so that it can be settled. */
export function chargesOf(
  limits: readonly Limit[],
  cost: number,
  { states = [], verdicts, atUs }: Answer,
): readonly ReservedCharge[] {
  return limits.map((limit, at) => {
    const own = costOf(limit, cost);
    const { algorithm, numbers } = limit.plan;
    const { spent } = algorithm.decide(states[at], numbers, own, atUs);
    if (handsOutMoments(limit) && spent !== undefined)
      return chargeIn(spent, { limit, cost: own, atUs }, true);
    // Of a log the script tells only what answers the question; when it ends is in the verdict, whatever the algorithm.
    return { limit, cost: own, atUs, absentAtUs: atUs + (verdicts[at]?.resetAfterUs ?? 0) };
  });
}

/** How a command gets to its server, and by which time it decides. */
interface SettlementSender {
  readonly route: (command: Command) => Promise<unknown>;
  readonly nowUs: () => string;
}

/** Settles limits of one reservation in one script call. */
export async function runSettlement(
  { route, nowUs }: SettlementSender,
  keys: readonly string[],
  adjustments: readonly Adjustment[],
): Promise<readonly AdjustedLimit[]> {
  const limits = adjustments.map(({ limit }) => limit);
  const args = encodeSettlement(adjustments, SETTLEMENT_REMEMBERED_MS, nowUs());
  const reply = await route(scriptCommand(settleScript(limits), keys, args));
  const settled = decodeSettlement(limits.length, reply);
  if (settled !== undefined) return settled;
  throw notAState(limits);
}

/** Stands for a limit of which nothing is given back any more. */
const EXPIRED = -1;
/** Stands for a limit whose key holds something that is not a state. */
const FAULT = -2;

/** The arguments of a settlement after the keys. */
function encodeSettlement(adjustments: readonly Adjustment[], rememberedMs: number, nowUs: string): string[] {
  const args = [nowUs, String(rememberedMs)];
  for (const adjustment of adjustments) {
    const { limit, expiresAtUs, debt } = adjustment;
    const plan = debt > 0 ? debtPlan(limit) : limit.plan;
    args.push(encodedPlan(plan, nowUs), String(expiresAtUs), encodedChange(adjustment));
  }
  return args;
}

/** Whether a limit's refunds are moments of virtual time is the same for all of them. */
function encodedChange({ debt, refunds }: Adjustment): string {
  if (debt > 0) return `charge ${debt}`;
  const isReturn = refunds.some(({ end }) => end !== undefined);
  const parts = refunds.map((part) => {
    if (part.end === undefined) return ` ${part.cost} ${part.atUs} ${part.absentAtUs}`;
    const { next, end } = partAsLease(part, part.end);
    return ` ${next.us} ${next.fraction} ${end.us} ${end.fraction}`;
  });
  return (isReturn ? 'return' : 'refund') + parts.join('');
}

/** Undefined where a key held something that is not a state: then nothing was changed. */
function decodeSettlement(count: number, reply: unknown): readonly AdjustedLimit[] | undefined {
  const done = toNumbers(reply);
  if (done.length !== count)
    throw new TypeError(`the script settled ${done.length} limits, expected ${count}`);
  if (done.includes(FAULT)) return undefined;
  return done.map((charged) => ({ charged: Math.max(0, charged), expired: charged === EXPIRED }));
}
