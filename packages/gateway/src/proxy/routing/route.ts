// Where an admitted request goes, and as what: the part of a rule that is about backends.
import type { Config } from '../../config/config.ts';
import type { BackendServers } from '../../config/schema/backend.ts';
import type { RuleConfig } from '../../config/schema/rate-limit.ts';
import type { RequestFacts } from '../../rules/request-facts.ts';
import type { Admission } from '../../rules/rule-outcome.ts';
import type { GatewayErrorCode } from '../gateway-errors.ts';
import type { Upstream, Upstreams } from '../upstreams/pooled-upstream.ts';

/** What becomes of the headers of a request. */
export interface HeaderChanges {
  /** In lower case: the client's own are left out. */
  readonly replaced: ReadonlySet<string>;
  /** Names and values by turns. */
  readonly added: readonly string[];
  /** Instead of the client's, and whatever `preserve_host` says. */
  readonly host: string | undefined;
  /** What was stripped from the path. */
  readonly prefix: string | undefined;
}

/** What the backends of one configuration are. */
interface Backends {
  readonly config: Config;
  readonly upstreams: Upstreams;
  /** By name, those of `backends`. */
  readonly backends?: ReadonlyMap<string, Upstreams> | undefined;
}

export interface BackendRoute {
  /** Timeouts and retries. */
  readonly backend: BackendServers;
  /** The path and query that the backend gets. */
  readonly target: string;
  readonly headers: HeaderChanges;
  /** The next server, or why there is none. */
  readonly next: () => Upstream | GatewayErrorCode;
}

interface RoutedRequest {
  readonly admission: Admission;
  readonly facts: RequestFacts;
  /** Headers for the backend, names and values by turns, that say who is asking. */
  readonly identity: readonly string[];
}

/** The way of a request that a rule admitted. */
export function routeOf(snapshot: Backends, { admission, facts, identity }: RoutedRequest): BackendRoute {
  const { path, query } = facts;
  const { config } = snapshot;
  const plan = plansOf(config).of(admission.detail.rule);
  const stripped = plan.strip !== undefined && hasPrefix(path, plan.strip);
  const rest = stripped ? path.slice(plan.strip.length) : path;
  return {
    backend: plan.backend,
    target: ((plan.add ?? '') + rest || '/') + query,
    headers: withIdentity(stripped ? plan.strippedHeaders : plan.headers, identity),
    next: () => upstreamOf(snapshot, plan.name, admission.backendUrl),
  };
}

function withIdentity(changes: HeaderChanges, identity: readonly string[]): HeaderChanges {
  return identity.length === 0 ? changes : { ...changes, added: [...changes.added, ...identity] };
}

/** Whole segments only: `/api` is not a prefix of `/apis`. */
function hasPrefix(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/');
}

function upstreamOf(
  { upstreams: usual, backends }: Backends,
  name: string | undefined,
  backendUrl: string | undefined,
): Upstream | GatewayErrorCode {
  if (backendUrl !== undefined) return usual.named?.(backendUrl) ?? 'UPSTREAM_UNREACHABLE';
  const upstreams = name === undefined ? usual : backends?.get(name);
  if (upstreams === undefined) return 'NO_BACKEND';
  return upstreams.next() ?? (upstreams.health().length === 0 ? 'NO_BACKEND' : 'NO_UPSTREAM');
}

/** What a rule says about forwarding, worked out once. */
interface RoutePlan {
  /** One of `backends`; undefined for `backend`. */
  readonly name: string | undefined;
  readonly backend: BackendServers;
  readonly strip: string | undefined;
  readonly add: string | undefined;
  readonly headers: HeaderChanges;
  /** Where the prefix was stripped. */
  readonly strippedHeaders: HeaderChanges;
}

const known = new WeakMap<Config, RoutePlans>();

function plansOf(config: Config): RoutePlans {
  const found = known.get(config);
  if (found !== undefined) return found;
  const made = new RoutePlans(config);
  known.set(config, made);
  return made;
}

class RoutePlans {
  private readonly usual: RoutePlan;
  private readonly byRule: ReadonlyMap<string, RoutePlan>;

  constructor(config: Config) {
    this.usual = planOf(config, NO_RULE);
    this.byRule = new Map(config.rate_limit.rules.map((rule) => [rule.name, planOf(config, rule)]));
  }

  of(rule: string | undefined): RoutePlan {
    return (rule === undefined ? undefined : this.byRule.get(rule)) ?? this.usual;
  }
}

type ForwardingRule = Pick<
  RuleConfig,
  'backend' | 'rewrite' | 'set_request_headers' | 'remove_request_headers'
>;

const NO_RULE: ForwardingRule = { rewrite: {}, set_request_headers: {}, remove_request_headers: [] };

function planOf(config: Config, rule: ForwardingRule): RoutePlan {
  const { backend, backends } = config;
  const { strip_prefix: strip, add_prefix: add } = rule.rewrite;
  const headers = headerChanges(config, rule);
  return {
    name: rule.backend,
    backend: rule.backend === undefined ? backend : (backends[rule.backend] ?? backend),
    strip,
    add,
    headers,
    strippedHeaders: { ...headers, prefix: strip },
  };
}

function headerChanges({ backend, authorization }: Config, rule: ForwardingRule): HeaderChanges {
  const { set_request_headers: usual } = backend;
  const set = new Map<string, readonly [string, string]>();
  for (const [name, value] of [...Object.entries(usual), ...Object.entries(rule.set_request_headers)]) {
    set.set(name.toLowerCase(), [name, value]);
  }
  // What clients send under the names of the authorization service is forged.
  const forged = authorization.enabled ? authorization.upstream_headers : [];
  const removed = [...rule.remove_request_headers, ...forged].map((name) => name.toLowerCase());
  const host = set.get('host')?.[1];
  set.delete('host');
  return {
    replaced: new Set([...removed, ...set.keys()]),
    added: [...set.values()].flat(),
    host,
    prefix: undefined,
  };
}
