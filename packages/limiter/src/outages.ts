// Which servers of a store fail, as the calls of a limiter meet it, and who hears of it.
import { readClock, type Clock } from './clock.ts';
import type { ErrorCode, LimiterError } from './errors.ts';
import type { Emitter } from './events.ts';
import type { Limit } from './limit.ts';
import { addLastWords, forgetLastWords, processWarning } from './process-warning.ts';
import type { Store, StoreHealth } from './stores/store.ts';

/** From the first call that a server could not answer to the first that it answers again. */
interface Outage {
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
 * For this long a failed call contradicts a store that reports itself up. Not until the next call succeeds: an instance
 * that gets no requests because it is not healthy would never be healthy again.
 */
const FAILURE_COUNTS_US = 1_000_000;

/** Whoever listens to one of these knows that the store fails. */
const WATCHED = ['storeError', 'undecided', 'nodeDown'] as const;
const LASTING_FAILURES = 5;
const LASTING_US = 1_000_000;

/** What may pass by itself is worth a warning only if it does not. */
function isLasting({ sinceUs, lastUs, failures }: Outage): boolean {
  return failures >= LASTING_FAILURES && lastUs - sinceUs >= LASTING_US;
}

/** Calls fail by the thousand: what begins and ends is told, once per server and kind of failure. */
export class Outages {
  /** A server is out: only then has a success to be noted. */
  isAny = false;
  private readonly store: Store;
  private readonly clock: Clock;
  private readonly emitter: Emitter;
  private readonly open = new Map<string, Outage>();
  /** When each kind of failure was last told, by server; kept after the outage. */
  private readonly toldUs = new Map<string, Map<ErrorCode, number>>();
  private readonly warned = new Set<ErrorCode>();

  private readonly warnAtTheEnd = (): void => {
    const outage = this.latest();
    if (outage !== undefined) this.warnIfUnheard(outage.lastError);
  };

  constructor({ store, clock }: { readonly store: Store; readonly clock: Clock }, emitter: Emitter) {
    this.store = store;
    this.clock = clock;
    this.emitter = emitter;
  }

  /** The store could not decide about these limits. */
  noteFailure(limits: readonly Limit[], error: LimiterError): void {
    const nowUs = readClock(this.clock);
    const node = this.blamed(error, this.store.servers?.(limits) ?? []);
    const known = this.open.get(node);
    const outage = known ?? { sinceUs: nowUs, failures: 0, lastUs: nowUs, lastError: error, told: new Set() };
    if (known === undefined) this.open.set(node, outage);
    this.isAny = true;
    outage.failures += 1;
    outage.lastUs = nowUs;
    outage.lastError = error;
    if (!outage.told.has(error.code) && this.mayTell(node, error.code, nowUs)) {
      outage.told.add(error.code);
      this.emitter.emit('storeError', { node, error });
    }
    if (error.errorClass === 'configuration' || isLasting(outage)) this.warnIfUnheard(error);
    // A short program ends before anything lasts.
    else if (known === undefined) addLastWords(this.warnAtTheEnd);
  }

  /** The servers of these limits have decided; of the others, those that the store no longer has cannot any more. */
  noteSuccess(limits: readonly Limit[]): void {
    const deciding = this.store.servers?.(limits) ?? [];
    const all = this.store.servers?.() ?? [];
    const nowUs = readClock(this.clock);
    for (const [node, outage] of this.open) {
      const isOver = deciding.includes(node) || !all.includes(node);
      if (!isOver) continue;
      this.open.delete(node);
      const { sinceUs, failures, told } = outage;
      if (told.size > 0)
        this.emitter.emit('recovered', { node, afterMs: (nowUs - sinceUs) / 1000, failures });
    }
    this.isAny = this.open.size > 0;
    if (!this.isAny) forgetLastWords(this.warnAtTheEnd);
  }

  /** The health of a store that reports itself up, though calls of this limiter fail. */
  doubt(health: StoreHealth): StoreHealth {
    const outage = this.latest();
    if (outage === undefined || readClock(this.clock) - outage.lastUs >= FAILURE_COUNTS_US) return health;
    const detail = `the failure policy answered the last ${outage.failures} calls: ${outage.lastError.message}`;
    return {
      status: 'degraded',
      nodes: [...health.nodes, { name: 'limiter', status: 'degraded', detail }],
    };
  }

  /** The one that was met last. */
  private latest(): Outage | undefined {
    let latest: Outage | undefined;
    for (const outage of this.open.values()) {
      if (latest === undefined || outage.lastUs >= latest.lastUs) latest = outage;
    }
    return latest;
  }

  /** `candidates`: the servers that may be to blame, where the error does not say. */
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

  /**
   * An outage that nobody listens for would go unnoticed: limits are then kept per process, or not at all. Once per
   * cause.
   */
  private warnIfUnheard(error: LimiterError): void {
    if (WATCHED.some((event) => this.emitter.heard(event))) return;
    if (this.warned.has(error.code)) return;
    this.warned.add(error.code);
    processWarning(
      `${error.message.replace(/\.$/, '')}. The failure policy answers in place of the store. Listen to 'storeError' and 'recovered' to handle this yourself.`,
      `SPILLGATE_${error.code}`,
    );
  }
}
