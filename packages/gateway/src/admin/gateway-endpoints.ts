import { formatDuration } from 'spillgate';
import { defineEndpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import type { GatewayControl } from './control.ts';
import { deepQuery, policies, probe, readiness, stats } from './schemas.ts';
import { POLICY_SETTINGS, toSettings } from '../config/schema/policy.ts';

export const PROBE_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'startz',
    method: 'GET',
    path: '/startz',
    summary: 'Whether the gateway has started. For startup probes.',
    access: 'open',
    answers: { 200: json('It has.', probe), 503: json('Not yet.', probe) },
    handle: (_, { control }) =>
      control.phase() === 'starting'
        ? { status: 503, value: { status: 'starting' } }
        : { status: 200, value: { status: 'ok' } },
  }),
  defineEndpoint({
    id: 'healthz',
    method: 'GET',
    path: '/healthz',
    summary: 'Whether the process answers at all. For liveness probes: it depends on nothing else.',
    access: 'open',
    answers: { 200: json('It does.', probe) },
    handle: () => ({ status: 200, value: { status: 'ok' } }),
  }),
  defineEndpoint({
    id: 'readyz',
    method: 'GET',
    path: '/readyz',
    summary:
      'Whether the gateway takes requests. For readiness probes; not while it starts or drains. `deep=1` also asks whether a decision can be made: by the store, or locally with `inMemoryFallback`. It names every server of the store and every backend, and needs the token. For monitoring: as a readiness probe it would take every gateway out of service at once when Redis fails.',
    access: 'open',
    // The names of servers need the token.
    accessFor: ({ deep }) => (isDeep(deep) ? 'token' : 'open'),
    query: deepQuery,
    answers: { 200: json('It does.', readiness), 503: json('Not now.', readiness) },
    problems: ['TOKEN_REQUIRED', 'TOO_MANY_FAILURES', 'MISDIRECTED_HOST'],
    async handle({ query: { deep } }, { control }) {
      const phase = control.phase();
      const status = phase === 'ready' ? 'ok' : phase;
      if (!isDeep(deep)) return { status: status === 'ok' ? 200 : 503, value: { status } };
      const problem = await control.storeProblem();
      const deepStatus = status === 'ok' && problem !== undefined ? 'store-unavailable' : status;
      const store = { ...(await control.limiter().health()), problem };
      return {
        status: deepStatus === 'ok' ? 200 : 503,
        value: { status: deepStatus, store, backends: control.backends() },
      };
    },
  }),
];

function isDeep(deep: string | undefined): boolean {
  return deep === '1' || deep === 'true';
}

/** What the gateway as a whole does, and is told. */
export const GATEWAY_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'metrics',
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in the Prometheus text format.',
    access: 'token',
    answers: {
      200: {
        description: 'Every metric.',
        schema: undefined,
        contentType: 'text/plain; version=0.0.4; charset=utf-8',
      },
    },
    handle: async (_, { metrics }) => ({ status: 200, value: await metrics.text() }),
  }),
  defineEndpoint({
    id: 'stats',
    method: 'GET',
    path: '/v1/stats',
    summary: 'A few numbers about what the gateway has done since it started.',
    access: 'token',
    answers: { 200: json('The numbers.', stats) },
    handle: async (_, parts) => ({ status: 200, value: await statsOf(parts) }),
  }),
  defineEndpoint({
    id: 'policies',
    method: 'GET',
    path: '/v1/policies',
    summary: 'Every policy in use.',
    access: 'token',
    answers: { 200: json('The policies.', policies) },
    handle: (_, { control, fleet }) => ({
      status: 200,
      value: {
        policies: [...control.policies().values()].map(
          ({ name, algorithm, numbers, limit, failurePolicy }) => ({
            name,
            algorithm,
            numbers: asWritten(numbers),
            limit,
            failure_policy: failurePolicy,
            overrides: { configured: configuredCount(control, name), runtime: runtimeCount(fleet, name) },
          }),
        ),
      },
    }),
  }),
];

async function statsOf({ control, metrics, version }: AdminParts): Promise<object> {
  const { startedAt } = control;
  return {
    version,
    phase: control.phase(),
    startedAt: startedAt.toISOString(),
    // By the wall clock, as startedAt.
    uptimeSeconds: Math.max(0, (Date.now() - startedAt.getTime()) / 1000),
    generation: control.live().generation,
    traffic: await metrics.traffic.summary(),
    backends: control.backends(),
  };
}

function runtimeCount(fleet: AdminParts['fleet'], name: string): number {
  return fleet.settings().filter(({ kind, policy }) => kind === 'override' && policy === name).length;
}

function configuredCount({ live }: Pick<GatewayControl, 'live'>, policy: string): number {
  return live().config.rate_limit.policies[policy]?.overrides.length ?? 0;
}

/** Numbers of the library as the configuration has them: the gateway gives it durations in milliseconds. */
export function asWritten(numbers: unknown): object {
  if (typeof numbers !== 'object' || numbers === null) return {};
  const given = Object.entries<unknown>(toSettings({ ...numbers })).filter(
    ([, value]) => value !== undefined,
  );
  return Object.fromEntries(given.map(([name, value]) => [name, asWrittenNumber(name, value)]));
}

/** A number of the library as the configuration has it. */
export function asWrittenNumber(setting: string, value: unknown): unknown {
  return DURATIONS.has(setting) && typeof value === 'number' ? formatDuration(value * 1000) : value;
}

const DURATIONS: ReadonlySet<string> = new Set(
  POLICY_SETTINGS.filter(({ kind }) => kind === 'duration').map(({ setting }) => setting),
);
