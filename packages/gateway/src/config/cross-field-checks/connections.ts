import { isDeepStrictEqual } from 'node:util';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../config.ts';
import { pathText, type Path } from '../path.ts';
import type { BackendServers } from '../schema/backend.ts';
import { DEFAULT_ENDPOINTS } from '../schema/redis.ts';
import { repeatedAt, warnWhen, when, type CrossFieldFinding, type CrossFieldCheck } from './finding.ts';

export const serverTls: CrossFieldCheck = ({ server, service }) => [
  ...checkServerTls(['server', 'tls'], server.tls),
  ...(service === undefined ? [] : checkServerTls(['service', 'tls'], service.tls)),
];

function checkServerTls(section: Path, tls: Config['server']['tls']): readonly CrossFieldFinding[] {
  const at = (name: keyof typeof tls): Path => [...section, name];
  const name = pathText(section);
  return [
    ...when(tls.enabled && (tls.cert_file === undefined || tls.key_file === undefined), {
      paths: [at('enabled'), at('cert_file'), at('key_file')],
      message: `${name}.enabled needs ${name}.cert_file and ${name}.key_file`,
      suggestion: 'Name both files, or turn TLS off.',
    }),
    ...when(tls.client_auth !== 'none' && tls.client_ca_file === undefined, {
      paths: [at('client_auth'), at('client_ca_file')],
      message: `${name}.client_auth is ${tls.client_auth}, but ${name}.client_ca_file is missing`,
      suggestion: 'Name the file with the certificate authorities to trust.',
    }),
    ...warnWhen(!tls.enabled && (tls.cert_file !== undefined || tls.client_auth !== 'none'), {
      paths: [at('cert_file'), at('client_auth'), at('enabled')],
      message: `${name}.enabled is false, so the rest of ${name} has no effect`,
      suggestion: `Set ${name}.enabled to true.`,
    }),
  ];
}

interface ClientTlsFiles {
  readonly enabled?: boolean;
  readonly ca_file?: string | undefined;
  readonly cert_file?: string | undefined;
  readonly key_file?: string | undefined;
  readonly insecure_skip_verify: boolean;
}

export const clientTls: CrossFieldCheck = (config) => {
  const { redis, cache_redis, backend, backends, rate_limit, authorization, usage_events } = config;
  return [
    ...checkClientTls(['redis', 'tls'], redisTls(redis)),
    ...checkClientTls(['cache_redis', 'tls'], redisTls(cache_redis)),
    ...checkClientTls(['backend', 'transport', 'tls'], backend.transport.tls),
    ...Object.entries(backends).flatMap(([name, { transport }]) =>
      checkClientTls(['backends', name, 'transport', 'tls'], transport.tls),
    ),
    ...checkClientTls(['rate_limit', 'external', 'grpc', 'tls'], rate_limit.external.grpc?.tls),
    ...checkClientTls(['rate_limit', 'external', 'http', 'tls'], rate_limit.external.http?.tls),
    ...checkClientTls(['authorization', 'grpc', 'tls'], authorization.grpc?.tls),
    ...checkClientTls(['authorization', 'http', 'tls'], authorization.http?.tls),
    ...checkClientTls(['usage_events', 'http', 'tls'], usage_events.http?.tls),
    ...checkPlainService(rate_limit.external.http),
  ];
};

/** A URL with rediss:// switches TLS on. */
function redisTls(redis: Config['redis']): ClientTlsFiles | undefined {
  if (redis === undefined) return undefined;
  const urls = [...(redis.url ?? []), ...redis.shards.map(({ url = '' }) => url)];
  return urls.some(isTlsUrl) ? { ...redis.tls, enabled: true } : redis.tls;
}

function checkPlainService(http: Config['rate_limit']['external']['http']): readonly CrossFieldFinding[] {
  const { ca_file, cert_file, key_file } = http?.tls ?? {};
  const at = (...names: Path): Path => ['rate_limit', 'external', 'http', ...names];
  const hasFiles = ca_file !== undefined || cert_file !== undefined || key_file !== undefined;
  return warnWhen(hasFiles && http?.url.toLowerCase().startsWith('http:') === true, {
    paths: [at('url'), at('tls', 'ca_file'), at('tls', 'cert_file'), at('tls', 'key_file')],
    message: 'rate_limit.external.http.url is not https, so the files in its tls section have no effect',
    suggestion: 'Write https:// if the service speaks TLS.',
  });
}

