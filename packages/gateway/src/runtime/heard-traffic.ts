import type { Logger } from '../telemetry/logger.ts';
import type { TrafficListener } from '../telemetry/traffic.ts';

/** Traffic for the metrics and for the access log. */
export function heardBy(metrics: TrafficListener, logger: Logger): TrafficListener {
  return {
    ...forwarded(metrics),
    finished(request) {
      metrics.finished(request);
      logger.access(request);
    },
  };
}

function forwarded(listener: TrafficListener): TrafficListener {
  return {
    started: () => listener.started?.(),
    finished: (request) => listener.finished(request),
    addressOddity: (oddity) => listener.addressOddity?.(oddity),
    connectionOpened: () => listener.connectionOpened(),
    connectionRefused: (bound) => listener.connectionRefused?.(bound),
    connectionClosed: () => listener.connectionClosed(),
    tunnelOpened: () => listener.tunnelOpened(),
    tunnelClosed: () => listener.tunnelClosed(),
  };
}
