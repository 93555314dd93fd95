// Gateways that have just started in front of a healthy Redis, and are asked at once for more than the policy admits.
import { GatewayProcess } from './gateway-process.ts';
import { burst, type Backend } from './traffic.ts';

export const ADMITTED_AT_MOST = 3;
const REQUESTS = 20;

/** Servers as a `redis` section names them. */
export interface NamedServers {
  readonly settings: string;
  readonly ports: readonly number[];
}

export interface ColdStart {
  readonly topology: NamedServers;
  readonly backend: Backend;
  readonly failurePolicy: 'passThrough' | 'inMemoryFallback';
  readonly workers: number;
  /** More settings of `rate_limit`. */
  readonly limits?: string;
  /** More settings of `redis`. */
  readonly redis?: string;
}

let started = 0;

export interface FirstRequests {
  readonly admitted: number;
  /** Why the failure policy answered, where it did. */
  readonly failures: readonly string[];
}

/** What becomes of the first requests. */
export async function coldStart(start: ColdStart): Promise<FirstRequests> {
  const { topology, backend, failurePolicy, workers, limits = '', redis = '' } = start;
  started += 1;
  const endpoints = topology.ports.map((port) => `"127.0.0.1:${port}"`).join(', ');
  // Every start is its own client of the same servers.
  const gateway = await GatewayProcess.start(`
server: { address: "127.0.0.1:0", workers: ${workers} }
admin: { address: "127.0.0.1:0" }
backend: { url: "${backend.url}" }
logging: { access_log_enabled: false, decision_log: "off" }
redis: { ${topology.settings}, endpoints: [${endpoints}], key_prefix: "start-${process.pid}-${started}:"${redis} }
rate_limit: { average: 1, burst: ${ADMITTED_AT_MOST}, period: 1h, failure_policy: ${failurePolicy}${limits} }
`);
  try {
    const { statuses } = await burst([gateway.url], REQUESTS);
    const failures = gateway.lines.flatMap(({ detail }) => (typeof detail === 'string' ? [detail] : []));
    return { admitted: statuses.get(200) ?? 0, failures };
  } finally {
    await gateway.remove();
  }
}