function checkClientTls(section: Path, tls: ClientTlsFiles | undefined): readonly CrossFieldFinding[] {
  if (tls === undefined) return [];
  const name = pathText(section);
  const at = (field: string): Path => [...section, field];
  const hasFiles = tls.ca_file !== undefined || tls.cert_file !== undefined || tls.key_file !== undefined;
  return [
    ...when((tls.cert_file === undefined) !== (tls.key_file === undefined), {
      paths: [at('cert_file'), at('key_file')],
      message: `${name} has only one of cert_file and key_file`,
      suggestion: 'A certificate and its key belong together.',
    }),
    ...when(tls.insecure_skip_verify && tls.ca_file !== undefined, {
      paths: [at('insecure_skip_verify'), at('ca_file')],
      message: `${name}.ca_file is ignored while insecure_skip_verify is true`,
      suggestion: 'Remove insecure_skip_verify.',
    }),
    ...warnWhen(tls.insecure_skip_verify, {
      paths: [at('insecure_skip_verify')],
      message: `${name}.insecure_skip_verify accepts every certificate`,
      suggestion: 'Trust the right certificates with ca_file instead.',
    }),
    ...warnWhen(tls.enabled === false && hasFiles, {
      paths: [at('enabled'), at('ca_file'), at('cert_file'), at('key_file')],
      message: `${name}.enabled is false, so its files have no effect`,
      suggestion: `Set ${name}.enabled to true.`,
    }),
  ];
}

/** Where the addresses of a section stand: they are written in one way. */
function addressesOf(redis: RedisAddresses): readonly ['url' | 'endpoints' | 'shards', readonly string[]] {
  if (redis.shards.length > 0) {
    return [
      'shards',
      redis.shards.map(({ name, endpoint = '', url = '' }) => name ?? (endpoint || hostOf(url))),
    ];
  }
  if (redis.url !== undefined) return ['url', redis.url.map(hostOf)];
  return ['endpoints', redis.endpoints];
}

type RedisAddresses = NonNullable<Config['redis']>;

/** Without the password. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : '';
}

function databaseIn(url: string): number {
  return URL.canParse(url) ? Number(new URL(url).pathname.slice(1)) : 0;
}

function isTlsUrl(url: string): boolean {
  return url.startsWith('rediss:');
}

/** One way to name the servers, and only the settings that belong to it. */
function checkRedisAddresses(section: string, redis: RedisAddresses): readonly CrossFieldFinding[] {
  const at = (...names: Path): Path => [section, ...names];
  const { url = [], shards, mode } = redis;
  const hasEndpoints = !isDeepStrictEqual(redis.endpoints, DEFAULT_ENDPOINTS);
  const urls = [...url, ...shards.flatMap((shard) => shard.url ?? [])];
  return [
    ...when(url.length > 0 && hasEndpoints, {
      paths: [at('endpoints'), at('url')],
      message: `${section} has both url and endpoints`,
      suggestion: 'Keep one of them.',
    }),
    ...when(shards.length > 0 && (url.length > 0 || hasEndpoints), {
      paths: [at('shards'), at('url'), at('endpoints')],
      message: `${section} has shards beside url or endpoints`,
      suggestion: 'Keep one of them.',
    }),
    ...when(shards.length > 0 && mode !== 'shards', {
      paths: [at('shards'), at('mode')],
      message: `${section}.shards is only used by mode shards, and the mode is ${mode}`,
      suggestion: 'Set the mode to shards, or remove them.',
    }),
    ...shards.flatMap((shard, index) =>
      when((shard.url === undefined) === (shard.endpoint === undefined), {
        paths: [at('shards', index)],
        message: `${section}.shards[${index}] has ${shard.url === undefined ? 'neither endpoint nor url' : 'both endpoint and url'}`,
        suggestion: 'Give it one of them.',
      }),
    ),
    ...when(urls.some(isTlsUrl) && !urls.every(isTlsUrl), {
      paths: [at('url'), at('shards')],
      message: `${section} mixes redis:// and rediss://`,
      suggestion: 'All servers of a section speak TLS, or none does.',
    }),
    ...when(mode === 'sentinel' && url.some((text) => databaseIn(text) > 0), {
      paths: [at('url'), at('mode')],
      message: `${section}.url names a database, but these are sentinels`,
      suggestion: `Set ${section}.db, which is that of the servers they watch.`,
    }),
  ];
}

