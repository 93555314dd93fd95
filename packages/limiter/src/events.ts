import type { Decision } from './decision.ts';
import { LimiterError, show, type ErrorCode } from './errors.ts';

export interface LimiterEvents {
  /** Every decision of `check` and `checkSync`, denied ones included; `tookMs` is real time, from the call to here. */
  decision: { readonly decision: Decision; readonly cost: number; readonly tookMs: number };
  /**
   * A server of the store began to fail, and the failure policy answers: once per outage of the server and code of the
   * error, at most once per second. `node` is `store` where no server is known to be to blame.
   */
  storeError: { readonly node: string; readonly error: LimiterError };
  /**
   * Every call that the store failed to decide and the failure policy answered, of `peek` too: as often as requests
   * come.
   */
  undecided: { readonly error: LimiterError };
  /** The server decides again, after a `storeError`; `failures` calls met the outage. */
  recovered: { readonly node: string; readonly afterMs: number; readonly failures: number };
  /** A server of the store counts as down: it is not asked again until a probe succeeds. */
  nodeDown: { readonly node: string; readonly error: LimiterError };
  /** A server that was down decides again. */
  nodeUp: { readonly node: string; readonly afterMs: number };
  /** A server that was down will not come back: the store has another one in its place. */
  nodeGone: { readonly node: string; readonly afterMs: number };
  /** A server did not know the script (new, restarted, flushed) and got it again. */
  scriptReloaded: { readonly node: string };
  /**
   * The store charged a check after the failure policy had answered it. `refunded`: the store has given back what it
   * had taken, aged by the time since; else that was not confirmed, and the charge may stay until it drains.
   */
  lateCharge: { readonly refunded: boolean };
  /** Something works now, but will break the promise one day: `message` says what to change. */
  warning: { readonly node: string; readonly message: string };
  /** The embedded store is full: new keys share one state. At most once per second. */
  overflow: { readonly policy: string; readonly key: string };
}

export type LimiterEvent = keyof LimiterEvents;
export type Listener<Event extends LimiterEvent> = (event: LimiterEvents[Event]) => unknown;

type Listeners = { readonly [Event in LimiterEvent]: Set<Listener<Event>> };

/** Typed listeners. Nothing is built or called for an event that nobody listens to: ask `heard` first. */
export class Emitter {
  private readonly listeners: Listeners = {
    decision: new Set(),
    storeError: new Set(),
    undecided: new Set(),
    recovered: new Set(),
    nodeDown: new Set(),
    nodeUp: new Set(),
    nodeGone: new Set(),
    scriptReloaded: new Set(),
    lateCharge: new Set(),
    warning: new Set(),
    overflow: new Set(),
  };

  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void {
    if (!Object.hasOwn(this.listeners, event) || typeof listener !== 'function') {
      const events = Object.keys(this.listeners).join(', ');
      throw new LimiterError(
        'INVALID_OPTION',
        `on() got ${show(event)} and ${show(listener)}; expected one of ${events} and a function.`,
      );
    }
    const listeners: Set<Listener<Event>> = this.listeners[event];
    // Wrapped, so that a function that listens twice can stop once.
    const registration: Listener<Event> = (detail) => listener(detail);
    listeners.add(registration);
    return () => void listeners.delete(registration);
  }

  heard(event: LimiterEvent): boolean {
    return this.listeners[event].size > 0;
  }

  emit<Event extends LimiterEvent>(event: Event, detail: LimiterEvents[Event]): void {
    const listeners: Set<Listener<Event>> = this.listeners[event];
    for (const listener of listeners) {
      try {
        // A listener may well be an async function, whatever its type says.
        const pending: unknown = listener(detail);
        if (pending instanceof Promise) pending.catch((error: unknown) => complain(listenerOf(event), error));
      } catch (error) {
        complain(listenerOf(event), error);
      }
    }
  }
}

function listenerOf(event: LimiterEvent): string {
  return `a listener for '${event}'`;
}

/** A broken listener must not turn into a denied request, nor disappear. */
export function complain(what: string, error: unknown): void {
  // oxlint-disable-next-line no-console -- the only place left that somebody may look at
  console.error(`spillgate: ${what} failed:`, error);
}

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
