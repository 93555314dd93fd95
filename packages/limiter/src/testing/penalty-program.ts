import type { Limit, Policy } from '../limit.ts';
import { fixedWindow, slidingWindowLog, tokenBucket } from '../policy.ts';
import type { StoreVerdict } from '../stores/store.ts';
import { seededRandom, type Random } from './random.ts';
import type { RandomProgram } from './random-program.ts';
import { virtualClock, type VirtualClock } from './virtual-clock.ts';

const MS = 1000;
const SECOND = 1000 * MS;
/** Nothing of the policies below reaches further back. */
const HISTORY_US = 60 * SECOND;
const KEYS = ['ann', 'bob', '{x}'];

/** Whether a cost fits, by definition, after these admissions. */
type Fits = (admissions: readonly AdmittedCost[], cost: number, atUs: number) => boolean;

interface AdmittedCost {
  readonly atUs: number;
  readonly cost: number;
}

interface BlockRule {
  readonly after: number;
  readonly withinUs: number;
  readonly forUs: number;
}

interface ModelledPolicy {
  readonly policy: Policy;
  readonly fits: Fits;
  readonly rule: BlockRule | undefined;
}

export interface PenaltyProgramResult {
  readonly allowed: number;
  readonly denied: number;
  /** Blocks that began. */
  readonly penalties: number;
  /** Denials during a block. */
  readonly blocked: number;
}

/**
 * Runs a seeded random program of policies with `block` against a store and against their definition: lists of all
 * admissions, denials and blocks, searched anew for every answer. Throws at the first answer that differs.
 */
export async function runPenaltyProgram(program: RandomProgram): Promise<PenaltyProgramResult> {
  const random = seededRandom(program.seed);
  const clock = virtualClock();
  const store = await program.createStore(clock);
  const model = new PenaltyModel();
  const result = { allowed: 0, denied: 0, penalties: 0, blocked: 0 };
  let last: readonly StoreVerdict[] = [];
  try {
    for (let operation = 0; operation < program.operations; operation += 1) {
      moveClock(random, clock, last);
      const { verb, limits, cost } = randomStep(random);
      if (verb === 'forget') {
        await store.forget(limits);
        model.forget(limits);
        continue;
      }
      const known = verb === 'check' ? store.checkLocally?.(limits, cost) : undefined;
      const verdicts = known ?? (await store[verb](limits, cost));
      const isLocal = known !== undefined;
      const problem = model.compare({ verb, limits, cost, nowUs: clock(), verdicts, isLocal });
      if (problem !== undefined)
        throw new Error(
          `The store disagrees about a block (seed ${program.seed}, operation ${operation}): ${problem}`,
        );
      last = verdicts;
      result[verdicts.every(({ allowed }) => allowed) ? 'allowed' : 'denied'] += 1;
      result.penalties += verdicts.filter(({ penaltyBegan }) => penaltyBegan === true).length;
      result.blocked += verdicts.filter(isBlockedAlready).length;
    }
  } finally {
    await store.close();
  }
  return result;
}

function isBlockedAlready({ penaltyBegan, penaltyLeftUs = 0 }: StoreVerdict): boolean {
  return penaltyLeftUs > 0 && penaltyBegan !== true;
}

function fixed(quota: number, windowUs: number): Fits {
  return (admissions, cost, atUs) => {
    const startUs = atUs - (atUs % windowUs);
    return cost + sum(admissions.filter((admission) => admission.atUs >= startUs)) <= quota;
  };
}

function log(quota: number, windowUs: number): Fits {
  return (admissions, cost, atUs) =>
    cost + sum(admissions.filter((admission) => admission.atUs > atUs - windowUs)) <= quota;
}

/** From no admission on, more was admitted than the burst and what came back since. */
function bucket(burst: number, average: number, periodUs: number): Fits {
  return (admissions, cost, atUs) =>
    cost <= burst &&
    admissions.every(
      (from, at) => (sum(admissions.slice(at)) + cost - burst) * periodUs <= average * (atUs - from.atUs),
    );
}

function sum(admissions: readonly AdmittedCost[]): number {
  return admissions.reduce((total, { cost }) => total + cost, 0);
}

