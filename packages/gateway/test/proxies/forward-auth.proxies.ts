// nginx, Caddy, HAProxy and Envoy ask the service before they forward a request.
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { describe, expect, test } from 'vitest';
import { startTestService } from '../service/running-service.ts';
import {
  askProxy,
  burst,
  documented,
  ENVOY,
  folderWith,
  freePort,
  placed,
  startCountingBackend,
  startProxyProcess,
  type CountingBackend,
} from './proxy-rig.ts';

interface Ports {
  readonly proxy: number;
  readonly service: number;
  readonly backend: number;
}

const START: Readonly<Record<string, (ports: Ports) => Promise<void>>> = {
  nginx: async (ports) => {
    const server = placed(documented('proxies/nginx.md', 'nginx'), ports);
    const folder = folderWith({
      'nginx.conf': `daemon off;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\n  access_log off;\n${server}\n}\n`,
    });
    await startProxyProcess({
      program: 'nginx',
      args: ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'],
      folder,
      port: ports.proxy,
    });
  },
  Caddy: async (ports) => {
    const site = placed(documented('proxies/caddy.md', 'caddyfile'), ports);
    const folder = folderWith({ Caddyfile: `{\n  admin off\n  auto_https off\n}\n${site}` });
    await startProxyProcess({
      program: 'caddy',
      args: ['run', '--config', 'Caddyfile', '--adapter', 'caddyfile'],
      folder,
      port: ports.proxy,
    });
  },
  HAProxy: async (ports) => {
    const folder = folderWith({
      'haproxy.cfg': placed(documented('proxies/haproxy.md', 'haproxy'), ports),
      'spillgate.lua': placed(documented('proxies/haproxy.md', 'lua'), ports),
    });
    await startProxyProcess({ program: 'haproxy', args: ['-f', 'haproxy.cfg'], folder, port: ports.proxy });
  },
  'Envoy over gRPC': async (ports) => startEnvoy(ports, 'yaml envoy-filter-grpc', 'http2_protocol_options'),
  'Envoy over HTTP': async (ports) => startEnvoy(ports, 'yaml envoy-filter-http', 'http_protocol_options'),
};

/** The configuration of the rate limit filter with another filter in its place. */
async function startEnvoy(ports: Ports, block: string, protocol: string): Promise<void> {
  const whole = placed(documented('proxies/envoy.md', 'yaml envoy-rls'), ports).replace(
    'http2_protocol_options',
    protocol,
  );
  const config = parse(whole) as EnvoyConfig;
  const filter: unknown = parse(placed(documented('proxies/envoy.md', block), ports));
  const manager = config.static_resources.listeners[0]?.filter_chains[0]?.filters[0]?.typed_config;
  if (manager === undefined) throw new Error('the document shows no connection manager');
  manager.http_filters[0] = filter;
  const folder = folderWith({ 'envoy.yaml': stringify(config) });
  await startProxyProcess({
    program: ENVOY,
    args: ['-c', 'envoy.yaml', '--concurrency', '1', '--disable-hot-restart', '-l', 'warning'],
    folder,
    port: ports.proxy,
  });
}

interface EnvoyConfig {
  readonly static_resources: {
    readonly listeners: readonly {
      readonly filter_chains: readonly {
        readonly filters: readonly { readonly typed_config: { readonly http_filters: unknown[] } }[];
      }[];
    }[];
  };
}

const LIMITS = (failurePolicy: string): string => `
server: { client_address: { trusted_proxies: [loopback] } }
rate_limit:
  deadline: 5s
  failure_policy: ${failurePolicy}
  failure_code: 503
  policies:
    api: { algorithm: fixedWindow, quota: 3, window: 1d }
    one: { algorithm: fixedWindow, quota: 1, window: 1d }
  rules:
    - { name: api, match: { path: /api/**, method: [GET] }, key: { type: header, header_name: X-User }, policies: [api] }
    - { name: tried, match: { path: /tried }, policies: [one], shadow: true }
    - { name: client, match: { path: /client }, policies: [one] }
`;

const DOWN = 'redis: { endpoints: ["127.0.0.1:1"], dial_timeout: 100ms }';

async function rigOf(
  proxy: string,
  limits: string,
): Promise<{ readonly port: number; readonly backend: CountingBackend }> {
  const backend = await startCountingBackend();
  const service = await startTestService(limits);
  const port = await freePort();
  const start = START[proxy];
  if (start === undefined) throw new Error(`nobody starts ${proxy}`);
  await start({ proxy: port, service: service.port, backend: backend.port });
  return { port, backend };
}

describe.each(Object.keys(START))('%s', (proxy) => {
  test('forwards what the rules admit, and tells refused clients why', async () => {
    const { port, backend } = await rigOf(proxy, LIMITS('failClosed'));
    const ask = async (path: string, user = 'ann') => askProxy(port, path, { 'x-user': user });

    const admitted = [await ask('/api/a?x=1'), await ask('/api/b'), await ask('/api/c')];
    const refused = await ask('/api/d');
    const others = [
      await ask('/api/a', 'bob'),
      await ask('/other'),
      await ask('/tried'),
      await ask('/tried'),
    ];

    expect(admitted.map(({ status, body }) => `${status} ${body}`)).toEqual(
      Array(3).fill('200 from the backend'),
    );
    expect(refused.status).toBe(429);
    expect(refused.headers['retry-after']).toMatch(/^\d+$/);
    expect(refused.headers['ratelimit']).toMatch(/^"api";r=0;t=\d+$/);
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(backend.served()).toBe(7);
  });

  test('asks about the client, whatever the client says about itself', async () => {
    const { port } = await rigOf(proxy, LIMITS('failClosed'));
    const forged = async (n: number) =>
      askProxy(port, '/client?source=x-original&denied_status=418&allowed_status=204', {
        'x-forwarded-for': `203.0.113.${n}`,
        'x-forwarded-uri': '/other',
        'x-forwarded-method': 'OPTIONS',
        'x-original-url': 'http://a/other',
      });

    expect([(await forged(1)).status, (await forged(2)).status]).toEqual([200, 429]);
  });

  test.each([
    ['failClosed', 503, 0],
    ['passThrough', 200, 1],
  ])('while the store is down, %s gives clients a %d', async (policy, status, served) => {
    const { port, backend } = await rigOf(proxy, LIMITS(policy) + DOWN);

    expect((await askProxy(port, '/api/a', { 'x-user': 'ann' })).status).toBe(status);
    expect(backend.served()).toBe(served);
  });
});

test.each(['Envoy over gRPC', 'Envoy over HTTP'])(
  '%s: of 10,000 requests exactly the admitted number reaches the backend',
  async (proxy) => {
    const REQUESTS = 10_000;
    const ADMITTED = 3456;
    const { port, backend } = await rigOf(
      proxy,
      `
server: { client_address: { trusted_proxies: [loopback] } }
rate_limit:
  policies: { per-user: { algorithm: fixedWindow, quota: ${ADMITTED}, window: 365d } }
  rules: [{ name: all, match: {}, key: { type: header, header_name: X-User }, policies: [per-user] }]
`,
    );

    const statuses = await burst(port, REQUESTS);

    expect(Object.fromEntries(statuses)).toEqual({ 200: ADMITTED, 429: REQUESTS - ADMITTED });
    expect(backend.served()).toBe(ADMITTED);
  },
  180_000,
);
