// What the admin server shows and changes where several workers share the port.
import { AggregatorRegistry } from 'prom-client';
import type { AdminMetrics } from '../admin/endpoint.ts';
import type { Overrides } from '../admin/overrides.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TrafficSummary } from '../telemetry/traffic-tally.ts';
import type { WorkerFleet } from './worker-fleet.ts';

/** Workers hear only of configurations that the primary process took: what became of the others it alone knows. */
const OF_RELOADS =
  /_(?:reloads_total|last_reload_successful|config_generation|config_loaded_timestamp_seconds)$/;

/** What the primary process leases for all workers, it counts itself. */
const OF_LEASES = /^spillgate_(?:store_calls_total|lease_tokens_total)$/;

/** The metrics of all workers together, and what the primary process (`own`) knows about reloads and leases. */
export function fleetMetrics(fleet: WorkerFleet, own: Metrics): AdminMetrics {
  return {
    async text() {
      const metrics = await fleet.ask('metrics');
      const primary = await own.registry.getMetricsAsJSON();
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what registry.getMetricsAsJSON() gave in a worker
      const lists = metrics as Parameters<typeof AggregatorRegistry.aggregate>[0][];
      lists.push(primary.filter(({ name }) => OF_RELOADS.test(name) || OF_LEASES.test(name)));
      return AggregatorRegistry.aggregate(lists).metrics();
    },
    traffic: {
      async summary() {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what TrafficTally.summary() gave in a worker
        return sumOf((await fleet.ask('summary')) as readonly TrafficSummary[]);
      },
    },
  };
}

type Counts = TrafficSummary['requests'];

function sumOf(summaries: readonly TrafficSummary[]): TrafficSummary {
  const rules = new Map<string, Counts>();
  for (const { rule, requests } of summaries.flatMap((summary) => summary.rules)) {
    rules.set(rule, added(rules.get(rule) ?? NO_REQUESTS, requests));
  }
  const total = (count: (summary: TrafficSummary) => number): number =>
    summaries.reduce((sum, summary) => sum + count(summary), 0);
  return {
    requests: summaries.reduce((sum, { requests }) => added(sum, requests), NO_REQUESTS),
    rules: [...rules].map(([rule, requests]) => ({ rule, requests })),
    requestsInFlight: total((summary) => summary.requestsInFlight),
    connections: total((summary) => summary.connections),
    tunnels: total((summary) => summary.tunnels),
    receivedBytes: total((summary) => summary.receivedBytes),
    sentBytes: total((summary) => summary.sentBytes),
  };
}

const NO_REQUESTS: Counts = { forwarded: 0, refused: 0, invalid: 0, failed: 0, aborted: 0 };

function added(one: Counts, other: Counts): Counts {
  return {
    forwarded: one.forwarded + other.forwarded,
    refused: one.refused + other.refused,
    invalid: one.invalid + other.invalid,
    failed: one.failed + other.failed,
    aborted: one.aborted + other.aborted,
  };
}

/** What an operator gives to a key holds in every worker. */
export function fleetOverrides(overrides: Overrides, fleet: WorkerFleet): Overrides {
  return {
    ...overrides,
    set(override) {
      overrides.set(override);
      fleet.override(override.policy, override.key, override.numbers);
    },
    remove(policy, key) {
      const removed = overrides.remove(policy, key);
      if (removed) fleet.override(policy, key, undefined);
      return removed;
    },
  };
}
