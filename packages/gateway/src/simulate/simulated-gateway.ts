import { readFileSync } from 'node:fs';
import type { Limiter, Slot } from 'spillgate';
import { clientAddress, type ClientAddress } from 'spillgate/http';
import { Departures, simulatedFleet, type SimulatedFleet } from 'spillgate/simulate';
import type { Config } from '../config/config.ts';
import { apiKeysOf, keyNamesOf } from '../identity/api-keys/key-file.ts';
import { NOBODY, type Identity } from '../identity/identity.ts';
import { readTarget, type RequestTarget } from '../proxy/request/request-target.ts';
import { createPolicies } from '../rules/compiled-rule.ts';
import type { HeaderFields, RequestFacts } from '../rules/request-facts.ts';
import { createRuleEngine } from '../rules/rule-engine.ts';
import type { RuleEngine, RuleOutcome, DelayListener } from '../rules/rule-outcome.ts';
import type { LoggedRequest } from './logged-request.ts';
import { remembering, rememberingLast } from './remembering.ts';

/** How many gateways there are, and what goes wrong. */
export interface SimulatedSetup {
  /** Default: 1. */
  readonly instances?: number | undefined;
  /** How far the clock of the last is ahead of the first one's. Default: 0. */
  readonly skewMs?: number | undefined;
  /** Whether Redis cannot be reached at this time. Default: it always can. */
  readonly isAway?: ((atMs: number) => boolean) | undefined;
}

type RuledOrInvalid = RuleOutcome | undefined;

/** Whoever has to wait for their turn is admitted; nobody waits for it here. */
const NO_WAIT: DelayListener = { waits: (turn) => turn.cancel() };
const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
/** As in the library. */
const MAX_FALLBACK_INSTANCES = 10_000;

/** The rules of a configuration, with limits of their own in the memory, by the time of the log. */
export class SimulatedGateway {
  private readonly fleet: SimulatedFleet;
  private readonly engines: readonly RuleEngine[];
  private readonly departures = new Departures();
  private readonly unknownAddress: ClientAddress;
  private readonly addressOf: (peer: string) => ClientAddress;
  private readonly targetOf: (target: string) => RequestTarget | undefined;
  private readonly hostOf = rememberingLast(hostOf);
  private readonly identityOf: (request: LoggedRequest) => Identity | undefined;
  private taken: Slot | undefined;
  private next = 0;

  constructor(config: Config, setup: SimulatedSetup = {}) {
    const keys = keyNamesOf(config, readFileSync);
    const policies = createPolicies(config, keys);
    const leases =
      config.redis !== undefined && [...policies.values()].some((policy) => policy.leases !== false);
    this.fleet = fleetOf(config, setup, leases);
    const deciding = decidingOnly(config, leases);
    const hasSlots = [...policies.values()].some(({ algorithm }) => algorithm === 'concurrency');
    this.engines = this.fleet.limiters.map((limiter) =>
      createRuleEngine(deciding, {
        limiter: hasSlots ? this.noting(limiter) : limiter,
        policies,
        keys,
        log: SILENT,
      }),
    );
    // The log names the client; headers in it that name another have been looked at by whoever wrote it.
    const read = clientAddress({ ipv6Prefix: config.server.client_address.ipv6_prefix });
    this.unknownAddress = read({ peer: undefined, headerLines: NO_LINES, isDirect: true });
    this.addressOf = remembering((peer) => {
      // Addresses are worked out when they are asked for: here that is once.
      const { address, key, from, oddity } = read({ peer, headerLines: NO_LINES, isDirect: true });
      // The same text twice is one text: what is in the processor's cache need not be fetched again.
      return { address: address === peer ? peer : address, key: key === peer ? peer : key, from, oddity };
    });
    const { encoded_slashes: encodedSlashes } = config.server;
    this.targetOf = remembering((target) => readTarget(target, encodedSlashes));
    this.identityOf = identities(config);
  }

  /** Undefined if the gateway would refuse the request before any rule is asked. Requests come in the order of time. */
  decide(request: LoggedRequest): RuledOrInvalid | Promise<RuledOrInvalid> {
    if (this.departures.size > 0) return this.decideAfterDepartures(request);
    this.fleet.advanceTo(request.atMs);
    return this.decideNow(request);
  }

  /** The plan of the API key that the log names. */
  planOf(request: LoggedRequest): string | undefined {
    return this.identityOf(request)?.apiKey?.plan;
  }

  /** Lets everything end that is still going on. */
  async end(): Promise<void> {
    await this.departures.until(Infinity, () => undefined);
  }

  private async decideAfterDepartures(request: LoggedRequest): Promise<RuledOrInvalid> {
    await this.departures.until(request.atMs, (atMs) => this.fleet.advanceTo(atMs));
    this.fleet.advanceTo(request.atMs);
    return this.decideNow(request);
  }

