// Slots decided a second time: a set of holders per key, no order, no packing, every wait searched for.
import { NEVER } from '../algorithms/algorithm.ts';
import { slotLimits } from '../acquire.ts';
import type { Limit, Policy } from '../limit.ts';
import { calendarQuota, concurrency } from '../policy.ts';
import type { Store, StoreVerdict } from '../stores/store.ts';
import { seededRandom, type Random } from './random.ts';
import type { RandomProgram } from './random-program.ts';
import { toVerdict } from './reference-store.ts';
import { virtualClock, type VirtualClock } from './virtual-clock.ts';

const perUser = concurrency({ name: 'perUser', limit: 3, hold: '1s' });
/** The same slots as `perUser`, while a deploy changes the numbers. */
const longer = perUser.with({ limit: 4, hold: '2500ms' });
const overall = concurrency({ name: 'overall', limit: 5, hold: '700ms' });
const forLife = calendarQuota({ name: 'forLife', quota: 1_000_000_000, every: 'ever' });
const USERS = ['ann', 'bob'];
const IDS = Array.from({ length: 9 }, (_, at) => ({ idHigh: 1 + (at % 3), idLow: at }));

/** Who holds how much of one key, and until when. */
interface Holder {
  readonly endUs: number;
  readonly units: number;
}

export interface SlotProgramResult {
  readonly taken: number;
  readonly renewed: number;
  readonly denied: number;
  readonly released: number;
}

/**
 * Runs a seeded random program of `acquire` and `release` against a store and against a set of holders, and throws at
 * the first answer that differs. Slots compose with each other and with a quota, all or none.
 */
export async function runSlotProgram(program: RandomProgram): Promise<SlotProgramResult> {
  const clock = virtualClock();
  return new SlotRun(program, await program.createStore(clock), clock).run();
}

class SlotRun {
  private readonly program: RandomProgram;
  private readonly store: Store;
  private readonly random: Random;
  private readonly clock: VirtualClock;
  private readonly holders = new Map<string, Map<string, Holder>>();
  private readonly spent = new Map<string, number>();
  private readonly counts = { taken: 0, renewed: 0, denied: 0, released: 0 };
  private retryAfterUs = 0;

  constructor(program: RandomProgram, store: Store, clock: VirtualClock) {
    this.program = program;
    this.store = store;
    this.clock = clock;
    this.random = seededRandom(program.seed);
  }

  async run(): Promise<SlotProgramResult> {
    try {
      for (let operation = 0; operation < this.program.operations; operation += 1) {
        this.moveClock();
        const dice = this.random.below(10);
        if (dice < 2) await this.release(operation);
        else await this.ask(dice === 2 ? 'peek' : 'check', operation);
      }
    } finally {
      await this.store.close();
    }
    return this.counts;
  }

  private moveClock(): void {
    const stepUs = this.random.pick([
      0,
      1,
      this.random.below(50_000),
      this.random.below(300_000),
      this.retryAfterUs,
      this.retryAfterUs - 1,
    ]);
    this.clock.set(this.clock() + Math.max(0, stepUs));
  }

  private anyLimits(): readonly Limit[] {
    const { random } = this;
    const slots: Policy[] = [random.below(8) === 0 ? longer : perUser, overall];
    const policies = random.below(2) === 0 ? [random.pick(slots)] : slots;
    if (random.below(3) === 0) policies.push(forLife);
    return policies.map((policy) => policy.for(policy === overall ? 'all' : random.pick(USERS)));
  }

  private async ask(verb: 'check' | 'peek', operation: number): Promise<void> {
    const limits = this.anyLimits();
    const id = this.random.pick(IDS);
    const cost = this.random.pick([1, 1, 1, 1, 2, 3, 6]);
    const { all } = slotLimits(limits, id, cost);
    const answers = await this.store[verb](all, cost);
    const actual = answers.map((answer, at) => (isSlot(all[at]) ? toVerdict(answer) : withoutReset(answer)));
    const allowed = all.every((limit) => this.fits(limit, cost));
    const expected = all.map((limit) => this.verdict(limit, cost, verb, allowed));
    if (JSON.stringify(actual) !== JSON.stringify(expected)) {
      const asked = all.map((limit) => ({ policy: limit.policy.name, key: limit.key }));
      const detail = JSON.stringify({ operation, verb, limits: asked, cost, actual, expected }, undefined, 2);
      throw new Error(`The store disagrees about slots (seed ${this.program.seed}): ${detail}`);
    }
    if (!allowed) this.counts.denied += 1;
    this.retryAfterUs = Math.max(0, ...actual.map(({ retryAfterUs }) => retryAfterUs));
  }

