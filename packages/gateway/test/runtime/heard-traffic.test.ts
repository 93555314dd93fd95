import { expect, test, vi } from 'vitest';
import { heardBy } from '../../src/runtime/heard-traffic.ts';
import type { Logger } from '../../src/telemetry/logger.ts';
import { TrafficTally } from '../../src/telemetry/traffic-tally.ts';
import { finished } from '../telemetry/finished.ts';

test('the metrics hear of everything, and the access log of requests that are over', () => {
  const tally = new TrafficTally();
  const access = vi.fn<Logger['access']>();
  const traffic = heardBy(tally, { access } as unknown as Logger);
  const request = finished({ outcome: 'forwarded' });

  traffic.started?.();
  traffic.started?.();
  traffic.finished(request);
  traffic.addressOddity?.('junk');
  traffic.connectionOpened();
  traffic.connectionOpened();
  traffic.connectionRefused?.('max_connections');
  traffic.connectionClosed();
  traffic.tunnelOpened();
  traffic.tunnelOpened();
  traffic.tunnelClosed();

  expect(access.mock.calls).toEqual([[request]]);
  expect(tally.summary()).toMatchObject({
    requests: { forwarded: 1 },
    requestsInFlight: 1,
    connections: 1,
    tunnels: 1,
  });
  expect(tally.addressOddities.junk).toBe(1);
  expect(tally.connectionsRefused.max_connections).toBe(1);
});
