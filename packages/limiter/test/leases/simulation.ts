// Processes with clocks of their own lease from one limit over a bad network. Virtual time throughout: the same seed
// gives the same run. What they admit is replayed through one exact limit, which must refuse nothing.

import type { AnyState, Outcome } from '../../src/algorithms/algorithm.ts';
import type { BucketState } from '../../src/algorithms/bucket/bucket.ts';
import type { HeldLease } from '../../src/algorithms/lease.ts';
import { chargeLease } from '../../src/stores/local/lease-grant.ts';
import { DenialCache } from '../../src/stores/local/denial-cache.ts';
import { StoreClock } from '../../src/stores/local/store-clock.ts';
import { LeaseHolder, type LocalAnswer } from '../../src/stores/local/lease-holder.ts';
import { leasesOf, type LeasedPlan } from '../../src/stores/local/leased-plan.ts';
import { tokenBucket } from '../../src/policy.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';

export interface Fleet {
  readonly plan: LeasedPlan;
  /** From the middle of the run on. */
  readonly laterPlan?: LeasedPlan;
  readonly processes: number;
  /** Requests per second and process. */
  readonly requestRate: number;
  /** How many times as many requests come in every fourth half second. */
  readonly floodFactor: number;
  readonly seconds: number;
  readonly maxCost: number;
  /** Chances per request, in thousandths. */
  readonly lossPerMille: number;
  readonly crashPerMille: number;
  readonly returnPerMille: number;
  /** A process that pauses asks for nothing for a while, and holds what it has. */
  readonly pausePerMille: number;
  /** Default: a second. */
  readonly maxPauseUs?: number;
  readonly maxDelayUs: number;
  /** How far a process's clock runs from the store's, at most, in millionths. */
  readonly driftPpm: number;
  /** Chance per decision of the store that nobody waits for its answer any more: what it charged is given back. */
  readonly latePerMille: number;
  /** As under `leases: 'auto'`. */
  readonly isCareful: boolean;
}

interface Admission {
  readonly atUs: number;
  readonly cost: number;
}

export interface RunResult {
  readonly requests: number;
  readonly admitted: number;
  readonly calls: number;
  readonly leaseCalls: number;
  readonly leasedTokens: number;
  /** Admissions that one exact limit would have refused. */
  readonly refusedInReplay: number;
  /** What one central limit would have admitted of the same requests. */
  readonly centrallyAdmitted: number;
}

/** A deliberate mistake, to show that the replay notices it. */
export interface Mistakes {
  readonly holder?: (plan: LeasedPlan, nowUs: number) => LeaseHolder;
  readonly chargeLease?: typeof chargeLease;
  readonly takeBack?: (state: AnyState, lease: HeldLease, plan: LeasedPlan) => AnyState;
  /** Leases are kept when the numbers change. */
  readonly keepsLeases?: boolean;
}

const START_US = 1_000_000_000;
/** The one key of the fleet. Its numbers do not matter here: the fleet has them. */
const LIMITS = [tokenBucket({ name: 'leased', average: 1, burst: 1, period: '1s' }).for('key')];

export function runFleet(fleet: Fleet, seed: number, mistakes: Mistakes = {}): RunResult {
  return new Simulation(fleet, seededRandom(seed), mistakes).run();
}

class Process {
  private readonly ratio: number;
  private readonly offsetUs: number;
  holder: LeaseHolder;
  readonly denials = new DenialCache();
  readonly storeClock = new StoreClock();
  readonly waiting: number[] = [];
  /** Answers to a process that crashed meanwhile reach nobody. */
  life = 0;

  constructor(fleet: Fleet, random: Random, makeHolder: (nowUs: number) => LeaseHolder) {
    this.ratio = 1 + (random.below(2 * fleet.driftPpm + 1) - fleet.driftPpm) / 1e6;
    this.offsetUs = random.below(1_000_000_000);
    this.holder = makeHolder(this.clockUs(START_US));
  }

  clockUs(trueUs: number): number {
    return this.offsetUs + Math.floor((trueUs - START_US) * this.ratio);
  }
}

class Simulation {
  private readonly events: { readonly atUs: number; readonly run: (atUs: number) => void }[] = [];
  private readonly admissions: Admission[] = [];
  private readonly asked: Admission[] = [];
  private state: AnyState | undefined;
  private plan: LeasedPlan;
  private calls = 0;
  private leaseCalls = 0;
  private leasedTokens = 0;