const POLICIES: readonly ModelledPolicy[] = [
  {
    policy: fixedWindow({
      name: 'login',
      quota: 3,
      window: '1s',
      block: { after: 2, within: '3s', for: '5s' },
    }),
    fits: fixed(3, SECOND),
    rule: { after: 2, withinUs: 3 * SECOND, forUs: 5 * SECOND },
  },
  {
    policy: slidingWindowLog({
      name: 'search',
      quota: 2,
      window: 700,
      block: { after: 3, within: '1s', for: 1500 },
    }),
    fits: log(2, 700 * MS),
    rule: { after: 3, withinUs: SECOND, forUs: 1500 * MS },
  },
  {
    policy: tokenBucket({
      name: 'api',
      average: 3,
      burst: 2,
      period: '1s',
      block: { after: 5, within: '10s', for: '2s' },
    }),
    fits: bucket(2, 3, SECOND),
    rule: { after: 5, withinUs: 10 * SECOND, forUs: 2 * SECOND },
  },
  {
    policy: fixedWindow({ name: 'once', quota: 1, window: '1s', block: { after: 1, within: 1, for: 250 } }),
    fits: fixed(1, SECOND),
    rule: { after: 1, withinUs: MS, forUs: 250 * MS },
  },
  { policy: fixedWindow({ name: 'plain', quota: 5, window: '1s' }), fits: fixed(5, SECOND), rule: undefined },
];

interface PenaltyStep {
  readonly verb: 'check' | 'peek' | 'forget';
  readonly limits: readonly Limit[];
  readonly cost: number;
}

interface AnsweredStep extends PenaltyStep {
  readonly nowUs: number;
  readonly verdicts: readonly StoreVerdict[];
  /** Known without asking a server: the waits may be a little long. */
  readonly isLocal: boolean;
}

/** How much a server's clock may be ahead of what is known of it. */
const LOCAL_ERROR_US = MS;

/** One limit: everything that ever happened to it. */
class LimitHistory {
  private readonly modelled: ModelledPolicy;
  private admissions: readonly AdmittedCost[] = [];
  private denials: readonly number[] = [];
  private blocks: readonly { readonly fromUs: number; readonly untilUs: number }[] = [];

  constructor(modelled: ModelledPolicy) {
    this.modelled = modelled;
  }

  fits(cost: number, atUs: number): boolean {
    return cost === 0 || this.modelled.fits(this.admissions, cost, atUs);
  }

  blockedForUs(atUs: number): number {
    const block = this.blocks.find(({ fromUs, untilUs }) => fromUs <= atUs && atUs < untilUs);
    return block === undefined ? 0 : block.untilUs - atUs;
  }

  admits(cost: number, atUs: number): boolean {
    return this.blockedForUs(atUs) === 0 && this.fits(cost, atUs);
  }

  admit(cost: number, atUs: number): void {
    const live = this.admissions.filter((admission) => admission.atUs > atUs - HISTORY_US);
    this.admissions = [...live, { atUs, cost }];
  }

  /** True if it begins a block. Only denials after the last block count. */
  deny(atUs: number): boolean {
    const { rule } = this.modelled;
    if (rule === undefined) return false;
    const sinceUs = this.blocks.at(-1)?.fromUs ?? -1;
    this.denials = [...this.denials.filter((denialUs) => denialUs > atUs - HISTORY_US), atUs];
    this.denials = this.denials.filter((denialUs) => denialUs > sinceUs);
    const counted = this.denials.filter((denialUs) => denialUs > atUs - rule.withinUs);
    if (counted.length < rule.after) return false;
    this.blocks = [...this.blocks.slice(-1), { fromUs: atUs, untilUs: atUs + rule.forUs }];
    this.denials = [];
    return true;
  }
}

class PenaltyModel {
  private readonly histories = new Map<string, LimitHistory>();

  forget(limits: readonly Limit[]): void {
    for (const limit of limits) this.histories.delete(nameOf(limit));
  }