  private decideNow(request: LoggedRequest): RuledOrInvalid | Promise<RuledOrInvalid> {
    const target = this.targetOf(request.target);
    if (target === undefined) return undefined;
    const facts: RequestFacts = {
      id: '',
      method: request.method,
      scheme: request.scheme,
      host: this.hostOf(request.host === '' ? (target.authority ?? '') : request.host),
      path: target.path,
      otherPath: target.otherPath,
      query: target.query,
      headers: new LoggedHeaders(request),
      client: request.client === undefined ? this.unknownAddress : this.addressOf(request.client),
      identity: this.identityOf(request),
    };
    const engine = this.engines[this.next];
    this.next = this.next + 1 < this.engines.length ? this.next + 1 : 0;
    const outcome = engine?.decide(facts, NO_WAIT);
    return outcome instanceof Promise ? outcome.then((found) => this.holding(found, request)) : outcome;
  }

  /** Slots are held until the request ends, as far as the log says when. */
  private holding(outcome: RuleOutcome, { atMs, endMs = atMs }: LoggedRequest): RuleOutcome {
    const slot = this.taken;
    this.taken = undefined;
    if (slot?.allowed === true && outcome.admitted) this.departures.add(endMs, () => slot.release());
    return outcome;
  }

  /** The same limiter; the slot that it took last is known here. */
  private noting(limiter: Limiter): Limiter {
    const acquire: Limiter['acquire'] = async (limits, options) => {
      const slot = await limiter.acquire(limits, options);
      this.taken = slot;
      return slot;
    };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- everything else is the limiter's own
    return Object.create(limiter, { acquire: { value: acquire } }) as Limiter;
  }
}

/** Without Redis every instance counts for itself. */
function fleetOf(config: Config, setup: SimulatedSetup, leases: boolean): SimulatedFleet {
  const { instances = 1, skewMs = 0, isAway } = setup;
  const { max_keys: maxKeys, failure_policy: failurePolicy, instances: configured } = config.rate_limit;
  // One alone with its memory decides as one that shares with nobody, and sooner.
  const isAlone = instances === 1 && isAway === undefined && !leases;
  return simulatedFleet({
    instances,
    shared: config.redis !== undefined && !isAlone,
    clockSkewMs: skewMs,
    outages: isAway,
    failurePolicy,
    fallbackInstances: Math.min(MAX_FALLBACK_INSTANCES, configured * config.server.workers),
    leases,
    maxKeys,
  });
}

/** Who asked, as far as the log says: the names of API keys. Undefined where nobody can prove anything. */
function identities(config: Config): (request: LoggedRequest) => Identity | undefined {
  const { api_keys: apiKeys, jwt } = config.identity;
  if (apiKeys === undefined && jwt === undefined) return () => undefined;
  const keys = new Map<string, Identity>();
  if (apiKeys !== undefined) {
    for (const { name, plan, disabled } of apiKeysOf(config, readFileSync)) {
      keys.set(name, disabled ? UNKNOWN_KEY : { apiKey: { name, plan } });
    }
  }
  return ({ apiKey }) => (apiKey === undefined ? NOBODY : (keys.get(apiKey) ?? UNKNOWN_KEY));
}

/** A key that another configuration accepted. */
const UNKNOWN_KEY: Identity = {
  problem: {
    rejected: 'apiKey unknown',
    status: 401,
    detail: 'The API key is not valid.',
    header: ['WWW-Authenticate', 'ApiKey'],
  },
};

const NO_LINES = (): readonly string[] => [];

/** The same decisions without headers and logs. Where nobody leases, they come at once, as they do without Redis. */
function decidingOnly(config: Config, leases: boolean): Config {
  return {
    ...config,
    redis: leases ? config.redis : undefined,
    rate_limit: {
      ...config.rate_limit,
      headers: ['none'],
      external: { ...config.rate_limit.external, enabled: false },
    },
    logging: { ...config.logging, decision_log: 'off' },
  };
}

function hostOf(host: string): string {
  if (host === '') return host;
  const lower = host.toLowerCase();
  return lower.includes(':') ? lower.replace(/:\d+$/, '') : lower;
}

/** Read from the log only where a rule asks for one. */
class LoggedHeaders implements HeaderFields {
  private readonly request: LoggedRequest;

  constructor(request: LoggedRequest) {
    this.request = request;
  }

  get raw(): readonly string[] {
    return this.request.headers;
  }

  lines(name: string): readonly string[] {
    const { raw } = this;
    const lines: string[] = [];
    for (let at = 0; at < raw.length; at += 2) if (raw[at] === name) lines.push(raw[at + 1] ?? '');
    return lines;
  }
}