  private readonly fleet: Fleet;
  private readonly random: Random;
  private readonly mistakes: Mistakes;

  constructor(fleet: Fleet, random: Random, mistakes: Mistakes) {
    this.fleet = fleet;
    this.plan = fleet.plan;
    this.random = random;
    this.mistakes = mistakes;
  }

  run(): RunResult {
    const { fleet } = this;
    const processes = Array.from(
      { length: fleet.processes },
      () => new Process(fleet, this.random, this.makeHolder),
    );
    for (const process of processes) this.nextRequest(process, START_US);
    if (fleet.laterPlan !== undefined)
      this.at(changeUs(fleet), (atUs) => this.changeNumbers(processes, atUs));
    const untilUs = START_US + fleet.seconds * 1_000_000;
    for (
      let event = this.events.shift();
      event !== undefined && event.atUs < untilUs;
      event = this.events.shift()
    ) {
      event.run(event.atUs);
    }
    return {
      requests: this.asked.length,
      admitted: this.admissions.length,
      calls: this.calls,
      leaseCalls: this.leaseCalls,
      leasedTokens: this.leasedTokens,
      refusedInReplay: this.admissions.length - admittedBy(fleet, this.admissions),
      centrallyAdmitted: admittedBy(fleet, this.asked),
    };
  }

  private readonly makeHolder = (nowUs: number): LeaseHolder =>
    this.mistakes.holder?.(this.plan, nowUs) ??
    new LeaseHolder(this.plan, nowUs, { isCareful: this.fleet.isCareful });

  private changeNumbers(processes: readonly Process[], atUs: number): void {
    this.plan = this.fleet.laterPlan ?? this.plan;
    if (this.mistakes.keepsLeases === true) return;
    for (const process of processes) {
      process.holder = this.makeHolder(process.clockUs(atUs));
      this.wake(process, atUs);
    }
  }

  private at(atUs: number, run: (atUs: number) => void): void {
    let place = this.events.length;
    while (place > 0 && (this.events[place - 1]?.atUs ?? 0) > atUs) place -= 1;
    this.events.splice(place, 0, { atUs, run });
  }

  private nextRequest(process: Process, afterUs: number): void {
    const flooded = Math.floor((afterUs - START_US) / 500_000) % 4 === 3;
    const meanUs = 1_000_000 / (this.fleet.requestRate * (flooded ? this.fleet.floodFactor : 1));
    const { pausePerMille, maxPauseUs = 1_000_000 } = this.fleet;
    const pauseUs = this.random.below(1000) < pausePerMille ? this.random.below(maxPauseUs) : 0;
    const waitUs = 1 + pauseUs + this.random.below(2 * meanUs);
    this.at(afterUs + waitUs, (atUs) => {
      this.request(process, atUs);
      this.nextRequest(process, atUs);
    });
  }

  private request(process: Process, atUs: number): void {
    const { random, fleet } = this;
    if (random.below(1000) < fleet.crashPerMille) {
      process.life += 1;
      process.waiting.length = 0;
      process.holder = this.makeHolder(process.clockUs(atUs));
    } else if (random.below(1000) < fleet.returnPerMille) this.giveBack(process, atUs);
    const cost = 1 + random.below(fleet.maxCost);
    this.asked.push({ atUs, cost });
    this.obey(process.holder.decide(cost, process.clockUs(atUs)), process, cost, atUs);
  }

  private obey(answer: LocalAnswer, process: Process, cost: number, atUs: number): void {
    const callsBefore = this.calls;
    if (answer.kind === 'admitted') this.admissions.push({ atUs, cost });
    if (answer.kind === 'wait') process.waiting.push(cost);
    if (answer.kind === 'ask') this.ask(process, cost, atUs);
    this.renew(process, atUs);
    for (const lease of process.holder.releaseOver(process.clockUs(atUs))) this.takeBack(lease, atUs);
    // Both leave in one batch.
    this.calls = Math.min(this.calls, callsBefore + 1);
  }

  private wake(process: Process, atUs: number): void {
    for (const cost of process.waiting.splice(0)) {
      this.obey(process.holder.decideAgain(cost, process.clockUs(atUs)), process, cost, atUs);
    }
  }

