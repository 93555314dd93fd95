import type { Decision } from './decision.ts';
import type { LimiterError } from './errors.ts';

export interface LimiterEvents {
  /** Every decision of `check` and `checkSync`, denied ones included. */
  decision: { readonly decision: Decision; readonly cost: number };
  /** The store failed to decide; the failure policy answered. */
  storeError: { readonly error: LimiterError };
  /** The store decides again, after at least one `storeError`. */
  recovered: { readonly afterMs: number; readonly failures: number };
  /** The embedded store is full: new keys share one state. At most once per second. */
  overflow: { readonly policy: string; readonly key: string };
}

export type LimiterEvent = keyof LimiterEvents;
export type Listener<Event extends LimiterEvent> = (event: LimiterEvents[Event]) => void;

type Listeners = { readonly [Event in LimiterEvent]: Set<Listener<Event>> };

/** Typed listeners. Nothing is built or called for an event that nobody listens to: ask `heard` first. */
export class Emitter {
  private readonly listeners: Listeners = {
    decision: new Set(),
    storeError: new Set(),
    recovered: new Set(),
    overflow: new Set(),
  };

  on<Event extends LimiterEvent>(event: Event, listener: Listener<Event>): () => void {
    const listeners: Set<Listener<Event>> = this.listeners[event];
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  heard(event: LimiterEvent): boolean {
    return this.listeners[event].size > 0;
  }

  emit<Event extends LimiterEvent>(event: Event, detail: LimiterEvents[Event]): void {
    const listeners: Set<Listener<Event>> = this.listeners[event];
    for (const listener of listeners) {
      try {
        listener(detail);
      } catch (error) {
        // A broken listener must not turn into a denied request, nor disappear.
        // oxlint-disable-next-line no-console -- the only place left that somebody may look at
        console.error(`spillgate: a listener for '${event}' failed:`, error);
      }
    }
  }
}
