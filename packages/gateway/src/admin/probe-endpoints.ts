import { endpoint, json, type Endpoint } from './endpoint.ts';
import { deepQuery, probe, readiness } from './schemas.ts';

export const PROBE_ENDPOINTS: readonly Endpoint[] = [
  endpoint({
    id: 'startz',
    method: 'GET',
    path: '/startz',
    summary: 'Whether the gateway has started. For startup probes.',
    access: 'open',
    answers: { 200: json('It has.', probe), 503: json('Not yet.', probe) },
    handle: (_, { operated }) =>
      operated.phase() === 'starting'
        ? { status: 503, value: { status: 'starting' } }
        : { status: 200, value: { status: 'ok' } },
  }),
  endpoint({
    id: 'healthz',
    method: 'GET',
    path: '/healthz',
    summary: 'Whether the process answers at all. For liveness probes: it asks nobody else.',
    access: 'open',
    answers: { 200: json('It does.', probe) },
    handle: () => ({ status: 200, value: { status: 'ok' } }),
  }),
  endpoint({
    id: 'readyz',
    method: 'GET',
    path: '/readyz',
    summary:
      'Whether the gateway takes requests. For readiness probes; not while it starts or drains. `deep=1` also names every server of the store and every backend, and needs the token; a server that fails does not make the gateway unready.',
    access: 'open',
    // Names of servers are not for everybody.
    accessFor: ({ deep }) => (isDeep(deep) ? 'token' : 'open'),
    query: deepQuery,
    answers: { 200: json('It does.', readiness), 503: json('Not now.', readiness) },
    problems: ['TOKEN_REQUIRED', 'TOO_MANY_FAILURES', 'MISDIRECTED_HOST'],
    async handle({ query: { deep } }, { operated }) {
      const phase = operated.phase();
      const ready = phase === 'ready';
      const shallow = { status: ready ? 'ok' : phase };
      const value = isDeep(deep)
        ? { ...shallow, store: await operated.limiter().health(), backends: operated.backends() }
        : shallow;
      return { status: ready ? 200 : 503, value };
    },
  }),
];

function isDeep(deep: string | undefined): boolean {
  return deep === '1' || deep === 'true';
}
