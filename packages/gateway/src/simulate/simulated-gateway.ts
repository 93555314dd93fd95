import { createLimiter, memoryStore } from 'spillgate';
import { clientAddress, type ClientAddress } from 'spillgate/http';
import type { Config } from '../config/config.ts';
import { readTarget } from '../proxy/request/request-target.ts';
import { createPolicies } from '../rules/compiled-rule.ts';
import type { HeaderFields, RequestFacts } from '../rules/request-facts.ts';
import { createRuleEngine } from '../rules/rule-engine.ts';
import type { RuleEngine, RuleOutcome, DelayListener } from '../rules/rule-outcome.ts';
import type { LoggedRequest } from './logged-request.ts';

/** What time it is where the log is replayed. */
export interface ReplayClock {
  nowUs: number;
}

/** Whoever has to wait for their turn is admitted; nobody waits for it here. */
const NO_WAIT: DelayListener = { waits: (turn) => turn.cancel() };
const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** The rules of a configuration, with limits of their own in the memory, by the time of the log. */
export class SimulatedGateway {
  private readonly engine: RuleEngine;
  private readonly clientOf: (peer: string | undefined) => ClientAddress;
  private readonly encodedSlashes: Config['server']['encoded_slashes'];

  constructor(configured: Config, clock: ReplayClock) {
    const config = decidingOnly(configured);
    const now = (): number => clock.nowUs;
    const limiter = createLimiter({
      clock: now,
      store: memoryStore({ clock: now, maxKeys: config.rate_limit.max_keys }),
    });
    this.engine = createRuleEngine(config, { limiter, policies: createPolicies(config), log: SILENT });
    // The log names the client; headers in it that name another have been looked at by whoever wrote it.
    const read = clientAddress({ ipv6Prefix: config.server.client_address.ipv6_prefix });
    this.clientOf = (peer) => read({ peer, headerLines: NO_LINES, isDirect: true });
    this.encodedSlashes = config.server.encoded_slashes;
  }

  /** Undefined if the gateway would refuse the request before any rule is asked. */
  decide(request: LoggedRequest): RuleOutcome | Promise<RuleOutcome> | undefined {
    const target = readTarget(request.target, this.encodedSlashes);
    if (target === undefined) return undefined;
    const facts: RequestFacts = {
      id: '',
      method: request.method,
      scheme: request.scheme,
      host: hostOf(request.host === '' ? (target.authority ?? '') : request.host),
      path: target.path,
      otherPath: target.otherPath,
      query: target.query,
      headers: new LoggedHeaders(request.headers),
      client: this.clientOf(request.client),
    };
    return releasing(this.engine.decide(facts, NO_WAIT));
  }
}

/** A log does not say when a request ended, so nothing is held. */
function releasing(outcome: RuleOutcome | Promise<RuleOutcome>): RuleOutcome | Promise<RuleOutcome> {
  if (outcome instanceof Promise) return outcome.then(releasing);
  outcome.release?.();
  return outcome;
}

const NO_LINES = (): readonly string[] => [];

/** The same decisions without Redis, headers and logs. */
function decidingOnly(config: Config): Config {
  return {
    ...config,
    redis: undefined,
    rate_limit: { ...config.rate_limit, headers: ['none'] },
    logging: { ...config.logging, decision_log: 'off' },
  };
}

function hostOf(host: string): string {
  const lower = host.toLowerCase();
  return lower.includes(':') ? lower.replace(/:\d+$/, '') : lower;
}

class LoggedHeaders implements HeaderFields {
  readonly raw: readonly string[];

  constructor(raw: readonly string[]) {
    this.raw = raw;
  }

  lines(name: string): readonly string[] {
    const lines: string[] = [];
    for (let at = 0; at < this.raw.length; at += 2) {
      if (this.raw[at] === name) lines.push(this.raw[at + 1] ?? '');
    }
    return lines;
  }
}
