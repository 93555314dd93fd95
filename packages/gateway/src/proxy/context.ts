import type { Config } from '../config/config.ts';
import type { RuleEngine } from '../rules/rule-outcome.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import type { Log } from '../telemetry/log.ts';
import type { FinishedRequest, TrafficListener } from '../telemetry/traffic.ts';
import type { CountByKey } from './count-by-key.ts';
import type { UpstreamFailureLog } from './forward/upstream-failure.ts';
import type { ProxyWatch } from './request/proxy-watch.ts';
import type { Tunnels } from './websocket/tunnel.ts';
import type { OverheadBudgets } from './server/overhead-budget.ts';
import type { Upstreams } from './upstreams/upstream.ts';

/** What belongs to one configuration. A request keeps the one it started with. */
export interface ConfigSnapshot {
  readonly config: Config;
  readonly ruleEngine: RuleEngine;
  readonly upstreams: Upstreams;
  /** Left out: `traceparent` and `tracestate` pass as they are. */
  readonly tracer?: Tracer | undefined;
}

/** One request in a trace. */
export interface Trace {
  readonly traceId: string;
  /** `traceparent` and `tracestate` for the upstream. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  end(request: FinishedRequest): void;
}

/** Begins the trace of a request, or leaves the client's headers as they are. */
export type Tracer = (facts: RequestFacts) => Trace | undefined;

/** What all requests of one proxy share, whichever front they came through. */
export interface ProxyLoad {
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
  readonly overhead: OverheadBudgets;
  /** How this gateway is called in `Via`: unique, so that a loop shows. */
  readonly pseudonym: string;
  readonly load: ProxyLoad;
  /** Every response is the last one of its connection. */
  draining: boolean;
}
