import type { Decision } from './decision.ts';
import { LimiterError, show } from './errors.ts';

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
  /** A key was denied so often that its policy blocks it from now on: once per block. */
  penalty: {
    readonly policy: string;
    readonly key: string;
    readonly endsInMs: number;
    readonly reason: string;
  };
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
    penalty: new Set(),
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
