import { formatDuration } from 'spillgate';
import { effectiveSettings, maskedConfig } from '../config/effective.ts';
import { endpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import type { Operated, ReloadResult } from './operated.ts';
import { AdminProblem } from './problems.ts';
import { liveConfig, policies, reloaded, stats } from './schemas.ts';

/** What the gateway as a whole does, and is told. */
export const GATEWAY_ENDPOINTS: readonly Endpoint[] = [
  endpoint({
    id: 'metrics',
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in the text format of Prometheus.',
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
  endpoint({
    id: 'config',
    method: 'GET',
    path: '/v1/config',
    summary: 'The configuration in use without its secrets, and where each value came from.',
    access: 'token',
    answers: { 200: json('The configuration.', liveConfig) },
    handle: (_, { operated }) => ({ status: 200, value: configOf({ operated }) }),
  }),
  endpoint({
    id: 'reload',
    method: 'POST',
    path: '/v1/reload',
    summary: 'Reads the configuration again, and takes it into use if nothing is wrong with it.',
    access: 'token',
    answers: { 200: json('It is in use, or was already.', reloaded) },
    problems: ['RELOAD_REFUSED'],
    async handle(_, { operated }) {
      const result = await operated.reload();
      if (result.outcome === 'refused') throw refused(result);
      return { status: 200, value: result };
    },
  }),
  endpoint({
    id: 'stats',
    method: 'GET',
    path: '/v1/stats',
    summary: 'What the gateway has done since its start, in a few numbers.',
    access: 'token',
    answers: { 200: json('The numbers.', stats) },
    handle: async (_, parts) => ({ status: 200, value: await statsOf(parts) }),
  }),
  endpoint({
    id: 'policies',
    method: 'GET',
    path: '/v1/policies',
    summary: 'Every policy in use.',
    access: 'token',
    answers: { 200: json('The policies.', policies) },
    handle: (_, { operated, overrides }) => ({
      status: 200,
      value: {
        policies: [...operated.policies().values()].map(
          ({ name, algorithm, numbers, limit, failurePolicy }) => ({
            name,
            algorithm,
            numbers: asWritten(numbers),
            limit,
            failure_policy: failurePolicy,
            overrides: { configured: configuredOverrides(operated, name), runtime: overrides.count(name) },
          }),
        ),
      },
    }),
  }),
];

function configOf({ operated }: Pick<AdminParts, 'operated'>): object {
  const { config, originOf, generation, loadedAt } = operated.live();
  const last = operated.lastReload();
  return {
    generation,
    loadedAt: loadedAt.toISOString(),
    lastReload: last === undefined ? undefined : { ...last, at: last.at.toISOString() },
    config: maskedConfig(config),
    settings: effectiveSettings(config, originOf),
  };
}

function refused({ generation, problems }: ReloadResult): AdminProblem {
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  return new AdminProblem(
    'RELOAD_REFUSED',
    `The configuration has ${errors} ${errors === 1 ? 'error' : 'errors'}; expected none: correct what the list of problems names. Generation ${generation} stays in use.`,
    { more: { problems } },
  );
}

async function statsOf({ operated, metrics, version }: AdminParts): Promise<object> {
  const { startedAt } = operated;
  return {
    version,
    phase: operated.phase(),
    startedAt: startedAt.toISOString(),
    uptimeSeconds: Math.max(0, (Date.now() - startedAt.getTime()) / 1000),
    generation: operated.live().generation,
    traffic: await metrics.summary(),
    backends: operated.backends(),
  };
}

function configuredOverrides({ live }: Pick<Operated, 'live'>, policy: string): number {
  return live().config.rate_limit.policies[policy]?.overrides.length ?? 0;
}

/** The durations among the numbers of the library, which the gateway gives it in milliseconds. */
const DURATIONS = new Set(['period', 'window', 'offset', 'maxDelay']);

/** Numbers of the library as the configuration has them. */
function asWritten(numbers: unknown): object {
  if (typeof numbers !== 'object' || numbers === null) return {};
  const given = Object.entries(numbers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    given.map(([name, value]) => [
      name === 'maxDelay' ? 'max_delay' : name,
      DURATIONS.has(name) && typeof value === 'number' ? formatDuration(value * 1000) : value,
    ]),
  );
}
