import { LimiterError, show } from '../errors.ts';
import type { ClientSettings } from './client-options.ts';
import { Pacer, Unpaced, type ClientTime, type SendScheduler } from './pacer.ts';

/** Partitions whose limits are remembered. The one that was used longest ago makes room for a new one. */
const MAX_PARTITIONS = 1000;

/** Finds the pacer of a request. Without `pace` no request is paced. */
export class Pacers {
  private readonly partition: ClientSettings['partition'];
  private readonly share: number | undefined;
  private readonly time: ClientTime;
  private readonly unpaced: SendScheduler;
  private readonly pacers = new Map<string, Pacer>();

  constructor({ partition, paceShare }: Pick<ClientSettings, 'partition' | 'paceShare'>, time: ClientTime) {
    this.partition = partition;
    this.share = paceShare;
    this.time = time;
    this.unpaced = new Unpaced(time);
  }

  schedulerFor(url: string): SendScheduler {
    if (this.share === undefined) return this.unpaced;
    const resolved = resolve(url);
    // `fetch` itself reports what is not a URL.
    return resolved === undefined ? this.unpaced : this.pacerOf(this.nameOf(resolved), this.share);
  }

  private nameOf(url: URL): string {
    const name: unknown = this.partition(url);
    if (typeof name === 'string') return name;
    throw new LimiterError(
      'INVALID_OPTION',
      `partition() returned ${show(name)}; it has to return a string, such as url.origin.`,
    );
  }

  private pacerOf(name: string, share: number): SendScheduler {
    const known = this.pacers.get(name);
    if (known === undefined && this.pacers.size >= MAX_PARTITIONS && !this.makeRoom()) return this.unpaced;
    const pacer = known ?? new Pacer(this.time, share);
    // Last in the map is what was used last.
    this.pacers.delete(name);
    this.pacers.set(name, pacer);
    return pacer;
  }

  /** False when every pacer has requests on the way: then the new one goes without. */
  private makeRoom(): boolean {
    for (const [name, pacer] of this.pacers) {
      if (pacer.isIdle()) return this.pacers.delete(name);
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
