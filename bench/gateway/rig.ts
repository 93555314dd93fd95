// The programs that a run of the gateway suite needs, and how one slice of one of them is measured.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { QuietSlices } from '../frame/quiet-slices.ts';
import type { Contender, Slice } from '../frame/rounds.ts';
import type { Percentiles } from '../redis/latencies.ts';
import { startServer, type Server } from '../redis/server.ts';
import type { Candidate } from './candidate.ts';
import { sendLoad } from './load.ts';
import { freePort, processorUs, Program } from './program.ts';
import { takeInventory, type Inventory } from './required-programs.ts';

const CONNECTIONS = 32;

export interface GatewaySlice extends Slice {
  /** Of the proxy with all of its processes. */
  readonly cpuUs: number;
  /** Of the service that it asks, and of Redis, where it has them. */
  readonly helperUs: number;
  readonly latencyUs: Percentiles;
}

export interface Entrant {
  readonly candidate: Candidate;
  readonly program: Program;
  readonly helper: Program | undefined;
}

/** Where programs run: the proxy on some cores, everybody else on others. */
export interface Cores {
  readonly proxy: number | string;
  readonly others: number | string;
}

export class Rig {
  readonly inventory: Inventory;
  readonly redis: Server;
  readonly connections: number = CONNECTIONS;
  readonly folder: string;
  readonly #quiet: QuietSlices;
  readonly #programs: Program[] = [];

  private constructor(inventory: Inventory, redis: Server, quiet: QuietSlices) {
    this.inventory = inventory;
    this.redis = redis;
    this.folder = mkdtempSync(join(tmpdir(), 'spillgate-bench-'));
    this.#quiet = quiet;
  }

  static async start(quiet: QuietSlices): Promise<Rig> {
    return new Rig(takeInventory(), await startServer(), quiet);
  }

  /** It ends with the rig. */
  add(program: Program): Program {
    this.#programs.push(program);
    return program;
  }

  canStart({ needs = [] }: Candidate): boolean {
    return needs.every((needed) => this.inventory.has(needed));
  }

  async startCandidate(candidate: Candidate, upstreamPort: number, cores: Cores): Promise<Entrant> {
    const { id, file: contents, command, helper: helperCommand } = candidate;
    const [port, helperPort] = [await freePort(), await freePort()];
    const { programs } = this.inventory;
    const places = { folder: this.folder, upstreamPort, redisPort: this.redis.port, helperPort, programs };
    const asked = await helperCommand?.(helperPort, places);
    const helper =
      asked === undefined ? undefined : this.add(await Program.start(helperPort, asked, cores.others));
    const file = join(this.folder, `${id}.yaml`);
    if (contents !== undefined) writeFileSync(file, contents(port, places));
    const program = this.add(await Program.start(port, command(port, file, places), cores.proxy));
    return { candidate, program, helper };
  }

  async warmUp({ candidate, program }: Entrant, durationMs: number): Promise<void> {
    await sendLoad({ port: program.port, denies: candidate.denies ?? false }, CONNECTIONS, durationMs);
  }

  contender(entrant: Entrant): Contender<GatewaySlice> {
    return {
      id: entrant.candidate.id,
      slice: async (budgetMs) => {
        const { result } = await this.#quiet.run(
          async () => this.#slice(entrant, budgetMs),
          ({ programsUs }) => programsUs / 1000,
        );
        return result;
      },
    };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#programs.map((program) => program.stop()));
    await this.redis.stop();
    rmSync(this.folder, { recursive: true });
  }

  async #slice(
    { candidate, program, helper }: Entrant,
    budgetMs: number,
  ): Promise<{ readonly result: GatewaySlice; readonly elapsedMs: number; readonly programsUs: number }> {
    const times = (): readonly number[] => [
      program.familyUs(),
      (helper?.familyUs() ?? 0) + (candidate.limits === 'Redis' ? processorUs(this.redis.pid) : 0),
      this.#allUs(),
    ];
    const before = times();
    const startedMs = performance.now();
    const load = { port: program.port, denies: candidate.denies ?? false };
    const { requests, latencyUs } = await sendLoad(load, CONNECTIONS, budgetMs);
    const elapsedMs = performance.now() - startedMs;
    const [cpuUs = 0, helperUs = 0, programsUs = 0] = times().map((time, at) => time - (before[at] ?? 0));
    return { result: { operations: requests, elapsedMs, latencyUs, cpuUs, helperUs }, elapsedMs, programsUs };
  }

  /** Of everything that this run started. */
  #allUs(): number {
    return this.#programs.reduce((sum, program) => sum + program.familyUs(), processorUs(this.redis.pid));
  }
}