export const redisTopology: CrossFieldCheck = (config) => [
  ...checkRedis('redis', config.redis),
  ...checkRedis('cache_redis', config.cache_redis),
];

function checkRedis(section: string, redis: Config['redis']): readonly CrossFieldFinding[] {
  if (redis === undefined) return [];
  const at = (...names: Path): Path => [section, ...names];
  const [written, addresses] = addressesOf(redis);
  const database = Math.max(redis.db, ...(redis.url ?? []).map(databaseIn));
  return [
    ...checkRedisAddresses(section, redis),
    ...when(redis.mode === 'sentinel' && redis.master_name === undefined, {
      paths: [at('mode'), at('master_name')],
      message: `${section}.mode is sentinel, but ${section}.master_name is missing`,
      suggestion: 'It is the name after "sentinel monitor" in their configuration, often mymaster.',
    }),
    ...when(redis.mode !== 'sentinel' && redis.master_name !== undefined, {
      paths: [at('master_name'), at('mode')],
      message: `${section}.master_name is only used by mode sentinel, and the mode is ${redis.mode}`,
      suggestion: 'Set the mode to sentinel, or remove the name.',
    }),
    ...when(
      redis.mode !== 'sentinel' &&
        (redis.sentinel_username !== undefined || redis.sentinel_password !== undefined),
      {
        paths: [at('sentinel_username'), at('sentinel_password'), at('mode')],
        message: `${section} has credentials for sentinels, but its mode is ${redis.mode}`,
        suggestion: 'Set the mode to sentinel, or remove them.',
      },
    ),
    ...when(redis.mode === 'single' && written !== 'shards' && addresses.length > 1, {
      paths: [at(written), at('mode')],
      message: `${section}.mode is single, but there are ${addresses.length} ${written === 'url' ? 'URLs' : 'endpoints'}`,
      suggestion: 'Set the mode to cluster, sentinel, replication or shards.',
    }),
    ...when(redis.mode === 'cluster' && database !== 0, {
      paths: [at('db'), at('url'), at('mode')],
      message: `${section}.db is ${database}, but a cluster has only database 0`,
      suggestion: 'Remove it; key_prefix keeps applications apart.',
    }),
    ...repeatedAt(addresses).flatMap((index) =>
      when(true, {
        paths: [at(written, index)],
        message: `${section}.${written} contains ${addresses[index] ?? ''} twice`,
        suggestion: written === 'shards' ? 'Give each shard a name of its own.' : 'Remove one of them.',
      }),
    ),
  ];
}

export const workersShareState: CrossFieldCheck = ({ server: { workers }, redis }) =>
  when(workers > 1 && redis === undefined, {
    paths: [['server', 'workers'], ['redis']],
    message: `server.workers is ${workers}, but without redis each worker counts on its own, so clients get up to ${workers} times their limit`,
    suggestion: 'Add a redis section, or use one worker.',
  });

export const clientAddress: CrossFieldCheck = ({ server: { client_address: address } }) =>
  when(address.trusted_proxies.length > 0 && address.trusted_hops !== undefined, {
    paths: [
      ['server', 'client_address', 'trusted_hops'],
      ['server', 'client_address', 'trusted_proxies'],
    ],
    message: 'server.client_address has both trusted_proxies and trusted_hops',
    suggestion: 'Keep one of them: trusted_proxies if you know the addresses of your proxies.',
  });

export const upstreams: CrossFieldCheck = ({ backend, backends }) => [
  ...checkServers(['backend'], backend),
  ...Object.entries(backends).flatMap(([name, named]) => checkServers(['backends', name], named)),
];

