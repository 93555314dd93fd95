import type { Decision, Limit, Limiter, Policy, Reservation, Settlement } from '../../src/index.ts';
import type { VirtualClock } from '../../src/testing/index.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';
import type { Entry, Ledger } from './ledger.ts';

/** A policy, and what decides a key of it a second time. */
export interface ReservationSubject {
  readonly policy: Policy;
  ledger(): Ledger;
}

export interface ReservationProgram {
  readonly limiter: Limiter;
  readonly clock: VirtualClock;
  readonly subjects: readonly ReservationSubject[];
  readonly seed: number;
  readonly steps: number;
  /** How much more than the reservation may be used, in parts of it. Default: 5. */
  readonly overuse?: number;
}

export interface ProgramResult {
  readonly decisions: number;
  readonly settlements: number;
  readonly debts: number;
  readonly uncharged: number;
  readonly expired: number;
  /** Everything that was charged to each policy, at what it cost in the end. */
  readonly entries: ReadonlyMap<Policy, readonly Entry[]>;
}

const STEPS_US = [0, 1, 7, 1000, 50_000, 142_857, 333_333, 700_000, 1_000_000, 3_000_001];
const LONG_STEP_US = 30_000_000_000;

/** A limit of a call, and its ledger. */
interface Asked {
  readonly limit: Limit;
  readonly ledger: Ledger;
  readonly policy: Policy;
}

interface Standing {
  readonly asked: readonly Asked[];
  readonly reservation: Reservation;
  readonly parts: { readonly cost: number; readonly entries: readonly Entry[]; readonly atUs: number }[];
  readonly expiresInUs: number;
  ended: Settlement | undefined;
}

/** Random checks, reservations, extensions and settlements; throws where the limiter and the ledgers disagree. */
export async function runReservations(program: ReservationProgram): Promise<ProgramResult> {
  return new Run(program).run();
}

class Run {
  private readonly program: ReservationProgram;
  private readonly random: Random;
  private readonly ledgers: ReadonlyMap<Policy, Ledger>;
  private readonly entries = new Map<Policy, Entry[]>();
  private readonly standing: Standing[] = [];
  private readonly key: string;
  private readonly counts = { decisions: 0, settlements: 0, debts: 0, uncharged: 0, expired: 0 };
  private step = 0;

  constructor(program: ReservationProgram) {
    this.program = program;
    this.random = seededRandom(program.seed);
    this.key = `program ${program.seed}`;
    this.ledgers = new Map(program.subjects.map((subject) => [subject.policy, subject.ledger()]));
  }

  async run(): Promise<ProgramResult> {
    for (this.step = 0; this.step < this.program.steps; this.step += 1) {
      const { clock } = this.program;
      clock.set(clock() + (this.random.below(100) === 0 ? LONG_STEP_US : this.random.pick(STEPS_US)));
      await this.act();
    }
    return { ...this.counts, entries: this.entries };
  }

  private async act(): Promise<void> {
    const choice = this.random.below(10);
    const standing = this.standing.length === 0 ? undefined : this.random.pick(this.standing);
    if (choice < 3 || standing === undefined) return this.reserve();
    if (choice < 5) return this.check();
    if (choice < 6) return this.extend(standing);
    if (choice < 9) return this.settle(standing);
    return this.cancel(standing);
  }

  private get nowUs(): number {
    return this.program.clock();
  }

  /** One to three limits, of which one may have a cost of its own. */
  private ask(): readonly Asked[] {
    const { subjects } = this.program;
    const wanted = new Set(
      Array.from({ length: 1 + this.random.below(3) }, () => this.random.pick(subjects)),
    );
    const costly = this.random.below(3) === 0 ? this.random.below(wanted.size) : -1;
    return [...wanted].map(({ policy }, at) => {
      const limit = policy.for(this.key);
      const ledger = this.ledgers.get(policy);
      if (ledger === undefined) throw new RangeError('every policy has a ledger');
      return {
        limit: at === costly && wanted.size > 1 ? limit.withCost(1 + this.random.below(2)) : limit,
        ledger,
        policy,
      };
    });
  }

