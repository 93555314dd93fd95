import type { Limiter } from 'spillgate';
import { inSettings } from '../config/problem.ts';
import { ThrottledWarning, type Log } from '../telemetry/log.ts';

/**
 * Every server and kind of failure is told once per outage; of many at the same time, one line per second says enough.
 */
const QUIET_MS = 1000;

/** Tells the log when the store fails and recovers. */
export function logLimiter(limiter: Limiter, log: Log): void {
  const failing = new ThrottledWarning(
    log,
    'the store could not decide; the failure policy answers',
    QUIET_MS,
  );
  limiter.on('storeError', ({ node, error }) =>
    failing.warn({ node, code: error.code, detail: inSettings(error.message) }),
  );
  limiter.on('recovered', ({ node, afterMs, failures }) =>
    log.info({ node, afterMs: Math.round(afterMs), failures }, 'the store decides again'),
  );
  limiter.on('nodeDown', ({ node, error }) =>
    log.warn({ node, detail: inSettings(error.message) }, 'a server of the store is down'),
  );
  limiter.on('nodeUp', ({ node, afterMs }) =>
    log.info({ node, afterMs: Math.round(afterMs) }, 'a server of the store is up again'),
  );
  limiter.on('nodeGone', ({ node, afterMs }) =>
    log.info({ node, afterMs: Math.round(afterMs) }, 'a server of the store that was down is replaced'),
  );
  limiter.on('warning', ({ node, message }) => log.warn({ node }, message));
  limiter.on('overflow', ({ policy }) =>
    log.warn({ policy }, 'rate_limit.max_keys is reached: new keys share one state'),
  );
}
