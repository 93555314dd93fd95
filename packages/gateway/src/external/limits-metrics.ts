import type { MovedMetrics } from '../telemetry/moved-metrics.ts';
import type { LimitsSourceObserver } from './limits-source.ts';

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