  private cost(): number {
    return 1 + this.random.below(this.random.below(10) === 0 ? 12 : 5);
  }

  private async check(): Promise<void> {
    const asked = this.ask();
    const cost = this.cost();
    const decision = await this.program.limiter.check(
      asked.map(({ limit }) => limit),
      { cost },
    );
    this.expectDecision(decision, asked, cost);
  }

  private async reserve(): Promise<void> {
    const asked = this.ask();
    const cost = this.cost();
    const expiresInUs = this.random.pick([1_000_000, 3_600_000_000]);
    const reservation = await this.program.limiter.reserve(
      asked.map(({ limit }) => limit),
      { cost, expiresIn: expiresInUs / 1000 },
    );
    const entries = this.expectDecision(reservation.decision, asked, cost);
    this.expect('reserved', reservation.reserved, reservation.allowed ? cost : 0);
    if (!reservation.allowed) return;
    this.standing.push({
      asked,
      reservation,
      parts: [{ cost, entries, atUs: this.nowUs }],
      expiresInUs,
      ended: undefined,
    });
    if (this.standing.length > 8) this.standing.shift();
  }

  private async extend({ asked, reservation, parts, ended }: Standing): Promise<void> {
    if (ended !== undefined) return;
    const more = this.cost();
    const variable = asked.filter(({ limit }) => limit.cost === undefined);
    const decision = await reservation.extend(more);
    const entries = this.expectDecision(decision, variable, more);
    if (!decision.allowed) return;
    const all = asked.map((each) => entries[variable.indexOf(each)] ?? { atUs: 0, cost: 0 });
    parts.push({ cost: more, entries: all, atUs: this.nowUs });
  }

  private async settle(standing: Standing): Promise<void> {
    const { reservation, parts, ended, asked } = standing;
    const reserved = parts.reduce((total, { cost }) => total + cost, 0);
    const { overuse = 5 } = this.program;
    const actual = this.random.below(
      Math.max(1, Math.floor(reserved * (this.random.below(3) === 0 ? overuse : 1)) + 1),
    );
    const settlement = await repeated(() => reservation.settle(actual));
    if (ended !== undefined) {
      this.standing.splice(this.standing.indexOf(standing), 1);
      return this.expect('a second settlement', settlement, ended);
    }
    standing.ended = settlement;
    this.counts.settlements += 1;
    const limits = asked.map((each, at) => ({ ...each, at })).filter(({ limit }) => limit.cost === undefined);
    const debt = Math.max(0, actual - reserved);
    const charged = debt === 0 ? [] : limits.map(({ ledger, policy }) => this.owe(ledger, policy, debt));
    const expired = actual < reserved && limits.some(({ at }) => this.isExpired(standing, at));
    for (const { ledger, at } of limits) this.giveBack(standing, { ledger, at }, reserved - actual);
    this.expect('the settlement', settlement, {
      reserved,
      actual,
      debt: Math.max(0, ...charged),
      uncharged: charged.length === 0 ? 0 : debt - Math.min(...charged),
      expired,
      degraded: false,
    });
    if (debt > 0) this.counts.debts += 1;
    if (settlement.uncharged > 0) this.counts.uncharged += 1;
    if (expired) this.counts.expired += 1;
    await this.look(asked);
  }

  private owe(ledger: Ledger, policy: Policy, debt: number): number {
    const charged = ledger.owe(debt, this.nowUs);
    this.note(policy, { atUs: this.nowUs, cost: charged });
    return charged;
  }

  private async cancel(standing: Standing): Promise<void> {
    const { reservation, ended, asked } = standing;
    const settlement = await repeated(() => reservation.cancel());
    if (ended !== undefined) return this.expect('a cancelled settlement', settlement, ended);
    standing.ended = settlement;
    this.counts.settlements += 1;
    asked.forEach(({ ledger }, at) => this.giveBack(standing, { ledger, at }, Infinity));
    await this.look(asked);
  }