  /** What is wrong with the answer; undefined if nothing is. */
  compare({ verb, limits, cost, nowUs, verdicts, isLocal }: AnsweredStep): string | undefined {
    const histories = limits.map((limit) => this.historyOf(limit));
    const admitted = histories.every((history) => history.admits(cost, nowUs));
    const expected = histories.map((history) => {
      const blockedUs = history.blockedForUs(nowUs);
      const allowed = history.admits(cost, nowUs);
      const counts = verb === 'check' && blockedUs === 0 && !allowed;
      const began = counts && history.deny(nowUs);
      return { allowed, penaltyLeftUs: history.blockedForUs(nowUs), penaltyBegan: began };
    });
    if (verb === 'check' && admitted && cost > 0) for (const history of histories) history.admit(cost, nowUs);
    const actual = verdicts.map(({ allowed, penaltyLeftUs: leftUs = 0, penaltyBegan = false }, at) => {
      const exactUs = expected[at]?.penaltyLeftUs ?? 0;
      const isClose = isLocal && exactUs > 0 && leftUs >= exactUs && leftUs - exactUs <= LOCAL_ERROR_US;
      return { allowed, penaltyLeftUs: isClose ? exactUs : leftUs, penaltyBegan };
    });
    const about = JSON.stringify({ verb, limits: limits.map(nameOf), cost, nowUs, actual, expected });
    if (JSON.stringify(actual) !== JSON.stringify(expected)) return about;
    const isEarliest = verdicts.every(({ retryAfterUs }, at) => {
      const history = histories[at];
      return history === undefined || isTrueWait(history, { cost, nowUs, retryAfterUs, isLocal });
    });
    return isEarliest ? undefined : `a wait is not the shortest that is enough: ${about}`;
  }

  private historyOf(limit: Limit): LimitHistory {
    const name = nameOf(limit);
    const known = this.histories.get(name);
    if (known !== undefined) return known;
    const modelled = POLICIES.find(({ policy }) => policy === limit.policy);
    if (modelled === undefined) throw new RangeError(`no model of ${name}`);
    const history = new LimitHistory(modelled);
    this.histories.set(name, history);
    return history;
  }
}

/** Obeyed, it is admitted, and a microsecond earlier it is not. */
function isTrueWait(
  history: LimitHistory,
  {
    cost,
    nowUs,
    retryAfterUs,
    isLocal,
  }: Pick<AnsweredStep, 'cost' | 'nowUs' | 'isLocal'> & Pick<StoreVerdict, 'retryAfterUs'>,
): boolean {
  if (retryAfterUs === 0) return true;
  if (retryAfterUs < 0) return !history.fits(cost, nowUs + HISTORY_US);
  const earlyUs = isLocal ? LOCAL_ERROR_US : 1;
  return history.admits(cost, nowUs + retryAfterUs) && !history.admits(cost, nowUs + retryAfterUs - earlyUs);
}

function nameOf({ policy, key }: Limit): string {
  return `${policy.name}/${key}`;
}

function randomStep(random: Random): PenaltyStep {
  const first = random.below(POLICIES.length);
  const count = random.below(4) === 0 ? 2 : 1;
  const limits = Array.from({ length: count }, (_, at) => {
    const { policy } = POLICIES[(first + at) % POLICIES.length] ?? random.pick(POLICIES);
    return policy.for(random.pick(KEYS));
  });
  const cost = random.pick([1, 1, 1, 1, 1, 2, 3, 0, 6]);
  const dice = random.below(60);
  return { verb: dice === 0 ? 'forget' : dice < 8 ? 'peek' : 'check', limits, cost };
}

function moveClock(random: Random, clock: VirtualClock, last: readonly StoreVerdict[]): void {
  const verdict = last.length === 0 ? undefined : random.pick(last);
  const retryUs = Math.max(0, verdict?.retryAfterUs ?? 0);
  const leftUs = verdict?.penaltyLeftUs ?? 0;
  const rule = random.pick(POLICIES).rule;
  const steps = [
    0,
    0,
    0,
    1,
    retryUs,
    retryUs - 1,
    leftUs,
    leftUs - 1,
    random.below(SECOND),
    random.below(MS),
  ];
  steps.push(random.below(200 * MS), random.below(4) === 0 ? (rule?.withinUs ?? 0) - random.below(2) : 0);
  clock.set(clock() + Math.max(0, random.pick(steps)));
}
