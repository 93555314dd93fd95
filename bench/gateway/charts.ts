import type { Chart, ChartBar } from '../frame/chart.ts';
import { togetherUs, type Measurement } from './measurement.ts';

const MEMORY = [
  'nginx-limit',
  'haproxy-limit',
  'spillgate-memory',
  'envoy-local',
  'reply-from',
  'http-proxy-3',
];
const REDIS = ['spillgate-redis', 'envoy-ratelimit'];
const DENIED = ['nginx-limit', 'nginx-denied', 'spillgate-memory', 'spillgate-denied'];

export function gatewayCharts(
  measured: readonly Measurement[],
  workers: readonly Measurement[],
): readonly Chart[] {
  return [
    {
      id: 'gateway',
      title: "A proxy's processor time per request, limits in memory",
      unit: 'us',
      note: 'All processes except backend and load; lower is better',
      bars: barsOf(measured, MEMORY, togetherUs),
    },
    {
      id: 'gateway-redis',
      title: 'Processor time per request, limits in Redis',
      unit: 'us',
      note: 'All processes except backend and load: the proxy, the service that it asks, and Redis; lower is better',
      bars: barsOf(measured, REDIS, togetherUs),
    },
    {
      id: 'gateway-denied',
      title: "A proxy's processor time for a served request and for a denied one",
      unit: 'us',
      note: 'Limits in memory; lower is better',
      bars: barsOf(measured, DENIED, togetherUs),
    },
    {
      id: 'gateway-workers',
      title: 'Requests per second with one worker and with two',
      unit: '/s',
      note: 'Spillgate shares limits in Redis, nginx in memory. On two cores, load and backend are on the same ones',
      bars: barsOf(
        workers,
        workers.map(({ candidate }) => candidate.id),
        ({ perSecond }) => perSecond,
      ),
    },
  ];
}

/** In the order of the ids; what was not measured has no bar. */
function barsOf(
  measured: readonly Measurement[],
  ids: readonly string[],
  value: (measurement: Measurement) => number,
): readonly ChartBar[] {
  return ids.flatMap((id) => {
    const one = measured.find(({ candidate }) => candidate.id === id);
    if (one === undefined) return [];
    const { name, role, limits } = one.candidate;
    const limited = limits === 'none' ? `${name}, no limits` : name;
    return [{ name: limited, value: value(one), ...(role === 'ours' ? { ours: true } : {}) }];
  });
}
