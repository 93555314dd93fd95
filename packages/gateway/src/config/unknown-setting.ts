// What to say about a setting that does not exist: what was probably meant, in the same section, or what someone who
// comes from another gateway is looking for.
import { configSchema } from './config.ts';
import { pathText, startsWith, type Path } from './path.ts';
import { fieldsOf, schemasAt, SETTINGS } from './settings.ts';
import { shownName } from './shown.ts';
import { nearest } from './suggestion.ts';

export function unknownSetting(
  path: Path,
  tree: unknown,
): { readonly message: string; readonly suggestion: string } {
  const parent = path.slice(0, -1);
  const name = String(path.at(-1));
  const known = schemasAt(configSchema, tree, parent).flatMap((schema) => fieldNames(schema));
  const written = parent.length === 0 ? shownName(name) : `${pathText(parent)}.${shownName(name)}`;
  return {
    message: `${written} is not a setting`,
    suggestion: suggestionFor(name, parent, [...new Set(known)]),
  };
}

function fieldNames(schema: unknown): readonly string[] {
  return (fieldsOf(schema) ?? []).map(([field]) => field);
}

function suggestionFor(name: string, parent: Path, known: readonly string[]): string {
  const answer = FOREIGN.get(genericPath([...parent, name]));
  if (answer !== undefined) return answer;
  const meant = nearest(name, known);
  if (meant !== undefined) return `Did you mean ${pathText([...parent, meant])}?`;
  const elsewhere = sameSection(name, parent);
  if (elsewhere.length > 0) return `Did you mean ${elsewhere.join(' or ')}?`;
  const anywhere = ANYWHERE.get(name);
  if (anywhere !== undefined) return anywhere;
  if (Object.hasOwn(configSchema.shape, name)) return `Move it: ${name} is a section at the top of the file.`;
  return known.length === 0 ? 'Remove it.' : `Settings here: ${known.join(', ')}.`;
}

/** Settings of this name elsewhere in the section; of a name without a section in all of them. */
function sameSection(name: string, parent: Path): readonly string[] {
  // What does not belong to an algorithm or a rule belongs to another one, not to another part of the section.
  if (startsWith(parent, ['rate_limit', 'policies']) || startsWith(parent, ['rate_limit', 'rules']))
    return [];
  return SETTINGS.filter(
    ({ keys }) => keys?.at(-1) === name && (parent.length === 0 || keys[0] === parent[0]),
  )
    .map(({ path }) => path)
    .slice(0, 3);
}

/** `rate_limit.rules[].match`, `rate_limit.policies.*.limit` */
function genericPath(path: Path): string {
  return path
    .map((part, at) => {
      if (typeof part === 'number') return '[]';
      const isPolicyName = at === 2 && path[0] === 'rate_limit' && path[1] === 'policies';
      return at === 0 ? part : `.${isPolicyName ? '*' : part}`;
    })
    .join('');
}

const ENDPOINTS =
  'Did you mean redis.url, such as redis://user:password@host:6379/0, or redis.endpoints, which takes host:port?';
const LISTEN = 'Did you mean server.address? It takes a port, or an address and a port, such as ":8080".';
const AVERAGE = 'Write average and period, such as average: 100 and period: "1m".';
const NAMED_POLICY = 'Define a policy in rate_limit.policies and name it in the policies of the rule.';
const MATCHED = (name: string): string => `Did you mean rate_limit.rules[].match.${name}?`;
const NAMED_BACKEND = 'Define the service in backends, and name it in the backend of the rule.';
const RULES =
  'Limits are rules: match requests in rate_limit.rules, and name the policies they have to meet.';

