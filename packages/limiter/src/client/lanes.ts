import { LimiterError, show } from '../errors.ts';
import type { Settings } from './client-options.ts';
import { OpenGate, type Gate, type GateTime } from './gate.ts';
import { Lane } from './lane.ts';

/** Partitions whose limits are remembered. The one that was used longest ago makes room for a new one. */
const MAX_PARTITIONS = 1000;

/** Finds the lane of a request. Without `pace` there are none, and every gate is open. */
export class Lanes {
  private readonly partition: Settings['partition'];
  private readonly share: number | undefined;
  private readonly time: GateTime;
  private readonly open: Gate;
  private readonly lanes = new Map<string, Lane>();

  constructor({ partition, paceShare }: Pick<Settings, 'partition' | 'paceShare'>, time: GateTime) {
    this.partition = partition;
    this.share = paceShare;
    this.time = time;
    this.open = new OpenGate(time);
  }

  gateFor(url: string): Gate {
    if (this.share === undefined) return this.open;
    const resolved = resolve(url);
    // What is no URL is for `fetch` to complain about.
    return resolved === undefined ? this.open : this.laneOf(this.nameOf(resolved), this.share);
  }

  private nameOf(url: URL): string {
    const name: unknown = this.partition(url);
    if (typeof name === 'string') return name;
    throw new LimiterError(
      'INVALID_OPTION',
      `partition() returned ${show(name)}; it has to return a string, such as url.origin.`,
    );
  }

  private laneOf(name: string, share: number): Gate {
    const known = this.lanes.get(name);
    if (known === undefined && this.lanes.size >= MAX_PARTITIONS && !this.makeRoom()) return this.open;
    const lane = known ?? new Lane(this.time, share);
    // Last in the map is what was used last.
    this.lanes.delete(name);
    this.lanes.set(name, lane);
    return lane;
  }

  /** False when every lane has requests on the way: then the new one goes without. */
  private makeRoom(): boolean {
    for (const [name, lane] of this.lanes) {
      if (lane.isIdle()) return this.lanes.delete(name);
    }
    return false;
  }
}

/** Relative to the page, where there is one. */
function resolve(url: string): URL | undefined {
  const page: unknown = Reflect.get(globalThis, 'location');
  const base: unknown = typeof page === 'object' && page !== null ? Reflect.get(page, 'href') : undefined;
  try {
    return typeof base === 'string' ? new URL(url, base) : new URL(url);
  } catch {
    return undefined;
  }
}