function checkServers(section: Path, backend: BackendServers): readonly CrossFieldFinding[] {
  const at = (...names: Path): Path => [...section, ...names];
  const name = pathText(section);
  return [
    ...when(backend.url !== undefined && backend.upstreams.length > 0, {
      paths: [at('url'), at('upstreams')],
      message: `${name} has both url and upstreams`,
      suggestion: 'Move the url into upstreams.',
    }),
    ...repeatedAt(backend.upstreams.map(({ url }) => new URL(url).origin)).flatMap((index) =>
      when(true, {
        paths: [at('upstreams', index, 'url')],
        message: `${name}.upstreams[${index}] is the same server as an earlier one`,
        suggestion: 'Give one of them a higher weight instead.',
      }),
    ),
    ...when(backend.health_check.timeout > backend.health_check.interval, {
      paths: [at('health_check', 'timeout'), at('health_check', 'interval')],
      message: `${name}.health_check.timeout is longer than ${name}.health_check.interval`,
      suggestion: 'Each check has to end before the next one begins.',
    }),
  ];
}

const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|\[::1\]|localhost):/;

export const adminIsClosed: CrossFieldCheck = ({ admin, server }) => [
  ...when(admin.enabled && !LOOPBACK.test(admin.address) && admin.token === undefined, {
    paths: [
      ['admin', 'address'],
      ['admin', 'token'],
    ],
    message: `admin.address ${admin.address} can be reached from other machines, but admin.token is not set`,
    suggestion: 'Set a token with SPILLGATE_ADMIN_TOKEN_FILE, or listen on 127.0.0.1.',
  }),
  ...when(admin.read_only_token !== undefined && admin.token === undefined, {
    paths: [
      ['admin', 'read_only_token'],
      ['admin', 'token'],
    ],
    message: 'admin.read_only_token is set, but admin.token is not: everybody could change everything',
    suggestion: 'Set a token with SPILLGATE_ADMIN_TOKEN_FILE, or remove read_only_token.',
  }),
  ...when(admin.read_only_token !== undefined && admin.read_only_token === admin.token, {
    paths: [
      ['admin', 'read_only_token'],
      ['admin', 'token'],
    ],
    message: 'admin.read_only_token and admin.token are the same',
    suggestion: 'Give those who only read a token of their own.',
  }),
  ...when(
    admin.enabled &&
      splitHostPort(admin.address).port === splitHostPort(server.address).port &&
      splitHostPort(admin.address).port !== 0,
    {
      paths: [
        ['admin', 'address'],
        ['server', 'address'],
      ],
      message: `admin.address and server.address use the same port, ${splitHostPort(admin.address).port}`,
      suggestion: 'Give the admin server a port of its own.',
    },
  ),
];

export const serviceIsClosed: CrossFieldCheck = ({ service, server, admin }) => {
  if (service === undefined) return [];
  const { port } = splitHostPort(service.address);
  const others = [
    { setting: 'server', address: server.address },
    ...(admin.enabled ? [{ setting: 'admin', address: admin.address }] : []),
  ];
  return [
    ...warnWhen(
      !LOOPBACK.test(service.address) &&
        service.token === undefined &&
        !(service.tls.enabled && service.tls.client_auth === 'require'),
      {
        paths: [
          ['service', 'address'],
          ['service', 'token'],
        ],
        message: `service.address ${service.address} can be reached from other machines, and everybody who reaches it can spend and reset limits`,
        suggestion:
          'Set a token with SPILLGATE_SERVICE_TOKEN_FILE, require client certificates with service.tls.client_auth, or listen on 127.0.0.1.',
      },
    ),
    ...others.flatMap(({ setting, address }) =>
      when(port !== 0 && splitHostPort(address).port === port, {
        paths: [
          ['service', 'address'],
          [setting, 'address'],
        ],
        message: `service.address and ${setting}.address use the same port, ${port}`,
        suggestion: 'Give the service a port of its own.',
      }),
    ),
  ];
};

export const tracingHasAnEndpoint: CrossFieldCheck = ({ tracing }) =>
  when(tracing.enabled && tracing.endpoint === undefined, {
    paths: [
      ['tracing', 'enabled'],
      ['tracing', 'endpoint'],
    ],
    message: 'tracing.enabled needs tracing.endpoint',
    suggestion: 'Name the collector, such as http://localhost:4318.',
  });
