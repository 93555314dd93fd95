// What all requests of a proxy share, and what is handed on with a request: to forwarding, to tunnels, to the log.
import type { Duplex } from 'node:stream';
import type { Authorizer } from '../authorization/authorizer.ts';
import type { Config } from '../config/config.ts';
import type { Identifier } from '../identity/identity.ts';
import { AddressList } from '../rules/access-list.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import {
  type Admission,
  type RuleEngine,
  refuseEarly,
  type EarlyReason,
  type Refusal,
} from '../rules/rule-outcome.ts';
import type { Log } from '../telemetry/log.ts';
import type { RequestTrace, RequestTracer } from '../telemetry/tracing.ts';
import type { FinishedRequest, RequestOutcome, TrafficListener } from '../telemetry/traffic.ts';
import type { RequestHead } from './exchange.ts';
import type { UpstreamFailureLog } from './forward/upstream-failure.ts';
import type { AnswerText, GatewayErrorCode } from './gateway-errors.ts';
import type { ProxyWatch } from './request/proxy-watch.ts';
import type { ReadRequest, ReadingRules } from './request/read-request.ts';
import type { BackendRoute } from './routing/route.ts';
import type { OverheadBudgets } from './server/overhead-budget.ts';
import type { Upstreams, Upstream } from './upstreams/pooled-upstream.ts';

/** What belongs to one configuration. A request keeps the one it started with. */
export interface ConfigSnapshot {
  readonly config: Config;
  readonly ruleEngine: RuleEngine;
  /** Left out: nobody can prove who they are. */
  readonly identifier?: Identifier | undefined;
  readonly upstreams: Upstreams;
  /** Those that rules name. */
  readonly backends?: ReadonlyMap<string, Upstreams> | undefined;
  /** Asked before the rules. Left out: every request passes. */
  readonly authorizer?: Pick<Authorizer, 'authorize'> | undefined;
  /** Hears of finished requests. */
  readonly usage?: { record(request: FinishedRequest): void } | undefined;
  /** Left out: `traceparent` and `tracestate` pass as they are. */
  readonly tracer?: RequestTracer['start'] | undefined;
  /** After a reload, what belongs to this one stays open until all who held it have let go. */
  readonly hold?: (() => () => void) | undefined;
}

/** What all requests of one proxy share, whichever front they came through. */
interface ProxyLoad {
  /** Requests in flight. */
  underWay: number;
  /** Of them, those of each client; open tunnels do not count. */
  readonly byClient: CountByKey;
  /** Of responses: read from upstreams, and not yet taken by slow clients. */
  unreadBytes: number;
  /** The proxy is about to end: it opens no tunnels. */
  ending: boolean;
}

/** What all requests of one front share. */
export interface ProxyContext {
  readonly snapshot: () => ConfigSnapshot;
  readonly traffic: TrafficListener;
  readonly log: Log;
  readonly upstreamFailures: UpstreamFailureLog;
  readonly proxyWatch: ProxyWatch;
  readonly tunnels: Tunnels | undefined;
  readonly maintenance: MaintenanceSwitch;
  /** Hears of what was refused before the rules. */
  readonly onEarlyRefusal: EarlyRefusalListener;
  readonly overhead: OverheadBudgets;
  /** How this gateway is called in `Via`: unique, so that a loop shows. */
  readonly pseudonym: string;
  readonly load: ProxyLoad;
  /** Every response is the last one of its connection. */
  draining: boolean;
}

/** All that is known about a request which the rules admitted. */
export interface AdmittedRequest {
  readonly head: RequestHead;
  readonly request: ReadRequest;
  readonly admission: Admission;
  readonly route: BackendRoute;
  readonly context: ProxyContext;
  readonly snapshot: ConfigSnapshot;
  readonly rules: ReadingRules;
  readonly trace: RequestTrace | undefined;
  /** When it arrived, on the clock of `performance`. */
  readonly startedAt: number;
}

/** Why a request ended as it did. */
export interface Ending {
  readonly outcome: RequestOutcome;
  readonly reason: string | undefined;
}

/** What became of a request at its backend; all of it is unknown if it did not get there. */
export interface Transfer {
  readonly status?: number | undefined;
  readonly upstream?: string | undefined;
  readonly bytesReceived?: number | undefined;
  readonly bytesSent?: number | undefined;
  /** Until the backend's headers. */
  readonly upstreamMs?: number | undefined;
}

/** How many of something each key has in use. A key that has none takes no memory. */
export class CountByKey {
  private readonly counts = new Map<string, number>();

  of(key: string): number {
    return this.counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.counts.set(key, this.of(key) + 1);
  }

  remove(key: string): void {
    const left = this.of(key) - 1;
    if (left > 0) this.counts.set(key, left);
    else this.counts.delete(key);
  }
}

