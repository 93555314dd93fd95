// Processes of one program that lease by way of one of them, in virtual time: whatever they admit, one exact bucket
// would have admitted too.
import { describe, expect, test } from 'vitest';
import { Outcome } from '../../src/algorithms/algorithm.ts';
import { decideBucket, type BucketState, type CompiledBucket } from '../../src/algorithms/bucket/bucket.ts';
import type { Limit } from '../../src/limit.ts';
import { tokenBucket } from '../../src/policy.ts';
import { LeaseBroker, relayed } from '../../src/stores/local/lease-broker.ts';
import { chargeLease, returnTail } from '../../src/stores/local/lease-grant.ts';
import { LeaseTable, type LeaseAnswer, type LeaseSource } from '../../src/stores/local/lease-table.ts';
import { emptyTally } from '../../src/stores/local/lease-tally.ts';
import { seededRandom, type Random } from '../../src/testing/random.ts';
import { runs } from '../../../../test/runs.ts';

const START_US = 1_000_000_000;
const RUNS = runs(100);

interface Program {
  readonly workers: number;
  readonly average: number;
  readonly burst: number;
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
  private readonly program: Program;
  private readonly random: Random;
  private readonly numbers: CompiledBucket;
  private readonly limit: Limit;
  private readonly broker: LeaseBroker;
  private readonly tables: LeaseTable[];
  private readonly arrivals: { readonly dueUs: number; readonly resolve: () => void }[] = [];
  private nowUs = START_US;
  private state: BucketState | undefined;

  constructor(program: Program, random: Random) {
    this.program = program;
    this.random = random;
    const { average, burst, workers } = program;
    this.limit = tokenBucket({ name: 'api', average, burst, period: '1s', leases: true }).for('hot');
    this.numbers = this.limit.plan.numbers as CompiledBucket;
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
      this.ask(this.tables[at], 1 + random.below(3));
    }
  }

  private ask(table: LeaseTable | undefined, cost: number): void {
    const verdicts = table?.decide([this.limit], cost);
    if (verdicts !== undefined) {
      if (verdicts[0]?.allowed === true) this.admissions.push({ atUs: this.nowUs, cost });
      return;
    }
    this.storeCalls += 1;
    const { allowed, spent } = decideBucket(this.state, this.numbers, cost, this.nowUs, new Outcome());
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
      returnLease: async (_limit, lease) => {
        await this.delay();
        this.state = returnTail(this.state, lease, this.nowUs);
        return true;
      },
    };
  }

  private grant(want: number): LeaseAnswer {
    const charged = chargeLease(this.state, this.numbers, want, this.nowUs);
    if (charged !== undefined) this.state = charged.spent;
    const left = decideBucket(this.state, this.numbers, 0, this.nowUs, new Outcome()).remaining;
    if (charged === undefined) return { grant: undefined, left, storeUs: this.nowUs };
    const { tatUs, fraction } = charged.spent;
    return { grant: { tokens: charged.tokens, end: { us: tatUs, fraction } }, left, storeUs: this.nowUs };
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
    let state: BucketState | undefined;
    return this.admissions.filter(({ atUs, cost }) => {
      const { allowed, spent } = decideBucket(state, this.numbers, cost, atUs, new Outcome());
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

function randomProgram(seed: number): Program {
  const random = seededRandom(seed);
  return {
    workers: 1 + random.below(4),
    average: random.pick([100, 999, 4001]),
    burst: random.pick([400, 1000, 5000]),
    meanUs: random.pick([100, 500, 2000]),
    requests: 1500,
    endPerMille: random.pick([0, 5]),
    closePerMille: random.pick([0, 5]),
    shared: true,
  };
}

test(
  'one exact bucket would have admitted all that workers admit by way of one process',
  { timeout: 240_000 },
  async () => {
    let byLease = 0;
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const program = await runProgram(randomProgram(seed), seed);
      expect(program.refusedInReplay(), `seed ${seed}`).toBe(0);
      byLease += program.admissions.length - program.storeCalls;
    }
    expect(byLease).toBeGreaterThan(RUNS);
  },
);

describe('two workers that share leases', () => {
  const BUSY: Program = {
    workers: 2,
    average: 10_000,
    burst: 10_000,
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
