import { metrics } from '@opentelemetry/api';
import * as client from 'prom-client';
import { expect, test } from 'vitest';
import { createLimiter, LimiterError, type Limiter } from '../../../src/index.ts';
import * as openTelemetry from '../../../src/metrics/opentelemetry.ts';
import * as prometheus from '../../../src/metrics/prometheus.ts';

const registry = new client.Registry();
const meter = metrics.getMeter('spillgate');
const NAME = `expected 1 to 64 letters, digits, '_', '-' or '.', or nothing for 'default'.`;
const REGISTRY = 'expected a Registry of prom-client, or nothing for client.register.';
const CLIENT = "expected the module prom-client: import client from 'prom-client'.";
const METER = "expected a Meter of OpenTelemetry, such as metrics.getMeter('spillgate').";

type Row = readonly [given: string, options: unknown, message: string];

const PROMETHEUS: readonly Row[] = [
  [
    'nothing',
    undefined,
    'The options of collectMetrics() are undefined; expected an object with client, registry, name',
  ],
  [
    'a misspelled option',
    { client, register: registry },
    'do not include "register"; accepted are client, registry, name',
  ],
  ['no client', {}, `client is undefined; ${CLIENT}`],
  ['a client that is a text', { client: 'prom-client' }, `client is "prom-client"; ${CLIENT}`],
  [
    'a client that lacks something',
    { client: { ...client, Histogram: undefined } },
    `client is an object; ${CLIENT}`,
  ],
  [
    'a client without a registry',
    { client: { ...client, register: undefined } },
    `registry is undefined; ${REGISTRY}`,
  ],
  ['a registry that is none', { client, registry: {} }, `registry is an object; ${REGISTRY}`],
  ['no registry on purpose', { client, registry: null }, `registry is null; ${REGISTRY}`],
  ['an empty name', { client, registry, name: '' }, `name is ""; ${NAME}`],
  ['a name with a space', { client, registry, name: 'a b' }, `name is "a b"; ${NAME}`],
  ['a name of 65 letters', { client, registry, name: 'x'.repeat(65) }, `(65 characters); ${NAME}`],
  ['a name that is a number', { client, registry, name: 7 }, `name is 7; ${NAME}`],
];

const OPEN_TELEMETRY: readonly Row[] = [
  [
    'nothing',
    undefined,
    'The options of collectMetrics() are undefined; expected an object with meter, name',
  ],
  ['a misspelled option', { meter, nmae: 'x' }, 'do not include "nmae"; accepted are meter, name'],
  ['no meter', {}, `meter is undefined; ${METER}`],
  [
    'a meter that lacks something',
    { meter: { createCounter: () => undefined } },
    `meter is an object; ${METER}`,
  ],
  ['a name with a line break', { meter, name: 'a\n' }, `name is "a\\n"; ${NAME}`],
];

test.each(PROMETHEUS)('spillgate/prometheus, %s: says what is wrong', (_, options, message) => {
  const call = () => prometheus.collectMetrics(createLimiter(), options as prometheus.PrometheusOptions);

  expect(mistakeOf(call)).toEqual(['INVALID_OPTION', expect.stringContaining(message)]);
});

test.each(OPEN_TELEMETRY)('spillgate/opentelemetry, %s: says what is wrong', (_, options, message) => {
  const call = () =>
    openTelemetry.collectMetrics(createLimiter(), options as openTelemetry.OpenTelemetryOptions);

  expect(mistakeOf(call)).toEqual(['INVALID_OPTION', expect.stringContaining(message)]);
});

test.each([[undefined], [null], ['limiter'], [{ on: () => undefined }], [{ health: () => undefined }]])(
  'something else than a limiter (%s) is a mistake',
  (value) => {
    const limiter = value as unknown as Limiter;

    const mistakes = [
      mistakeOf(() => prometheus.collectMetrics(limiter, { client, registry })),
      mistakeOf(() => openTelemetry.collectMetrics(limiter, { meter })),
    ];

    const expected = ['INVALID_OPTION', expect.stringContaining('expected what createLimiter() returns.')];
    expect(mistakes).toEqual([expected, expected]);
  },
);

test('names of one and of 64 characters are fine', () => {
  const stops = ['x', 'aZ09_.-'.padEnd(64, 'x')].map((name) =>
    prometheus.collectMetrics(createLimiter(), { client, registry, name }),
  );

  expect(stops.map((stop) => stop())).toEqual([undefined, undefined]);
});

function mistakeOf(call: () => unknown): readonly [code: string, message: string] | undefined {
  try {
    call();
  } catch (error) {
    if (error instanceof LimiterError) return [error.code, error.message];
    throw error;
  }
  return undefined;
}
