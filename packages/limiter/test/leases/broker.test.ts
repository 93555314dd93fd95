// Processes of one program that lease by way of one of them, in virtual time: whatever they admit, one exact limit
// would have admitted too.
import { describe, expect, test } from 'vitest';
import type { AnyState } from '../../src/algorithms/algorithm.ts';
import type { Limit, Policy } from '../../src/limit.ts';
import { fixedWindow, slidingWindowCounter, slidingWindowLog, tokenBucket } from '../../src/policy.ts';
import { LeaseBroker, relayed } from '../../src/stores/local/lease-broker.ts';
import { chargeLease } from '../../src/stores/local/lease-grant.ts';
import { leasesOf } from '../../src/stores/local/leased-plan.ts';
import { LeaseTable, type LeaseAnswer, type LeaseSource } from '../../src/stores/local/lease-table.ts';
import { emptyTally } from '../../src/stores/local/lease-tally.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';
import { runs } from '../../../../test/runs.ts';

const START_US = 1_000_000_000;
const RUNS = runs(100);
const SWEEPS_PER_MILLE = 20;

interface Program {
  readonly workers: number;
  readonly policy: Policy;
  /** Mean time between requests of the whole program. */
  readonly meanUs: number;
  readonly requests: number;
  /** Chances per request, in thousandths: a worker ends without a word, or gives its leases back. */
  readonly endPerMille: number;
  readonly closePerMille: number;
  /** Without it, every worker asks the store itself. */
  readonly shared: boolean;
}

/** The store, the primary process and its workers. */
class SharedProgram {
  readonly admissions: { readonly atUs: number; readonly cost: number }[] = [];
  storeCalls = 0;
  leaseCalls = 0;
  byLease = 0;
  private readonly program: Program;
  private readonly random: Random;
  private readonly limit: Limit;
  private readonly broker: LeaseBroker;
  private readonly tables: LeaseTable[];
  private readonly arrivals: { readonly dueUs: number; readonly resolve: () => void }[] = [];
  private nowUs = START_US;
  private state: AnyState | undefined;

  constructor(program: Program, random: Random) {
    this.program = program;
    this.random = random;
    const { policy, workers } = program;
    this.limit = policy.for('hot');
    this.broker = new LeaseBroker(this.store(), emptyTally());
    this.tables = Array.from({ length: workers }, () => this.worker());
  }

  async run(): Promise<void> {
    const { random, program } = this;
    for (let request = 0; request < program.requests; request += 1) {
      await this.pass(random.below(2 * program.meanUs));
      const at = random.below(this.tables.length);
      if (random.below(1000) < program.endPerMille) this.tables[at] = this.worker();
      if (random.below(1000) < program.closePerMille) void this.tables[at]?.close();
      if (random.below(1000) < SWEEPS_PER_MILLE) this.sweep();
      this.ask(this.tables[at], 1 + random.below(3));
    }
  }

  private sweep(): void {
    this.broker.sweep();
    for (const table of this.tables) table.sweep();
  }

  private ask(table: LeaseTable | undefined, cost: number): void {
    const verdicts = table?.decide([this.limit], cost);
    if (verdicts !== undefined) {
      if (verdicts[0]?.allowed === true) {
        this.admissions.push({ atUs: this.nowUs, cost });
        this.byLease += 1;
      }
      return;
    }
    this.storeCalls += 1;
    const { allowed, spent, remaining } = this.decide(this.state, cost, this.nowUs);
    table?.noteLeft([this.limit], [{ allowed, remaining, retryAfterUs: 0, resetAfterUs: 0, delayUs: 0 }]);
    if (!allowed) return;
    this.state = spent;
    this.admissions.push({ atUs: this.nowUs, cost });
  }

  /** Time passes, and what is due by then arrives. */
  private async pass(spanUs: number): Promise<void> {
    const untilUs = this.nowUs + spanUs;
    for (;;) {
      const next = this.arrivals
        .filter(({ dueUs }) => dueUs <= untilUs)
        .toSorted((a, b) => a.dueUs - b.dueUs)[0];
      if (next === undefined) break;
      this.nowUs = Math.max(this.nowUs, next.dueUs);
      this.arrivals.splice(this.arrivals.indexOf(next), 1);
      next.resolve();
      await settled();
    }
    this.nowUs = untilUs;
  }

  private async delay(): Promise<void> {
    const dueUs = this.nowUs + 20 + this.random.below(this.random.pick([100, 2000, 30_000]));
    await new Promise<void>((resolve) => this.arrivals.push({ dueUs, resolve }));
  }