  private isExpired({ parts, expiresInUs }: Standing, at: number): boolean {
    const latest = parts.findLast(({ entries }) => (entries[at]?.atUs ?? 0) > 0);
    return this.nowUs > (latest?.atUs ?? 0) + expiresInUs;
  }

  private giveBack(standing: Standing, { ledger, at }: { ledger: Ledger; at: number }, unused: number): void {
    if (this.isExpired(standing, at)) return;
    let left = unused;
    for (const { entries, cost } of standing.parts.toReversed()) {
      const entry = entries[at];
      if (left <= 0 || entry === undefined) return;
      if (entry.cost > 0) ledger.refund(entry, Math.min(left, entry.cost), this.nowUs);
      left -= cost;
    }
  }

  /** What the ledgers say; charges them as the decision says it did. */
  private expectDecision(decision: Decision, asked: readonly Asked[], cost: number): readonly Entry[] {
    this.counts.decisions += 1;
    const { nowUs } = this;
    const due = asked.map((each) => ({ ...each, cost: each.limit.cost ?? cost }));
    const allowed = due.every((each) => each.cost <= each.ledger.room(nowUs));
    this.expect('allowed', decision.allowed, allowed);
    due.forEach((each, at) => {
      const retryAfterUs = Math.round((decision.verdicts[at]?.retryAfterMs ?? 0) * 1000);
      this.expectWait(each, retryAfterUs);
    });
    const entries = allowed ? due.map((each) => this.charge(each)) : [];
    this.expectRemaining(decision, asked);
    return entries;
  }

  private charge({ ledger, policy, cost }: Asked & { readonly cost: number }): Entry {
    return this.note(policy, ledger.charge(cost, this.nowUs));
  }

  private note(policy: Policy, entry: Entry): Entry {
    this.entries.set(policy, [...(this.entries.get(policy) ?? []), entry]);
    return entry;
  }

  /** It is enough to wait so long, and a microsecond less is not. */
  private expectWait(
    { ledger, cost, policy }: Asked & { readonly cost: number },
    retryAfterUs: number,
  ): void {
    const { nowUs } = this;
    if (cost <= ledger.room(nowUs)) return this.expect(`the wait of ${policy.name}`, retryAfterUs, 0);
    if (cost > ledger.limit) return this.expect(`the wait of ${policy.name}`, retryAfterUs, Infinity);
    this.expect(`${policy.name} admits after its wait`, cost <= ledger.room(nowUs + retryAfterUs), true);
    this.expect(
      `${policy.name} admits before its wait`,
      cost <= ledger.room(nowUs + retryAfterUs - 1),
      false,
    );
  }

  private async look(asked: readonly Asked[]): Promise<void> {
    this.expectRemaining(
      await this.program.limiter.peek(
        asked.map(({ limit }) => limit),
        { cost: 0 },
      ),
      asked,
    );
  }

  private expectRemaining(decision: Decision, asked: readonly Asked[]): void {
    asked.forEach(({ ledger, policy }, at) => {
      this.expect(`what ${policy.name} has left`, decision.verdicts[at]?.remaining, ledger.room(this.nowUs));
    });
  }

  private expect(what: string, found: unknown, expected: unknown): void {
    if (JSON.stringify(found) === JSON.stringify(expected)) return;
    throw new Error(
      `${this.key}, step ${this.step}: ${what} is ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`,
    );
  }
}

const MAX_TRIES = 20;

/** What an application does when the store cannot be reached: it says the same again. */
async function repeated(settle: () => Promise<Settlement>): Promise<Settlement> {
  for (let tries = 1; tries < MAX_TRIES; tries += 1) {
    try {
      return await settle();
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('lost')) throw error;
    }
  }
  return settle();
}
