import type { ErrorCode, LimiterError } from './errors.ts';
import type { LimiterEvents } from './events.ts';

export interface OutageListeners {
  readonly onStart: (event: LimiterEvents['storeError']) => void;
  readonly onEnd: (event: LimiterEvents['recovered']) => void;
}

/** From the first call that a server could not answer to the first that it answers again. */
export interface Outage {
  readonly sinceUs: number;
  failures: number;
  lastUs: number;
  lastError: LimiterError;
  /** The kinds of failure that somebody has been told of. */
  readonly told: Set<ErrorCode>;
}

/** A server that fails now and then fails often: nobody is told the same about it more often than that. */
const MIN_INTERVAL_US = 1_000_000;
/** More than any store has. What comes beyond is an outage of the store as a whole. */
const MAX_SERVERS = 1024;
const WHOLE_STORE = 'store';

/**
 * Which servers of a store do not decide, as the calls of a limiter meet it. Calls fail by the thousand: what begins
 * and ends is told, once per server and kind of failure.
 */
export class Outages {
  private readonly listeners: OutageListeners;
  private readonly open = new Map<string, Outage>();
  /** When each kind of failure was last told, by server; kept after the outage. */
  private readonly toldUs = new Map<string, Map<ErrorCode, number>>();

  constructor(listeners: OutageListeners) {
    this.listeners = listeners;
  }

  /** True while a server is out: only then has a success to be noted. */
  get isAny(): boolean {
    return this.open.size > 0;
  }

  /** The one that was met last. */
  latest(): Outage | undefined {
    let latest: Outage | undefined;
    for (const outage of this.open.values()) {
      if (latest === undefined || outage.lastUs >= latest.lastUs) latest = outage;
    }
    return latest;
  }

  /** `candidates`: the servers that may be to blame, where the error does not say. */
  noteFailure(error: LimiterError, candidates: readonly string[], nowUs: number): Outage {
    const node = this.blamed(error, candidates);
    const known = this.open.get(node);
    const outage = known ?? { sinceUs: nowUs, failures: 0, lastUs: nowUs, lastError: error, told: new Set() };
    if (known === undefined) this.open.set(node, outage);
    outage.failures += 1;
    outage.lastUs = nowUs;
    outage.lastError = error;
    if (!outage.told.has(error.code) && this.mayTell(node, error.code, nowUs)) {
      outage.told.add(error.code);
      this.listeners.onStart({ node, error });
    }
    return outage;
  }

  /** These servers have decided; of the others, those that the store no longer has cannot any more. */
  noteSuccess(deciding: readonly string[], all: readonly string[], nowUs: number): void {
    for (const [node, outage] of this.open) {
      const isOver = deciding.includes(node) || !all.includes(node);
      if (!isOver) continue;
      this.open.delete(node);
      const { sinceUs, failures, told } = outage;
      if (told.size > 0) this.listeners.onEnd({ node, afterMs: (nowUs - sinceUs) / 1000, failures });
    }
  }

  private blamed({ node }: LimiterError, candidates: readonly string[]): string {
    const name =
      node ?? candidates.find((candidate) => this.open.has(candidate)) ?? candidates[0] ?? WHOLE_STORE;
    return this.open.has(name) || this.open.size < MAX_SERVERS ? name : WHOLE_STORE;
  }

  private mayTell(node: string, code: ErrorCode, nowUs: number): boolean {
    const times = this.toldUs.get(node) ?? new Map<ErrorCode, number>();
    const sinceUs = nowUs - (times.get(code) ?? -Infinity);
    // A clock that stepped back silences nobody.
    if (sinceUs >= 0 && sinceUs < MIN_INTERVAL_US) return false;
    // The one that was told last goes last.
    this.toldUs.delete(node);
    this.toldUs.set(node, times.set(code, nowUs));
    const [oldest] = this.toldUs.keys();
    if (this.toldUs.size > MAX_SERVERS && oldest !== undefined) this.toldUs.delete(oldest);
    return true;
  }
}