  private async release(operation: number): Promise<void> {
    const { held } = slotLimits(this.anyLimits(), this.random.pick(IDS), 1);
    if (held.length === 0) return;
    await this.store.release?.(held);
    for (const limit of held) {
      if (this.holdersOf(limit).delete(idOf(limit))) this.counts.released += 1;
      const [seen] = await this.store.peek([limit], 1);
      const free = Math.max(0, limit.limit - this.units(limit));
      if (seen?.remaining !== free) {
        throw new Error(
          `After a release ${seen?.remaining} are free, expected ${free} (seed ${this.program.seed}, operation ${operation}).`,
        );
      }
    }
  }

  private fits(limit: Limit, cost: number): boolean {
    if (!isSlot(limit)) return cost <= limit.limit - (this.spent.get(limit.key) ?? 0);
    return this.live(limit).has(idOf(limit)) || cost <= limit.limit - this.units(limit);
  }

  /** The verdict of one limit; spends where the whole check is admitted. */
  private verdict(limit: Limit, cost: number, verb: 'check' | 'peek', allowed: boolean): StoreVerdict {
    const fits = this.fits(limit, cost);
    if (verb === 'check' && allowed) this.take(limit, cost);
    // What had room in a check that another limit denied is only looked at.
    return {
      allowed: fits,
      remaining: Math.max(0, limit.limit - this.units(limit)),
      retryAfterUs: fits ? 0 : this.waitUs(limit, cost),
      resetAfterUs: this.resetUs(limit),
      delayUs: 0,
    };
  }

  private take(limit: Limit, cost: number): void {
    if (!isSlot(limit)) {
      this.spent.set(limit.key, (this.spent.get(limit.key) ?? 0) + cost);
      return;
    }
    const live = this.live(limit);
    const own = live.get(idOf(limit));
    const endUs = this.clock() + (limit.plan.algorithm.slots?.holdUs(limit.plan.numbers) ?? 0);
    live.set(idOf(limit), { endUs: Math.max(endUs, own?.endUs ?? 0), units: own?.units ?? cost });
    this.holders.set(nameOf(limit), live);
    this.counts[own === undefined ? 'taken' : 'renewed'] += 1;
  }

  /** The first moment at which enough holders are gone, if none of them says anything more. */
  private waitUs(limit: Limit, cost: number): number {
    if (cost > limit.limit) return NEVER;
    const holders = [...this.live(limit).values()];
    const fitsAt = (atUs: number): boolean =>
      holders.reduce((sum, { endUs, units }) => (endUs > atUs ? sum + units : sum), cost) <= limit.limit;
    const ends = holders.map(({ endUs }) => endUs).filter(fitsAt);
    return Math.min(...ends) - this.clock();
  }

  private resetUs(limit: Limit): number {
    if (!isSlot(limit)) return 0;
    const ends = [...this.live(limit).values()].map(({ endUs }) => endUs - this.clock());
    return Math.max(0, ...ends);
  }

  private units(limit: Limit): number {
    if (!isSlot(limit)) return this.spent.get(limit.key) ?? 0;
    return [...this.live(limit).values()].reduce((sum, { units }) => sum + units, 0);
  }

  private live(limit: Limit): Map<string, Holder> {
    const nowUs = this.clock();
    return new Map([...this.holdersOf(limit)].filter(([, { endUs }]) => endUs > nowUs));
  }

  private holdersOf(limit: Limit): Map<string, Holder> {
    return this.holders.get(nameOf(limit)) ?? new Map<string, Holder>();
  }
}

function isSlot(limit: Limit | undefined): boolean {
  return limit?.plan.algorithm.slots !== undefined;
}

/** When a quota for life is as new is not what this program is about. */
function withoutReset(verdict: StoreVerdict): StoreVerdict {
  return { ...toVerdict(verdict), resetAfterUs: 0 };
}

function nameOf({ policy, key }: Limit): string {
  return `${policy.name}/${key}`;
}

function idOf({ plan }: Limit): string {
  return JSON.stringify(plan.numbers, ['idHigh', 'idLow']);
}
