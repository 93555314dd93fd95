import { formatDuration } from 'spillgate';
import { z } from 'zod';
import { effectiveSettings, maskedConfig } from '../config/effective.ts';
import { POLICY_SETTINGS, toSettings } from '../config/schema/policy.ts';
import { shown } from '../config/shown.ts';
import type { GatewayControl, ReloadRecord, ReloadResult } from './control.ts';
import { defineEndpoint, json, type AdminParts, type Endpoint } from './endpoint.ts';
import { AdminProblem } from './problems.ts';
import {
  deepQuery,
  policies,
  probe,
  readiness,
  stats,
  checkedConfig,
  configText,
  liveConfig,
  reloaded,
} from './schemas.ts';

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

/** A text of so many bytes, as JSON writes it. */
const MAX_CHECKED_BYTES = 2_097_152;

/** What is in use, what was, and what would be. */
export const CONFIG_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'config',
    method: 'GET',
    path: '/v1/config',
    summary:
      'The current configuration without its secrets, where each value came from, and the last 20 reloads with what each changed.',
    access: 'token',
    answers: { 200: json('The configuration.', liveConfig) },
    handle: (_, { control }) => ({ status: 200, value: configOf({ control }) }),
  }),
  defineEndpoint({
    id: 'checkConfig',
    method: 'POST',
    path: '/v1/config/check',
    effect: 'none',
    summary:
      'What another configuration would change, or why it would be refused: the file as it is now, or `text` in its place. The environment holds as it does for the file. Takes nothing into use, opens nothing; of a `text`, the files that it names are not read.',
    access: 'token',
    body: configText,
    maxBodyBytes: MAX_CHECKED_BYTES,
    answers: { 200: json('What it would do.', checkedConfig) },
    async handle({ body }, { control }) {
      const { problems, differences } = await control.checkConfig(body?.text);
      const accepted = differences !== undefined;
      return { status: 200, value: { accepted, problems, differences: differences ?? NO_DIFFERENCES } };
    },
  }),
  defineEndpoint({
    id: 'reload',
    method: 'POST',
    path: '/v1/reload',
    summary: 'Reloads the configuration if it is valid.',
    access: 'token',
    answers: { 200: json('It is in use, or already was.', reloaded) },
    problems: ['RELOAD_REFUSED'],
    async handle(_, { control }) {
      const before = { generation: control.live().generation };
      const result = await control.reload();
      if (result.outcome === 'refused') throw refused(result);
      const differences = result.outcome === 'applied' ? control.lastReload()?.differences : undefined;
      const after = { generation: result.generation, differences };
      return { status: 200, value: result, change: { before, after } };
    },
  }),
];

const NO_DIFFERENCES = { total: 0, items: [] };

function configOf({ control }: Pick<AdminParts, 'control'>): object {
  const { config, originOf, generation, loadedAt } = control.live();
  const names = control.apiKeys();
  const [last, ...earlier] = control.reloads().map(shownReload);
  return {
    generation,
    loadedAt: loadedAt.toISOString(),
    lastReload: last,
    reloads: last === undefined ? [] : [last, ...earlier],
    config: maskedConfig(config, names),
    settings: effectiveSettings(config, originOf, names),
  };
}

function shownReload({ at, ...rest }: ReloadRecord): object {
  return { ...rest, at: at.toISOString() };
}

function refused({ generation, problems }: ReloadResult): AdminProblem {
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  return new AdminProblem(
    'RELOAD_REFUSED',
    `The configuration has ${errors} ${errors === 1 ? 'error' : 'errors'}; expected none: correct what the list of problems names. Generation ${generation} stays in use.`,
    { more: { problems } },
  );
}

const maintenanceState = z.strictObject({
  enabled: z.boolean().meta({ description: 'Requests get a 503.' }),
  configured: z.boolean().meta({ description: '`maintenance.enabled` of the configuration.' }),
  switchedTo: z
    .boolean()
    .optional()
    .meta({ description: 'What an operator said; it holds until the gateway restarts.' }),
});

const MAINTENANCE_STATES: ReadonlyMap<string, boolean | undefined> = new Map([
  ['on', true],
  ['off', false],
  ['configured', undefined],
]);

export const MAINTENANCE_ENDPOINTS: readonly Endpoint[] = [
  defineEndpoint({
    id: 'maintenance',
    method: 'GET',
    path: '/v1/maintenance',
    summary: 'Whether requests get a 503 for now, and who said so.',
    access: 'token',
    answers: { 200: json('The state.', maintenanceState) },
    handle: (_, { control }) => ({ status: 200, value: control.maintenance() }),
  }),
  defineEndpoint({
    id: 'switchMaintenance',
    method: 'POST',
    path: '/v1/maintenance/{state}',
    summary:
      'Switches maintenance `on` or `off` in this gateway and its workers, whatever the configuration says; `configured` leaves it to the configuration again.',
    access: 'token',
    answers: { 200: json('The state.', maintenanceState) },
    handle({ parameters: { state: wanted = '' } }, { control }) {
      if (!MAINTENANCE_STATES.has(wanted)) {
        throw new AdminProblem(
          'INVALID_REQUEST',
          `The state is ${shown(wanted)}; expected on, off or configured.`,
        );
      }
      const before = control.maintenance();
      control.switchMaintenance(MAINTENANCE_STATES.get(wanted));
      const after = control.maintenance();
      return { status: 200, value: after, change: { before, after } };
    },
  }),
];
