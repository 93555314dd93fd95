import { show } from '../errors.ts';
import type { Limiter } from '../limiter.ts';
import { requireOptionNames } from '../options.ts';
import { Collection, hasMethods, invalid } from './collection.ts';
import type { Instruments } from './instruments.ts';
import { METRICS, type LimiterMetric } from './metric-table.ts';

/** What is used of the module `prom-client`. */
export interface PrometheusClient {
  readonly Counter: new (configuration: PrometheusConfiguration) => PrometheusCounter;
  readonly Gauge: new (configuration: PrometheusConfiguration) => PrometheusGauge;
  readonly Histogram: new (configuration: PrometheusConfiguration) => PrometheusHistogram;
  readonly register: PrometheusRegistry;
}

export interface PrometheusRegistry {
  registerMetric(metric: object): void;
  getSingleMetric(name: string): object | undefined;
}

export interface PrometheusConfiguration {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
  readonly registers: never[];
  readonly aggregator?: 'min' | 'max' | 'sum';
  readonly buckets?: number[];
  readonly collect?: () => Promise<void>;
}

export interface PrometheusCounter {
  inc(labels: PrometheusLabels, amount: number): void;
  reset(): void;
}

export interface PrometheusGauge {
  set(labels: PrometheusLabels, value: number): void;
  reset(): void;
}

export interface PrometheusHistogram {
  observe(labels: PrometheusLabels, value: number): void;
}

export type PrometheusLabels = Readonly<Record<string, string>>;

export interface PrometheusOptions {
  /** The module: `import client from 'prom-client'`. */
  readonly client: PrometheusClient;
  /** Where the metrics are registered. Default: `client.register`. */
  readonly registry?: PrometheusRegistry | undefined;
  /** The label `limiter`, to tell several apart: 1 to 64 letters, digits, `_`, `-` or `.`. Default: `'default'`. */
  readonly name?: string | undefined;
}

/**
 * Counts what a limiter does, in metrics of `prom-client`. Returns the function that stops; what was counted stays.
 *
 * @example
 * import client from 'prom-client';
 * collectMetrics(limiter, { client });
 */
export function collectMetrics(limiter: Limiter, options: PrometheusOptions): () => void {
  requireOptionNames('The options of collectMetrics()', options, ['client', 'registry', 'name']);
  requireClient(options.client);
  const { client, registry = client.register, name } = options;
  requireRegistry(registry);
  return collectionFor(registry, client).collect(limiter, name);
}

interface Registered {
  readonly collection: Collection;
  /** What the registry had under that name after the registration: something else, and it was cleared since. */
  readonly decisions: object | undefined;
}

/** Limiters on one registry share its metrics. */
const registered = new WeakMap<PrometheusRegistry, Registered>();

function collectionFor(registry: PrometheusRegistry, client: PrometheusClient): Collection {
  const known = registered.get(registry);
  const decisions = registry.getSingleMetric(METRICS.decisions.name);
  if (known !== undefined && decisions === known.decisions) return known.collection;
  const taken = Object.values(METRICS).find(({ name }) => registry.getSingleMetric(name) !== undefined);
  if (taken !== undefined) {
    invalid(
      `The registry has another metric ${taken.name} already: use a registry of its own, or remove that one.`,
    );
  }
  const collection = new Collection(instrumentsOn(registry, client));
  registered.set(registry, { collection, decisions: registry.getSingleMetric(METRICS.decisions.name) });
  return collection;
}

function instrumentsOn(registry: PrometheusRegistry, client: PrometheusClient): Instruments {
  const register = <Created extends object>(created: Created): Created => {
    registry.registerMetric(created);
    return created;
  };
  return {
    counter(metric) {
      const counter = register(new client.Counter(configurationOf(metric)));
      return (labels, amount) => counter.inc(labels, amount);
    },
    histogram(metric, buckets) {
      const configuration = { ...configurationOf(metric), buckets: [...buckets] };
      const histogram = register(new client.Histogram(configuration));
      return (labels, value) => histogram.observe(labels, value);
    },
    readCounter(metric, read) {
      const collect = async (): Promise<void> => {
        const readings = await read();
        counter.reset();
        for (const { labels, value } of readings) counter.inc(labels, value);
      };
      const counter = register(new client.Counter({ ...configurationOf(metric), collect }));
    },
    gauge(metric, { read, workers }) {
      const collect = async (): Promise<void> => {
        const readings = await read();
        // No pause between these: another scrape may be in flight.
        gauge.reset();
        for (const { labels, value } of readings) gauge.set(labels, value);
      };
      const configuration = { ...configurationOf(metric), aggregator: workers, collect };
      const gauge = register(new client.Gauge(configuration));
    },
  };
}

/** Registered afterwards: so the registry needs no type that `prom-client` alone could fulfil. */
function configurationOf({ name, help, labels }: LimiterMetric): PrometheusConfiguration {
  return { name, help, labelNames: [...labels], registers: [] };
}

function requireClient(client: unknown): void {
  if (hasMethods(client, ['Counter', 'Gauge', 'Histogram'])) return;
  invalid(`client is ${show(client)}; expected the module prom-client: import client from 'prom-client'.`);
}

function requireRegistry(registry: unknown): void {
  if (hasMethods(registry, ['registerMetric', 'getSingleMetric'])) return;
  invalid(
    `registry is ${show(registry)}; expected a Registry of prom-client, or nothing for client.register.`,
  );
}