/** By where it was written. Names as EdgeQuota, nginx, Kong, Envoy and Redis clients call things. */
const FOREIGN: ReadonlyMap<string, string> = new Map([
  ...[
    'uri',
    'urls',
    'host',
    'hosts',
    'port',
    'address',
    'addresses',
    'addr',
    'addrs',
    'nodes',
    'servers',
  ].flatMap((name): [string, string][] => [
    [`redis.${name}`, ENDPOINTS],
    [`cache_redis.${name}`, ENDPOINTS.replaceAll('redis.', 'cache_redis.')],
  ]),
  ...['redis', 'cache_redis'].flatMap((section): [string, string][] => [
    [`${section}.timeout`, `Did you mean ${section}.read_timeout? It bounds a whole call.`],
    [`${section}.database`, `Did you mean ${section}.db?`],
    [`${section}.prefix`, `Did you mean ${section}.key_prefix?`],
    [`${section}.ssl`, `Did you mean ${section}.tls.enabled?`],
    [`${section}.auth`, `Did you mean ${section}.password?`],
    [`${section}.master`, `Did you mean ${section}.master_name?`],
    [
      `${section}.sentinels`,
      `Put the sentinels into ${section}.endpoints and set ${section}.mode to sentinel.`,
    ],
  ]),
  ['server.max_websocket_conns_per_key', 'Did you mean server.websocket.max_per_key?'],
  ['server.port', LISTEN],
  ['server.listen', LISTEN],
  ['server.host', LISTEN],
  ['server.client_max_body_size', 'Did you mean backend.max_request_body_size?'],
  ['server.max_body_size', 'Did you mean backend.max_request_body_size?'],
  ['server.max_request_body_size', 'Did you mean backend.max_request_body_size?'],
  ['external', 'Did you mean rate_limit.external?'],
  ['server.keepalive_timeout', 'Did you mean server.idle_timeout?'],
  ['server.ssl', 'Did you mean server.tls?'],
  ['server.tls.ciphers', 'Did you mean server.tls.cipher_suites?'],
  ['server.tls.ssl_protocols', 'Did you mean server.tls.min_version?'],
  ['backend.address', 'Did you mean backend.url?'],
  ['backend.host', 'Did you mean backend.url?'],
  ['backend.target', 'Did you mean backend.url?'],
  ['backend.proxy_pass', 'Did you mean backend.url?'],
  ['backend.upstream', 'Did you mean backend.url, or backend.upstreams for several servers?'],
  ['backend.retries', 'Did you mean backend.max_retries?'],
  ['backend.tls_insecure_skip_verify', 'Did you mean backend.transport.tls.insecure_skip_verify?'],
  ['backend.keepalive', 'Did you mean backend.idle_conn_timeout?'],
  ['backend.connect_timeout', 'Did you mean backend.transport.dial_timeout?'],
  ['backend.proxy_connect_timeout', 'Did you mean backend.transport.dial_timeout?'],
  [
    'backend.proxy_read_timeout',
    'Did you mean backend.timeout? It bounds the wait for the headers of a response.',
  ],
  ['backend.read_timeout', 'Did you mean backend.timeout? It bounds the wait for the headers of a response.'],
  [
    'backend.write_timeout',
    'Did you mean server.body_idle_timeout? The gateway writes as fast as a client sends.',
  ],
  ['backend.client_max_body_size', 'Did you mean backend.max_request_body_size?'],
  ['rate_limit.static', 'Write average, burst and period directly into rate_limit.'],
  ['rate_limit.rate', AVERAGE],
  ['rate_limit.limit', AVERAGE],
  ['rate_limit.requests', AVERAGE],
  ['rate_limit.requests_per_second', AVERAGE],
  ['rate_limit.requests_per_unit', AVERAGE],
  ['rate_limit.second', AVERAGE],
  ['rate_limit.minute', AVERAGE],
  ['rate_limit.hour', AVERAGE],
  ['rate_limit.day', AVERAGE],
  ['rate_limit.window', 'Did you mean rate_limit.period?'],
  ['rate_limit.interval', 'Did you mean rate_limit.period?'],
  [
    'rate_limit.nodelay',
    'Remove it: a burst is admitted at once. To queue requests, use a policy with algorithm: leakyBucket.',
  ],
  ['rate_limit.delay', 'To queue requests, use a policy with algorithm: leakyBucket and max_delay.'],
  ['rate_limit.key', 'Did you mean rate_limit.key_strategy?'],
  ['rate_limit.limit_by', 'Did you mean rate_limit.key_strategy?'],
  ['rate_limit.header_name', 'Write key_strategy: { type: header, header_name: ... }.'],
  [
    'rate_limit.policy',
    'Did you mean rate_limit.policies? Gateways share their limits if there is a redis section.',
  ],
  ['rate_limit.algorithm', NAMED_POLICY],
  [
    'rate_limit.fault_tolerant',
    'Did you mean rate_limit.failure_policy? passThrough admits while Redis is down.',
  ],
  ['rate_limit.hide_client_headers', 'Did you mean rate_limit.headers? Write headers: [none].'],
  ['rate_limit.error_code', 'Remove it: a refused request gets a 429. failure_code is for failClosed.'],
  ['rate_limit.key_prefix', 'Did you mean redis.key_prefix?'],
  ['rate_limit.whitelist', 'Did you mean rate_limit.allow?'],
  ['rate_limit.blacklist', 'Did you mean rate_limit.deny?'],
  ['rate_limit.rules[].upstream', NAMED_BACKEND],
  ['rate_limit.rules[].url', NAMED_BACKEND],
  ['rate_limit.rules[].path', MATCHED('path')],
  ['rate_limit.rules[].paths', MATCHED('path')],
  ['rate_limit.rules[].method', MATCHED('method')],
  ['rate_limit.rules[].methods', MATCHED('method')],
  ['rate_limit.rules[].host', MATCHED('host')],
  ['rate_limit.rules[].header', MATCHED('header')],
  ['rate_limit.rules[].headers', MATCHED('header')],
  ['rate_limit.rules[].key_strategy', 'Did you mean rate_limit.rules[].key?'],
  ['rate_limit.rules[].policy', 'Did you mean rate_limit.rules[].policies? It is a list.'],
  ...['average', 'burst', 'period', 'limit', 'rate', 'quota', 'window', 'algorithm'].map(
    (name): [string, string] => [`rate_limit.rules[].${name}`, NAMED_POLICY],
  ),
  [
    'rate_limit.policies.*.limit',
    'Did you mean average and period, or quota and window? It depends on the algorithm.',
  ],
  ['rate_limit.policies.*.rate', 'Did you mean average and period? It depends on the algorithm.'],
  [
    'rate_limit.policies.*.key_strategy',
    'A key belongs to a rule, or to a policy as a rule names it: { policy, key }.',
  ],
  [
    'rate_limit.policies.*.key',
    'A key belongs to a rule, or to a policy as a rule names it: { policy, key }.',
  ],
  ['admin.port', 'Did you mean admin.address?'],
  ['admin.password', 'Did you mean admin.token?'],
  ['logging.file', 'Remove it: the log goes to standard output.'],
  ['logging.output', 'Remove it: the log goes to standard output.'],
  ['tracing.url', 'Did you mean tracing.endpoint?'],
  ['tracing.exporter', 'Did you mean tracing.endpoint? Traces are sent as OTLP over HTTP.'],
  ['listen', LISTEN],
  ['port', LISTEN],
  ['proxy_pass', 'Did you mean backend.url?'],
  ['upstream', 'Did you mean backend.url, or backend.upstreams for several servers?'],
  ['upstreams', 'Did you mean backend.upstreams?'],
  ['services', 'Did you mean backends?'],
  ['routes', RULES],
  ['plugins', RULES],
  [
    'consumers',
    'Clients with API keys are in identity.api_keys, their numbers in identity.plans or in the overrides of a policy.',
  ],
  ['descriptors', RULES],
  ['limit_req', RULES],
  ['limit_req_zone', RULES],
  ['limit_conn', 'Did you mean server.max_connections_per_address?'],
  ['limit_conn_zone', 'Did you mean server.max_connections_per_address?'],
  ['auth', 'Did you mean identity, for API keys and tokens, or authorization, for a service that decides?'],
  ['events', 'Did you mean usage_events?'],
  ['metrics', 'Remove it: metrics are served by the admin server, at /metrics.'],
  ['tls', 'Did you mean server.tls?'],
  ['redis_url', 'Did you mean redis.url?'],
]);

/** Settings that people look for in places of all kinds. */
const ANYWHERE: ReadonlyMap<string, string> = new Map([
  ['trusted_proxies', 'Did you mean server.client_address.trusted_proxies?'],
  ['trusted_hops', 'Did you mean server.client_address.trusted_hops?'],
]);