/** Whether the service is closed for a while: what the configuration says, unless an operator has switched it. */
export class MaintenanceSwitch {
  private state: boolean | undefined;
  private readonly allowed = new WeakMap<Config, AddressList>();

  /** What an operator said; undefined where the configuration decides. */
  get switchedTo(): boolean | undefined {
    return this.state;
  }

  stateFor(config: Config): Readonly<Record<'enabled' | 'configured', boolean>> & Pick<this, 'switchedTo'> {
    const { switchedTo } = this;
    return { enabled: this.isOn(config), configured: config.maintenance.enabled, switchedTo };
  }

  switch(enabled: boolean | undefined): void {
    this.state = enabled;
  }

  private isOn({ maintenance }: Config): boolean {
    return this.state ?? maintenance.enabled;
  }

  /** Whether a client is sent away. */
  refuses(config: Config, address: string | undefined): boolean {
    return this.isOn(config) && !(address !== undefined && this.allowedBy(config).has(address));
  }

  private allowedBy(config: Config): AddressList {
    const known = this.allowed.get(config);
    if (known !== undefined) return known;
    const made = new AddressList(config.maintenance.allow);
    this.allowed.set(config, made);
    return made;
  }
}

/** What clients hear about its end. */
export function maintenanceHeaders({ maintenance: { retry_after: ms } }: Config): readonly string[] {
  return ms === undefined ? [] : ['Retry-After', String(Math.ceil(ms / 1000))];
}

/** Hears of what was refused before the rules, so that it can be explained later. */
export type EarlyRefusalListener = (facts: RequestFacts, refusal: Refusal, config: Config) => void;

/** An answer of our own; without a ruling, it was given before any rule was asked. */
interface SentAnswer {
  readonly name: string;
  readonly standard: Pick<AnswerText, 'status'>;
  readonly ruling: object | undefined;
  readonly request: { readonly facts: RequestFacts } | undefined;
}

const REASONS: ReadonlyMap<string, EarlyReason> = new Map<GatewayErrorCode | 'authorization', EarlyReason>([
  ['MAINTENANCE', 'maintenance'],
  ['AUTHORIZATION_UNAVAILABLE', 'authorizationUnavailable'],
  ['authorization', 'authorization'],
  ['CORS_NOT_ALLOWED', 'preflightRefused'],
]);

/** Other answers are no refusals, or about requests that cannot be understood: there is nothing to explain. */
export function tellEarlyRefusal(
  { onEarlyRefusal }: { readonly onEarlyRefusal: EarlyRefusalListener },
  { name, standard, ruling, request }: SentAnswer,
  config: Config,
): void {
  const reason = ruling === undefined ? REASONS.get(name) : undefined;
  if (reason === undefined || request === undefined) return;
  onEarlyRefusal(request.facts, refuseEarly(reason, standard.status), config);
}

/** An admitted request for a tunnel. The gate has charged it already. */
export interface TunnelRequest {
  /** The client's connection. It belongs to the tunnel from now on, which also ends it. */
  readonly socket: Duplex;
  /** What the client sent after its headers; nothing of it goes out before the upstream agreed. */
  readonly rest: Buffer;
  readonly request: ReadRequest;
  readonly admission: Admission;
  readonly route: Pick<BackendRoute, 'backend' | 'target'>;
  /** Already marked as in flight: its end is marked when the promise of `openTunnel` settles. */
  readonly upstream: Upstream;
  readonly config: Config;
  /**
   * Names and values by turns, ready for the upstream: `Host`, `X-Forwarded-*`, the request id. `Connection`, `Upgrade`
   * and what else belongs to one hop are not among them; `Sec-WebSocket-*` and `Origin` are, as the client sent them.
   */
  readonly headers: readonly string[];
  /** What every answer to the client carries: the request id, and what the limits are. */
  readonly responseHeaders: readonly (readonly [name: string, value: string])[];
}

/** What became of a tunnel. */
export interface TunnelEnd {
  /** What the client was answered: 101, or a refusal; undefined if it was gone before. */
  readonly status: number | undefined;
  /** Why there is no tunnel, or why it ended, where the gateway decided that; undefined for an ordinary end. */
  readonly reason: string | undefined;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  /** Until the upstream's answer. */
  readonly upstreamMs: number | undefined;
}

/**
 * Connects the client with the upstream, and resolves when the tunnel has ended. Never rejects. Answers the client
 * itself when there is no tunnel: with what the upstream said instead of 101, or with a problem of its own.
 */
type OpenTunnel = (tunnel: TunnelRequest) => Promise<TunnelEnd>;

/** Tunnels as the front sees them. */
export interface Tunnels {
  readonly open: OpenTunnel;
  /**
   * At shutdown: ends what is open, politely if the protocol knows how. Resolves when all are gone, or at the deadline.
   */
  drain(deadlineMs: number): Promise<void>;
}
