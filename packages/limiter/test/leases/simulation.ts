// Processes with clocks of their own lease from one bucket over a bad network. Virtual time throughout: the same seed
// gives the same run. What they admit is replayed through one exact bucket, which must refuse nothing.

import { Outcome } from '../../src/algorithms/algorithm.ts';
import { decideBucket, type CompiledBucket, type BucketState } from '../../src/algorithms/bucket/bucket.ts';
import { chargeLease, returnTail } from '../../src/stores/local/lease-grant.ts';
import { DenialCache } from '../../src/stores/local/denial-cache.ts';
import { LeaseHolder, type LocalAnswer } from '../../src/stores/local/lease-holder.ts';
import { TokenLease } from '../../src/stores/local/token-lease.ts';
import { tokenBucket } from '../../src/policy.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';

export interface Fleet {
  readonly numbers: CompiledBucket;
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
  /** A process that pauses asks for nothing for up to a second, and holds what it has. */
  readonly pausePerMille: number;
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
  /** Admissions that one exact bucket would have refused. */
  readonly refusedInReplay: number;
  /** What one central bucket would have admitted of the same requests. */
  readonly centrallyAdmitted: number;
}

/** A deliberate mistake, to show that the replay notices it. */
export interface Mistakes {
  readonly holder?: (numbers: CompiledBucket, nowUs: number) => LeaseHolder;
  readonly chargeLease?: typeof chargeLease;
  readonly returnTail?: (state: BucketState, lease: TokenLease) => BucketState;
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
  private state: BucketState | undefined;
  private calls = 0;
  private leaseCalls = 0;
  private leasedTokens = 0;

  private readonly fleet: Fleet;
  private readonly random: Random;
  private readonly mistakes: Mistakes;

  constructor(fleet: Fleet, random: Random, mistakes: Mistakes) {
    this.fleet = fleet;
    this.random = random;
    this.mistakes = mistakes;
  }

  run(): RunResult {
    const { fleet } = this;
    for (let index = 0; index < fleet.processes; index += 1) {
      const process = new Process(fleet, this.random, this.makeHolder);
      this.nextRequest(process, START_US);
    }
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
      refusedInReplay: this.admissions.length - admittedBy(fleet.numbers, this.admissions),
      centrallyAdmitted: admittedBy(fleet.numbers, this.asked),
    };
  }

  private readonly makeHolder = (nowUs: number): LeaseHolder =>
    this.mistakes.holder?.(this.fleet.numbers, nowUs) ??
    new LeaseHolder(this.fleet.numbers, nowUs, { isCareful: this.fleet.isCareful });

  private at(atUs: number, run: (atUs: number) => void): void {
    let place = this.events.length;
    while (place > 0 && (this.events[place - 1]?.atUs ?? 0) > atUs) place -= 1;
    this.events.splice(place, 0, { atUs, run });
  }

  private nextRequest(process: Process, afterUs: number): void {
    const flooded = Math.floor((afterUs - START_US) / 500_000) % 4 === 3;
    const meanUs = 1_000_000 / (this.fleet.requestRate * (flooded ? this.fleet.floodFactor : 1));
    const pauseUs = this.random.below(1000) < this.fleet.pausePerMille ? this.random.below(1_000_000) : 0;
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
      const outcome = decideBucket(this.state, this.fleet.numbers, cost, storeUs, new Outcome());
      const isLate = this.random.below(1000) < this.fleet.latePerMille;
      const { spent } = outcome;
      if (spent !== undefined) {
        this.state = spent;
        const end = { us: spent.tatUs, fraction: spent.fraction };
        if (!isLate) this.admissions.push({ atUs: storeUs, cost });
        else this.refund(new TokenLease(this.fleet.numbers, { tokens: cost, end }), storeUs);
      }
      this.at(storeUs + this.delayUs(), (heardUs) => {
        holder.noteLeft(outcome.remaining);
        process.denials.note(LIMITS, cost, [outcome], { storeUs, sentUs, heardUs: process.clockUs(heardUs) });
      });
    });
  }

  private refund(charge: TokenLease, atUs: number): void {
    this.at(atUs + 2 * this.delayUs(), (storeUs) => {
      const { state, mistakes } = this;
      this.state =
        state !== undefined && mistakes.returnTail !== undefined
          ? mistakes.returnTail(state, charge)
          : returnTail(state, charge, storeUs);
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
      const charged = (this.mistakes.chargeLease ?? chargeLease)(
        this.state,
        this.fleet.numbers,
        want,
        storeUs,
      );
      if (charged !== undefined) {
        this.state = charged.spent;
        this.leasedTokens += charged.tokens;
      }
      const left = decideBucket(this.state, this.fleet.numbers, 0, storeUs, new Outcome()).remaining;
      const lost = this.random.below(1000) < this.fleet.lossPerMille;
      this.at(storeUs + this.delayUs(), (heardUs) => {
        if (process.life !== life) return;
        if (lost) {
          holder.failed();
          this.wake(process, heardUs);
          return;
        }
        const grant =
          charged === undefined
            ? undefined
            : { tokens: charged.tokens, end: { us: charged.spent.tatUs, fraction: charged.spent.fraction } };
        holder.granted(want, grant, left, { storeUs, sentUs, heardUs: process.clockUs(heardUs) });
        this.wake(process, heardUs);
      });
    });
  }

  private giveBack(process: Process, atUs: number): void {
    for (const lease of process.holder.release(process.clockUs(atUs))) {
      this.at(atUs + this.delayUs(), (storeUs) => {
        const { state, mistakes } = this;
        this.state =
          state !== undefined && mistakes.returnTail !== undefined
            ? mistakes.returnTail(state, lease)
            : returnTail(state, lease, storeUs);
      });
    }
  }

  private delayUs(): number {
    return 20 + this.random.below(this.fleet.maxDelayUs);
  }
}

/** How many of these one exact bucket admits, in this order of time. */
function admittedBy(numbers: CompiledBucket, requests: readonly Admission[]): number {
  const ordered = requests.map((request, place) => ({ ...request, place }));
  ordered.sort((a, b) => a.atUs - b.atUs || a.place - b.place);
  let state: BucketState | undefined;
  let admitted = 0;
  for (const { atUs, cost } of ordered) {
    const { allowed, spent } = decideBucket(state, numbers, cost, atUs, new Outcome());
    if (!allowed) continue;
    state = spent;
    admitted += 1;
  }
  return admitted;
}
