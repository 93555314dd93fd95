import type { FailurePolicy, Policy } from 'spillgate';
import type { LimitsSourceSnapshot } from '../telemetry/metric.ts';
import type { FailureReason } from './service/service.ts';
import type { MovedMetrics } from '../telemetry/traffic-tally.ts';

/** What the service is asked about. */
export interface LimitsQuestion {
  /** The key, as the key strategy reads it. */
  readonly key: string;
  readonly method: string;
  readonly path: string;
  /** All lines of a header by its lower-case name; the source sends only what its filter lets out. */
  readonly headers: { readonly raw: readonly string[] };
  /** Ends this caller's wait with step `static`. The call to the service goes on for the others. */
  readonly signal?: AbortSignal | undefined;
}

/** Where limits came from: the step of the chain. `static`: nobody knows; use the configured limits. */
type LimitsStep = 'cache' | 'service' | 'stale' | 'static';

/** What holds for a request. */
export interface ExternalLimits {
  readonly step: LimitsStep;
  /** Policies to meet; empty means unlimited (`average: 0`). Undefined at step `static`. */
  readonly policies: readonly Policy[] | undefined;
  /** Counts instead of the extracted key. */
  readonly tenantKey: string | undefined;
  readonly cost: number | undefined;
  /** Already part of `policies`. Never looser than a configured `failClosed`. */
  readonly failurePolicy: FailurePolicy | undefined;
  readonly failureCode: number | undefined;
  /** Already checked against `backend.url_policy` by name; the address is checked when it is dialled. */
  readonly backendUrl: string | undefined;
  readonly requestTimeoutMs: number | undefined;
}

/** Knows the limits of each key. Never rejects, and answers within the deadline. */
export interface LimitsSource {
  limitsFor(question: LimitsQuestion): ExternalLimits | Promise<ExternalLimits>;
  close(): Promise<void>;
}

/** Why limits came from the step they came from. */
export type StepReason =
  /** `cache`: known to this process, or read from the shared cache. */
  | 'local'
  | 'shared'
  /** `service`: just asked. */
  | 'answered'
  /** `stale` and `static`: why the service did not answer. */
  | FailureReason
  /** It failed a moment ago. */
  | 'quiet'
  | 'breakerOpen'
  | 'globalBreakerOpen'
  /** Too many calls in flight. */
  | 'overflow'
  | 'cancelled'
  | 'closed';

/** Hears what the source does, for metrics. It never throws. */
export interface LimitsSourceObserver {
  /** Once per question. */
  resolved(step: LimitsStep, reason: StepReason): void;
  /** Once per call to the service: `answered`, or why not. */
  asked(outcome: StepReason, durationMs: number): void;
  /** Once per look into the shared cache. `corrupt`: an entry that is not ours or not whole. */
  sharedCache(
    operation: 'read' | 'write',
    outcome: 'hit' | 'stale' | 'miss' | 'stored' | 'corrupt' | 'failed',
  ): void;
  breaker(scope: 'key' | 'global', state: 'closed' | 'open'): void;
  refreshed(): void;
  /** Something in an answer that was understood and not done. */
  refused(field: 'backendUrl' | 'failurePolicy'): void;
  /** `held`: a raise soon after a lowering, which has to wait. */
  changed(change: 'lower' | 'higher' | 'other' | 'held'): void;
}

export interface ObservedLimitsSource extends LimitsSource {
  snapshot(): LimitsSourceSnapshot;
}

/** Step `static`: the configured limits. */
export const STATIC_LIMITS: ExternalLimits = Object.freeze({
  step: 'static',
  policies: undefined,
  tenantKey: undefined,
  cost: undefined,
  failurePolicy: undefined,
  failureCode: undefined,
  backendUrl: undefined,
  requestTimeoutMs: undefined,
});

/** Counts what a source of limits does. */
export function limitsMetrics(moved: MovedMetrics): LimitsSourceObserver {
  return {
    // Runs with every request.
    resolved: (step, reason) => moved.count('externalLimits', step, reason),
    asked: (outcome, durationMs) => {
      moved.count('externalCalls', outcome);
      moved.observe('externalCallDuration', durationMs / 1000);
    },
    sharedCache: (operation, outcome) => moved.count('externalSharedCache', operation, outcome),
    breaker: (scope, state) => moved.count('externalBreakerChanges', scope, state),
    refused: (field) => moved.count('externalRefused', field),
    changed: (change) => moved.count('externalChanges', change),
    refreshed: () => moved.count('externalRefreshes'),
  };
}