  /** One exact decision: it counts at the moment at which the store decides. */
  private ask(process: Process, cost: number, atUs: number): void {
    const sentUs = process.clockUs(atUs);
    if (process.denials.repeat(LIMITS, cost, sentUs) !== undefined) return;
    this.calls += 1;
    if (this.random.below(1000) < this.fleet.lossPerMille) return;
    const { holder } = process;
    this.at(atUs + this.delayUs(), (storeUs) => {
      const { plan } = this;
      const outcome = decide(plan, this.state, cost, storeUs);
      const isLate = this.random.below(1000) < this.fleet.latePerMille;
      const { spent } = outcome;
      if (spent !== undefined) {
        this.state = spent;
        if (!isLate) this.admissions.push({ atUs: storeUs, cost });
        else this.takeBack(chargeAsLease(plan, outcome, cost, storeUs), storeUs);
      }
      this.at(storeUs + this.delayUs(), (heardUs) => {
        holder.noteLeft(outcome.remaining);
        const moment = { storeUs, sentUs, heardUs: process.clockUs(heardUs) };
        process.denials.note(LIMITS, cost, [outcome], process.storeClock.heard(moment));
      });
    });
  }

  private takeBack(lease: HeldLease, atUs: number): void {
    const { rest } = lease;
    this.at(atUs + this.delayUs(), (storeUs) => {
      const { state, mistakes, plan } = this;
      if (state === undefined) return;
      this.state =
        mistakes.takeBack?.(state, lease, plan) ??
        leasesOf(plan).takeBack(state, plan.numbers, rest, storeUs);
    });
  }

  private renew(process: Process, atUs: number): void {
    const want = process.holder.wanted(process.clockUs(atUs));
    if (want === 0) return;
    this.calls += 1;
    this.leaseCalls += 1;
    const { holder, life } = process;
    const sentUs = process.clockUs(atUs);
    holder.asked();
    this.at(atUs + this.delayUs(), (storeUs) => {
      const charged = (this.mistakes.chargeLease ?? chargeLease)(this.state, this.plan, want, storeUs);
      if (charged !== undefined) {
        this.state = charged.spent;
        this.leasedTokens += charged.tokens;
      }
      const left = decide(this.plan, this.state, 0, storeUs).remaining;
      const lost = this.random.below(1000) < this.fleet.lossPerMille;
      this.at(storeUs + this.delayUs(), (heardUs) => {
        if (process.life !== life) return;
        if (lost) {
          holder.failed();
          this.wake(process, heardUs);
          return;
        }
        const grant = charged && { tokens: charged.tokens, end: charged.end };
        holder.granted(want, grant, left, { storeUs, sentUs, heardUs: process.clockUs(heardUs) });
        this.wake(process, heardUs);
      });
    });
  }

  private giveBack(process: Process, atUs: number): void {
    for (const lease of process.holder.release(process.clockUs(atUs))) this.takeBack(lease, atUs);
  }

  private delayUs(): number {
    return 20 + this.random.below(this.fleet.maxDelayUs);
  }
}

function decide(
  { algorithm, numbers }: LeasedPlan,
  state: AnyState | undefined,
  cost: number,
  nowUs: number,
): Outcome<AnyState> {
  return algorithm.decide(state, numbers, cost, nowUs);
}

/** What the store has just charged, as a lease of which nothing was spent: so it is given back. */
function chargeAsLease(
  plan: LeasedPlan,
  { spent, resetAfterUs }: Outcome<AnyState>,
  cost: number,
  atUs: number,
): HeldLease {
  const moment: Partial<BucketState> | undefined = spent;
  const end = { us: moment?.tatUs ?? atUs + resetAfterUs, fraction: moment?.fraction ?? 0 };
  return leasesOf(plan).hold(plan.numbers, { tokens: cost, end });
}

function changeUs({ seconds }: Fleet): number {
  return START_US + seconds * 500_000;
}

/** How many of these one exact limit admits, in this order of time. */
function admittedBy(fleet: Fleet, requests: readonly Admission[]): number {
  const ordered = requests.map((request, place) => ({ ...request, place }));
  ordered.sort((a, b) => a.atUs - b.atUs || a.place - b.place);
  let state: AnyState | undefined;
  let admitted = 0;
  for (const { atUs, cost } of ordered) {
    const plan = atUs < changeUs(fleet) ? fleet.plan : (fleet.laterPlan ?? fleet.plan);
    const { allowed, spent } = decide(plan, state, cost, atUs);
    if (!allowed) continue;
    state = spent;
    admitted += 1;
  }
  return admitted;
}
