import {
  clusterOf,
  envoyArguments,
  grpcClusterOf,
  listenerOf,
  localRateLimitFilter,
  rateLimitFilter,
} from '../envoy/configuration.ts';
import { referenceEnvironment, writeDescriptors } from '../envoy/reference-server.ts';
import type { Candidate, Places } from './candidate.ts';

/** A request of every client in an hour: more than there will be. */
const DESCRIPTORS = `
domain: shop
descriptors: [{ key: remote_address, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }]
`;

export function envoy(id: string, limits: Candidate['limits']): Candidate {
  const asksService = limits === 'Redis';
  return {
    id,
    name: { none: 'Envoy', memory: 'Envoy, local rate limit', Redis: 'Envoy, envoyproxy/ratelimit' }[limits],
    role: 'native',
    limits,
    needs: asksService ? ['envoy', 'ratelimit'] : ['envoy'],
    file: (port, places) => JSON.stringify(envoyFile(port, limits, places)),
    command: (_, file, { programs }) => [programs.envoy, ...envoyArguments(file)],
    ...(asksService ? { helper: ratelimitCommand } : {}),
  };
}

function envoyFile(port: number, limits: Candidate['limits'], places: Places): object {
  const counted = limits === 'Redis' ? { rate_limits: [{ actions: [{ remote_address: {} }] }] } : {};
  const filters = {
    none: [],
    memory: [localRateLimitFilter(1_000_000)],
    Redis: [rateLimitFilter('ratelimit', 'shop')],
  }[limits];
  return {
    static_resources: {
      listeners: [
        listenerOf({ name: 'clients', port, action: { route: { cluster: 'backend', ...counted } }, filters }),
      ],
      clusters: [
        clusterOf('backend', places.upstreamPort),
        ...(limits === 'Redis' ? [grpcClusterOf('ratelimit', places.helperPort)] : []),
      ],
    },
  };
}

async function ratelimitCommand(port: number, { folder, redisPort, programs }: Places): Promise<string[]> {
  writeDescriptors(folder, DESCRIPTORS);
  const environment = await referenceEnvironment({ root: folder, port, redisPort });
  // `env` becomes the program: it is its process that is measured.
  const settings = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  return ['env', ...settings, programs.ratelimit];
}
