import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TokenBucketNumbers } from 'spillgate';
import type { AnyState } from '#limiter/algorithms/algorithm.js';
import { eventually, startRedis, type RedisServer, type Replicated } from '../servers.ts';
import {
  LEASED,
  leasedPolicy,
  LeaseProcess,
  type LeasedNumbers,
  type LeaseMistake,
  type Opening,
} from './lease-process.ts';

interface JournalEntry {
  readonly source: string;
  readonly atUs: number;
  readonly cost: number;
}

/** Numbers that hold from a moment on. */
export interface Era {
  readonly fromUs: number;
  readonly numbers: LeasedNumbers;
}

/** What a fleet opens before it has traffic. */
export interface FleetOpening extends Pick<Opening, 'store' | 'numbers'> {
  readonly mistake?: LeaseMistake | undefined;
}

/** Real processes that lease from one Redis, and what they admitted. */
export class LeaseFleet {
  private readonly folder = mkdtempSync(join(tmpdir(), 'spillgate-leases-'));
  private readonly clock: RedisServer;
  private readonly processes: LeaseProcess[] = [];
  private readonly watchers = new Set<() => void>();
  private opening: FleetOpening | undefined;
  private run = 0;
  private ticks = 0;
  private journals = 0;

  private constructor(clock: RedisServer) {
    this.clock = clock;
  }

  static async start(count: number): Promise<LeaseFleet> {
    const fleet = new LeaseFleet(await startRedis());
    for (let index = 0; index < count; index += 1) fleet.processes.push(fleet.launch());
    return fleet;
  }

  /** Forgets what was admitted before. */
  async open(opening: FleetOpening): Promise<void> {
    this.opening = opening;
    this.run += 1;
    await Promise.all(this.processes.map(async (each) => this.openOne(each)));
  }

  /**
   * Resolves when each process has had so many turns of traffic, on average. A turn takes a tenth of a second, or
   * longer.
   */
  async turns(count: number): Promise<void> {
    const until = this.ticks + count * this.processes.length;
    await new Promise<void>((resolve) => {
      const watch = (): void => {
        if (this.ticks < until) return;
        this.watchers.delete(watch);
        resolve();
      };
      this.watchers.add(watch);
    });
  }

  /** So many checks at once in each of the first processes; resolves when all are decided. */
  async burst(processes: number, count: number, cost = 1): Promise<void> {
    await Promise.all(
      this.processes.slice(0, processes).map(async (each) => each.tell({ type: 'burst', count, cost })),
    );
  }

  async traffic(on: boolean): Promise<void> {
    await Promise.all(this.processes.map(async (each) => each.tell({ type: 'traffic', on })));
  }

  /** Gives every process other numbers; the time from which on nobody uses the old ones. */
  async override(numbers: TokenBucketNumbers): Promise<number> {
    await Promise.all(this.processes.map(async (each) => each.tell({ type: 'override', numbers })));
    const [seconds, microseconds] = String(await this.clock.command('TIME')).split(',');
    return Number(seconds) * 1e6 + Number(microseconds);
  }

  freeze(at: number): void {
    this.processes[at]?.signal('SIGSTOP');
  }

  thaw(at: number): void {
    this.processes[at]?.signal('SIGCONT');
  }

  async freezeAll(during: () => Promise<void>): Promise<void> {
    for (const each of this.processes) each.signal('SIGSTOP');
    await during();
    for (const each of this.processes) each.signal('SIGCONT');
  }

  /** Kills one without warning, and starts another in its place. */
  async crash(at: number): Promise<void> {
    await this.processes[at]?.kill();
    const next = this.launch();
    this.processes[at] = next;
    await this.openOne(next);
    await next.tell({ type: 'traffic', on: true });
  }

  /** Closes its limiter, which gives leases back, and opens another. */
  async reopen(at: number): Promise<void> {
    await this.processes[at]?.tell({ type: 'reopen' });
  }

  async reopenAll(): Promise<void> {
    await Promise.all(this.processes.map(async (each) => each.tell({ type: 'reopen' })));
  }

  admitted(source: 'lease' | 'store'): number {
    return this.journal().filter((entry) => entry.source === source).length;
  }

  /** How much of what was admitted one exact limit would have refused, by Redis' time, in tokens. */
  refusedInReplay(later: readonly Era[] = []): number {
    const eras = [{ fromUs: 0, numbers: this.opened().numbers }, ...later].map(({ fromUs, numbers }) => {
      const { plan } = leasedPolicy(LEASED, 'replay', numbers);
      return { fromUs, plan };
    });
    let state: AnyState | undefined;
    let refused = 0;
    for (const { atUs, cost } of this.journal()) {
      const era = eras.findLast(({ fromUs }) => fromUs <= atUs) ?? eras[0];
      if (era === undefined) throw new RangeError('the first era begins at 0');
      const { algorithm, numbers } = era.plan;
      const { allowed, spent } = algorithm.decide(state, numbers, cost, atUs);
      if (allowed) state = spent;
      else refused += cost;
    }
    return refused;
  }

  async stop(): Promise<void> {
    await Promise.all(this.processes.map(async (each) => each.kill()));
    await this.clock.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private launch(): LeaseProcess {
    return new LeaseProcess(this.clock.port, () => {
      this.ticks += 1;
      for (const watch of this.watchers) watch();
    });
  }

  private async openOne(process: LeaseProcess): Promise<void> {
    this.journals += 1;
    const journal = join(this.folder, `${this.run}-${this.journals}.txt`);
    await process.open({ ...this.opened(), journal, run: this.run });
  }

  private opened(): FleetOpening {
    if (this.opening === undefined) throw new RangeError('the fleet is not open yet');
    return this.opening;
  }

  private journal(): readonly JournalEntry[] {
    const names = readdirSync(this.folder).filter((name) => name.startsWith(`${this.run}-`));
    const entries = names.flatMap((name) =>
      readFileSync(join(this.folder, name), 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line) => {
          const [source = '', atUs, cost] = line.split(' ');
          return { source, atUs: Number(atUs), cost: Number(cost) };
        }),
    );
    return entries.toSorted((a, b) => a.atUs - b.atUs);
  }
}

/**
 * Kills the master, but only after the replica has all it wrote: what is lost with a crash is not what leases are
 * about.
 */
export async function replaceMaster(group: Replicated): Promise<void> {
  const master = await replicatedMaster(group);
  await master.kill();
  await group.promotionAfter(master);
}

/** The same without a crash: the roles are swapped. */
export async function swapMaster(group: Replicated): Promise<void> {
  await replicatedMaster(group);
  await group.failover();
}

async function replicatedMaster(group: Replicated): Promise<RedisServer> {
  const master = await group.master();
  if (master === undefined) throw new Error('there is no master to replace');
  await eventually('the replica has everything', async () => {
    const state = String(await master.command('INFO', 'replication'));
    const written = /master_repl_offset:(\d+)/.exec(state)?.[1];
    return written !== undefined && state.includes(`,offset=${written},`);
  });
  return master;
}