  /** The store as seen by the process that asks it; every process has a clock of its own. */
  private store(): LeaseSource {
    const aheadUs = this.random.below(1_000_000_000);
    return {
      nowUs: () => this.nowUs + aheadUs,
      lease: async (_limit, want) => {
        this.storeCalls += 1;
        this.leaseCalls += 1;
        await this.delay();
        const answer = this.grant(want);
        await this.delay();
        return answer;
      },
      returnLease: async ({ plan }, rest) => {
        await this.delay();
        if (this.state === undefined) return false;
        const left = leasesOf(plan).takeBack(this.state, plan.numbers, rest, this.nowUs);
        const isTaken = left !== this.state;
        this.state = left;
        return isTaken;
      },
    };
  }

  private grant(want: number): LeaseAnswer {
    const charged = chargeLease(this.state, this.limit.plan, want, this.nowUs);
    if (charged !== undefined) this.state = charged.spent;
    const left = this.decide(this.state, 0, this.nowUs).remaining;
    const grant = charged && { tokens: charged.tokens, end: charged.end };
    return { grant, left, storeUs: this.nowUs };
  }

  private decide(state: AnyState | undefined, cost: number, nowUs: number) {
    const { algorithm, numbers } = this.limit.plan;
    return algorithm.decide(state, numbers, cost, nowUs);
  }

  private worker(): LeaseTable {
    const { workers, shared } = this.program;
    const relay = async (request: Parameters<LeaseBroker['lease']>[0]): Promise<LeaseAnswer> => {
      await this.delay();
      const answer = await this.broker.lease(request, workers);
      await this.delay();
      return answer;
    };
    return new LeaseTable(relayed(this.store(), shared ? relay : undefined));
  }

  refusedInReplay(): number {
    let state: AnyState | undefined;
    return this.admissions.filter(({ atUs, cost }) => {
      const { allowed, spent } = this.decide(state, cost, atUs);
      if (allowed) state = spent;
      return !allowed;
    }).length;
  }
}

/** Everything that follows from what has arrived. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

async function runProgram(program: Program, seed: number): Promise<SharedProgram> {
  const shared = new SharedProgram(program, seededRandom(seed));
  await shared.run();
  return shared;
}

function randomPolicy(random: Random): Policy {
  const name = 'api';
  const quota = random.pick([400, 1000, 5000]);
  const window = random.pick(['100ms', '500ms', '2s']);
  return random.pick([
    () =>
      tokenBucket({ name, average: random.pick([100, 999, 4001]), burst: quota, period: '1s', leases: true }),
    () => fixedWindow({ name, quota, window, leases: true }),
    () => slidingWindowCounter({ name, quota, window, leases: true }),
    () => slidingWindowLog({ name, quota, window, leases: true }),
  ])();
}

function randomProgram(seed: number): Program {
  const random = seededRandom(seed);
  return {
    workers: 1 + random.below(4),
    policy: randomPolicy(random),
    meanUs: random.pick([100, 500, 2000]),
    requests: 1500,
    endPerMille: random.pick([0, 5]),
    closePerMille: random.pick([0, 5]),
    shared: true,
  };
}

test(
  'one exact limit would have admitted all that workers admit by way of one process',
  { timeout: 240_000 },
  async () => {
    let byLease = 0;
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const program = await runProgram(randomProgram(seed), seed);
      expect(program.refusedInReplay(), `seed ${seed}`).toBe(0);
      byLease += program.byLease;
    }
    expect(byLease).toBeGreaterThan(RUNS);
  },
);

describe('two workers that share leases', () => {
  const BUSY: Program = {
    workers: 2,
    policy: tokenBucket({ name: 'api', average: 10_000, burst: 10_000, period: '1s', leases: true }),
    meanUs: 250,
    requests: 6000,
    endPerMille: 0,
    closePerMille: 0,
    shared: true,
  };

  test('need fewer calls to the store than two that do not', { timeout: 60_000 }, async () => {
    const together = await runProgram(BUSY, 1);
    const apart = await runProgram({ ...BUSY, shared: false }, 1);

    expect(together.leaseCalls).toBeLessThan(0.85 * apart.leaseCalls);
    expect(together.admissions.length).toBeGreaterThanOrEqual(0.99 * apart.admissions.length);
  });
});

describe('a worker asks the store itself', () => {
  test('when the primary process cannot answer', async () => {
    const asked: number[] = [];
    const store: LeaseSource = {
      nowUs: () => START_US,
      lease: async (_limit, want) => {
        asked.push(want);
        return { grant: undefined, left: 0, storeUs: START_US };
      },
      returnLease: async () => false,
    };

    await relayed(store, async () => undefined).lease(
      tokenBucket({ name: 'a', average: 1, burst: 1, period: '1s' }).for('b'),
      7,
    );

    expect(asked).toEqual([7]);
  });
});
