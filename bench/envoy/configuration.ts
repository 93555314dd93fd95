// The parts of Envoy's configuration that the suites put together.

const TYPE = 'type.googleapis.com/envoy.extensions';

export interface Listener {
  readonly name: string;
  readonly port: number;
  /** What a route does: `{ route }` or `{ direct_response }`. */
  readonly action: object;
  readonly filters?: readonly object[];
}

export function listenerOf({ name, port, action, filters = [] }: Listener): object {
  const routes = [{ match: { prefix: '/' }, ...action }];
  const router = {
    name: 'envoy.filters.http.router',
    typed_config: { '@type': `${TYPE}.filters.http.router.v3.Router` },
  };
  const manager = {
    '@type': `${TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    // The address that limits count by is that of the connection, and goes to the backend.
    use_remote_address: true,
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes }] },
    http_filters: [...filters, router],
  };
  const filter = { name: 'envoy.filters.network.http_connection_manager', typed_config: manager };
  return { address: addressOf(port), filter_chains: [{ filters: [filter] }] };
}

/** Asks the service of this cluster for every request. */
export function rateLimitFilter(cluster: string, domain: string): object {
  return {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': `${TYPE}.filters.http.ratelimit.v3.RateLimit`,
      domain,
      timeout: '10s',
      failure_mode_deny: true,
      // They show that a decision was made.
      enable_x_ratelimit_headers: 'DRAFT_VERSION_03',
      rate_limit_service: {
        transport_api_version: 'V3',
        grpc_service: { envoy_grpc: { cluster_name: cluster } },
      },
    },
  };
}

/** One bucket for everybody in Envoy itself. */
export function localRateLimitFilter(perSecond: number): object {
  const always = { default_value: { numerator: 100, denominator: 'HUNDRED' } };
  return {
    name: 'envoy.filters.http.local_ratelimit',
    typed_config: {
      '@type': `${TYPE}.filters.http.local_ratelimit.v3.LocalRateLimit`,
      stat_prefix: 'local',
      token_bucket: { max_tokens: perSecond, tokens_per_fill: perSecond, fill_interval: '1s' },
      filter_enabled: always,
      filter_enforced: always,
    },
  };
}

const HTTP2 = {
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': `${TYPE}.upstreams.http.v3.HttpProtocolOptions`,
      explicit_http_config: { http2_protocol_options: {} },
    },
  },
};

export function clusterOf(name: string, port: number): object {
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: addressOf(port) } }] }];
  return { name, type: 'STATIC', load_assignment: { cluster_name: name, endpoints } };
}

export function grpcClusterOf(name: string, port: number): object {
  return { ...clusterOf(name, port), ...HTTP2 };
}

function addressOf(port: number): object {
  return { socket_address: { address: '127.0.0.1', port_value: port } };
}

/** One worker, and nothing that other Envoys of this machine could meet. */
export function envoyArguments(file: string): readonly string[] {
  return ['-c', file, '--concurrency', '1', '--log-level', 'error', '--disable-hot-restart'];
}
