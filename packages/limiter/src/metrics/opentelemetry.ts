import { show } from '../errors.ts';
import type { Limiter } from '../limiter.ts';
import { isNotInstalled } from '../optional-package.ts';
import { requireOptionNames } from '../options.ts';
import { Collection, hasMethods, invalid } from './collection.ts';
import type { GaugeSource, Instruments, SeriesReading } from './instruments.ts';
import { openTelemetryName, openTelemetryUnit, type LimiterMetric } from './metric-table.ts';

/** What is used of a `Meter` of `@opentelemetry/api`. */
export interface OpenTelemetryMeter {
  createCounter(name: string, options: InstrumentOptions): OpenTelemetryCounter;
  createHistogram(name: string, options: InstrumentOptions): OpenTelemetryHistogram;
  createObservableCounter(name: string, options: InstrumentOptions): OpenTelemetryGauge;
  createObservableGauge(name: string, options: InstrumentOptions): OpenTelemetryGauge;
}

export interface InstrumentOptions {
  readonly description: string;
  readonly unit?: string;
  readonly advice?: { readonly explicitBucketBoundaries: number[] };
}

export interface OpenTelemetryCounter {
  add(amount: number, attributes: MetricAttributes): void;
}

export interface OpenTelemetryHistogram {
  record(value: number, attributes: MetricAttributes): void;
}

/** An instrument that is asked for its values. */
export interface OpenTelemetryGauge {
  addCallback(callback: (result: ObservableResult) => Promise<void>): void;
}

export interface ObservableResult {
  observe(value: number, attributes: MetricAttributes): void;
}

export type MetricAttributes = Readonly<Record<string, string>>;

export interface OpenTelemetryOptions {
  /** Such as `metrics.getMeter('spillgate')` of `@opentelemetry/api`, asked for after the SDK was started. */
  readonly meter: OpenTelemetryMeter;
  /** The attribute `limiter`, to tell several apart: 1 to 64 letters, digits, `_`, `-` or `.`. Default: `'default'`. */
  readonly name?: string | undefined;
}

/**
 * Counts what a limiter does, in instruments of OpenTelemetry. Returns the function that stops; what was counted stays.
 *
 * @example
 * import { metrics } from '@opentelemetry/api';
 * collectMetrics(limiter, { meter: metrics.getMeter('spillgate') });
 */
export function collectMetrics(limiter: Limiter, options: OpenTelemetryOptions): () => void {
  requireOptionNames('The options of collectMetrics()', options, ['meter', 'name']);
  const { meter, name } = options;
  requireMeter(meter);
  const collection = collections.get(meter) ?? new Collection(instrumentsOf(meter));
  collections.set(meter, collection);
  return collection.collect(limiter, name);
}

/**
 * The meter that the application's `@opentelemetry/api` has for Spillgate; undefined if that package is not installed.
 * Ask after the SDK was started: a meter from before it never records anything.
 */
export async function globalMeter(): Promise<OpenTelemetryMeter | undefined> {
  try {
    return meterOf(await import('@opentelemetry/api'));
  } catch (error) {
    if (isNotInstalled(error, '@opentelemetry/api')) return undefined;
    throw error;
  }
}

/** Limiters on one meter share its instruments. */
const collections = new WeakMap<OpenTelemetryMeter, Collection>();

function instrumentsOf(meter: OpenTelemetryMeter): Instruments {
  return {
    counter(metric) {
      const counter = meter.createCounter(openTelemetryName(metric), optionsOf(metric));
      return (labels, amount) => counter.add(amount, labels);
    },
    histogram(metric, buckets) {
      const options = { ...optionsOf(metric), advice: { explicitBucketBoundaries: [...buckets] } };
      const histogram = meter.createHistogram(openTelemetryName(metric), options);
      return (labels, value) => histogram.record(value, labels);
    },
    readCounter(metric, read) {
      const counter = meter.createObservableCounter(openTelemetryName(metric), optionsOf(metric));
      counter.addCallback(async (result) => {
        for (const { labels, value } of await read()) result.observe(value, labels);
      });
    },
    gauge(metric, source) {
      const gauge = meter.createObservableGauge(openTelemetryName(metric), optionsOf(metric));
      gauge.addCallback(observer(source));
    },
  };
}

/**
 * The SDK for JavaScript shows a series that is not observed any more as it was, forever: a server that failed and was
 * replaced would be down until the end of the program. What one reader's callback observes, all readers get.
 */
function observer<Gauge extends LimiterMetric>({
  read,
  gone,
}: GaugeSource<Gauge>): (result: ObservableResult) => Promise<void> {
  let last: readonly SeriesReading<Gauge>[] = [];
  return async (result) => {
    const readings = await read();
    const present = new Set(readings.map(seriesOf));
    for (const past of last) {
      if (!present.has(seriesOf(past))) result.observe(gone, past.labels);
    }
    for (const { labels, value } of readings) result.observe(value, labels);
    last = readings;
  };
}

function seriesOf({ labels }: SeriesReading<LimiterMetric>): string {
  return JSON.stringify(Object.values(labels));
}

function optionsOf(metric: LimiterMetric): InstrumentOptions {
  const unit = openTelemetryUnit(metric);
  return unit === undefined ? { description: metric.help } : { description: metric.help, unit };
}

interface MeterProvider {
  getMeter(name: string): OpenTelemetryMeter;
}

function meterOf(api: object): OpenTelemetryMeter | undefined {
  const provider: unknown = Reflect.get(api, 'metrics');
  return isMeterProvider(provider) ? provider.getMeter('spillgate') : undefined;
}

function isMeterProvider(value: unknown): value is MeterProvider {
  return hasMethods(value, ['getMeter']);
}

function requireMeter(meter: unknown): void {
  if (
    hasMethods(meter, [
      'createCounter',
      'createHistogram',
      'createObservableCounter',
      'createObservableGauge',
    ])
  )
    return;
  invalid(
    `meter is ${show(meter)}; expected a Meter of OpenTelemetry, such as metrics.getMeter('spillgate').`,
  );
}
