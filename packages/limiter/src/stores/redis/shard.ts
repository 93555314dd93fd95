import type { Limit } from '../../limit.ts';
import type { StoreEvent, StoreVerdict } from '../store.ts';
import type { Answer, Question, Refund } from './protocol.ts';
import { ScriptRunner, type Backlog } from './script-runner.ts';
import type { Topology, TopologyHealth } from './topology.ts';

export interface ShardParts {
  readonly name: string;
  readonly weight: number;
  readonly topology: Topology;
  readonly nowUs: () => string;
  readonly observe: (event: StoreEvent) => void;
}

/** Limits of one check that one script call can decide together. */
export interface Group {
  readonly shard: Shard;
  readonly lane: number;
  readonly limits: Limit[];
  readonly keys: string[];
  /** Where each limit stands in the check. */
  readonly places: number[];
}

/** One independent Redis: a server, a sentinel group or a cluster, with its decisions on their way. */
export class Shard {
  readonly name: string;
  readonly weight: number;
  readonly topology: Topology;
  private readonly parts: ShardParts;
  private readonly backlog: Backlog = { waiting: 0 };
  /** At most one per slot. */
  private readonly runners = new Map<number, ScriptRunner>();

  constructor(parts: ShardParts) {
    this.name = parts.name;
    this.weight = parts.weight;
    this.topology = parts.topology;
    this.parts = parts;
  }

  ask(lane: number, question: Question): Promise<Answer> {
    return this.runnerOf(lane).ask(question);
  }

  refund(lane: number, refund: Refund): Promise<readonly StoreVerdict[]> {
    return this.runnerOf(lane).refund(refund);
  }

  async forget(keys: readonly string[]): Promise<void> {
    await this.topology.send(keys[0] ?? '', 'DEL', keys);
  }

  health(): TopologyHealth {
    return this.topology.health();
  }

  private runnerOf(lane: number): ScriptRunner {
    const known = this.runners.get(lane);
    if (known !== undefined) return known;
    const { topology, nowUs, observe } = this.parts;
    const runner = new ScriptRunner({
      send: (key, command, args) => topology.send(key, command, args),
      backlog: this.backlog,
      nowUs,
      onReload: (key) => observe({ type: 'scriptReloaded', node: topology.nodeOf(key) }),
    });
    this.runners.set(lane, runner);
    return runner;
  }
}
