import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { MadeUpRequest, RequestStories } from '../admin/control.ts';
import type { Config } from '../config/config.ts';
import type { Preflight } from '../proxy/cors/cors.ts';
import { MaintenanceSwitch } from '../proxy/context.ts';
import { GATEWAY_ERRORS, type GatewayErrorCode } from '../proxy/gateway-errors.ts';
import type { RequestHead } from '../proxy/exchange.ts';
import { readingRules, readRequest } from '../proxy/request/read-request.ts';
import { DecisionHistory, type RecentDecision, type RecentQuery } from '../rules/explain/decision-history.ts';
import { explainOutcome, type ExplainedOutcome } from '../rules/explain/explain-outcome.ts';
import type { Explanation } from '../rules/explain/explanation.ts';
import { createRuleEngine } from '../rules/rule-engine.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import {
  refuseEarly,
  type DelayListener,
  type EarlyReason,
  type RuleEngine,
  type RuleOutcome,
} from '../rules/rule-outcome.ts';
import type { Log } from '../telemetry/log.ts';
import type { ConfigRuntime } from './config-runtime.ts';

/** Whoever has to wait for their turn would be admitted; nobody waits for it here. */
const NO_WAIT: DelayListener = { waits: (turn) => turn.cancel() };

const UNASKED = 'Before that the authorization service has to let it pass, which was not asked.';

/** What decides about requests. */
export type ExplainedRuntime = Pick<ConfigRuntime, 'config' | 'policies' | 'identifier' | 'keys'> & {
  readonly limiter: Pick<ConfigRuntime['limiter'], 'limiter'>;
  readonly limitsSource: Pick<NonNullable<ConfigRuntime['limitsSource']>, 'source'> | undefined;
};

type ToldWithoutRules = Pick<
  Explanation,
  'summary' | 'outcome' | 'status' | 'reason' | 'request' | 'client' | 'toBeAdmitted'
>;

interface TakenConfig {
  readonly generation: number;
  readonly loadedAt: Date;
}

/** Knows the last decisions of this process, and tells the story of one, or of a request that somebody makes up. */
export class RequestExplainer implements RequestStories {
  readonly history = new DecisionHistory();
  /** Tells this process from others. */
  private readonly instance = `${hostname()}/${randomUUID().slice(0, 8)}`;
  private readonly log: Log;
  /** What an operator says about it also holds for requests that are made up. */
  readonly maintenance = new MaintenanceSwitch();
  private readonly taken = new WeakMap<Config, TakenConfig>();
  private runtime: ExplainedRuntime | undefined;
  /** Decides as the one in use does, and spends nothing; made for the first question. */
  private peeking: RuleEngine | undefined;

  constructor(log: Log) {
    this.log = log;
  }

  /** This configuration is in use from now on. */
  follow(runtime: ExplainedRuntime, taken: TakenConfig): void {
    this.runtime = runtime;
    this.peeking = undefined;
    this.taken.set(runtime.config, taken);
  }

  recent(query: RecentQuery): readonly RecentDecision[] {
    return this.history.recent(query);
  }

  explainKept(id: string): Explanation | undefined {
    const kept = this.history.find(id);
    if (kept === undefined) return undefined;
    const { config, request, outcome, atMs } = kept;
    return explainOutcome({
      ...this.placeOf(config),
      config,
      request,
      outcome,
      spent: true,
      at: new Date(atMs),
    });
  }

  async explainMadeUp(made: MadeUpRequest): Promise<Explanation> {
    const { runtime } = this;
    if (runtime === undefined) throw new Error('no configuration is in use yet');
    const { config } = runtime;
    const at = new Date();
    const read = readRequest(madeUpHead(made), `made-up-${randomUUID()}`, readingRules(config));
    if (typeof read === 'string') return this.unreadable(read, made, at);
    this.peeking ??= createRuleEngine(config, {
      limiter: runtime.limiter.limiter,
      policies: runtime.policies,
      limitsSource: runtime.limitsSource?.source,
      keys: runtime.keys,
      log: this.log,
      peeks: true,
    });
    const identity = await runtime.identifier?.identify(read.facts);
    const isKnown = identity?.problem === undefined;
    const facts = { ...read.facts, identity };
    const preflight = isKnown ? readingRules(config).cors?.preflight(facts) : undefined;
    if (preflight?.outcome === 'answer') return this.answered(facts, preflight.answer.status, at);
    // Preflights that the backend answers meet the rule of the request that they announce.
    const ruled = preflight?.outcome === 'pass' ? preflight.facts : facts;
    const refusal = isKnown ? this.earlyRefusal(facts, preflight, config) : undefined;
    const outcome = refusal ?? (await this.peeking.decide(ruled, NO_WAIT));
    const story = explainOutcome({
      ...this.placeOf(config),
      config,
      request: refusal === undefined ? ruled : facts,
      outcome,
      spent: false,
      at,
    });
    // Nobody is asked whether a preflight may pass.
    const authorized = config.authorization.enabled && isKnown && preflight === undefined;
    return outcome.admitted && authorized ? { ...story, summary: `${story.summary} ${UNASKED}` } : story;
  }

  /** What the gateway refuses before it asks the rules. The authorization service is not asked: it may count, too. */
  private earlyRefusal(
    facts: RequestFacts,
    preflight: Preflight | undefined,
    config: Config,
  ): RuleOutcome | undefined {
    const refusal = (reason: EarlyReason, code: GatewayErrorCode): RuleOutcome =>
      refuseEarly(reason, GATEWAY_ERRORS[code].status);
    if (preflight?.outcome === 'refuse') return refusal('preflightRefused', preflight.code);
    return this.maintenance.refuses(config, facts.client.address)
      ? refusal('maintenance', 'MAINTENANCE')
      : undefined;
  }

  private placeOf(config: Config): Pick<ExplainedOutcome, 'instance' | 'generation' | 'loadedAt'> {
    const { generation, loadedAt } = this.taken.get(config) ?? {};
    return { instance: this.instance, generation, loadedAt };
  }

  /** No rule is asked about what nobody could serve. */
  private unreadable(code: GatewayErrorCode, { method, path, host }: MadeUpRequest, at: Date): Explanation {
    const { status, detail } = GATEWAY_ERRORS[code];
    return this.withoutRules(at, {
      summary: `${method} ${path} would be refused before any rule is asked: ${detail}`,
      outcome: 'denied',
      status,
      reason: code,
      request: { id: '', method, scheme: 'http', host: host ?? '', path },
      client: { because: 'the request was not read so far' },
      toBeAdmitted: [detail],
    });
  }

  /** A preflight that the gateway answers itself, as `cors` says: nothing is counted, and no backend asked. */
  private answered(facts: RequestFacts, status: number, at: Date): Explanation {
    const { id, method, scheme, host, path, client } = facts;
    return this.withoutRules(at, {
      summary: `${method} ${path} would be answered by the gateway itself: it is a preflight that cors allows, and no rule is asked.`,
      outcome: 'allowed',
      status,
      reason: 'preflight',
      request: { id, method, scheme, host, path },
      client: { address: client.address, countedAs: client.key, because: 'nobody is counted' },
      toBeAdmitted: [],
    });
  }

  private withoutRules(at: Date, told: ToldWithoutRules): Explanation {
    const { config } = this.runtime ?? {};
    const { generation, loadedAt } = config === undefined ? {} : this.placeOf(config);
    return {
      ...told,
      recorded: false,
      at: at.toISOString(),
      rulesAsked: false,
      rules: [],
      keys: [],
      policies: [],
      decidedBy: {
        instance: this.instance,
        store: config?.redis === undefined ? 'memory' : 'redis',
        degraded: false,
        clock: 'none',
        generation,
        loadedAt: loadedAt?.toISOString(),
      },
    };
  }
}

/** What a worker is asked about the decisions that it made. */
export type StoryQuestion =
  | { readonly recent: RecentQuery }
  | { readonly id: string }
  | { readonly madeUp: MadeUpRequest };

export function answerStory(stories: RequestStories, question: StoryQuestion): unknown {
  if ('recent' in question) return stories.recent(question.recent);
  return 'id' in question ? stories.explainKept(question.id) : stories.explainMadeUp(question.madeUp);
}

interface AskedWorkers {
  ask(question: 'stories', detail: StoryQuestion): Promise<readonly unknown[]>;
}

/** The stories of all workers. */
export function workerStories(workers: AskedWorkers): RequestStories {
  const ask = async (question: StoryQuestion): Promise<readonly unknown[]> =>
    workers.ask('stories', question);
  return {
    async recent(query) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what recent() gave in a worker
      const lists = (await ask({ recent: query })) as readonly (readonly RecentDecision[])[];
      return lists
        .flat()
        .toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at))
        .slice(0, query.limit);
    },
    async explainKept(id) {
      const [story] = await ask({ id });
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what explainKept() gave in a worker
      return story as Explanation | undefined;
    },
    async explainMadeUp(madeUp) {
      const [story] = await ask({ madeUp });
      if (story === undefined) throw new Error('no worker answered');
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what explainMadeUp() gave in a worker
      return story as Explanation;
    },
  };
}

const DEFAULT_HOST = 'localhost';
const DEFAULT_CLIENT = '127.0.0.1';

/** The request as it would arrive. */
export function madeUpHead({ method, path, host, client, headers = [] }: MadeUpRequest): RequestHead {
  const named = headers.some(([name]) => name.toLowerCase() === 'host');
  return {
    protocol: 'HTTP/1.1',
    method,
    scheme: 'http',
    target: path,
    authority: undefined,
    rawHeaders: [...(named ? [] : ['Host', host ?? DEFAULT_HOST]), ...headers.flat()],
    peer: client ?? DEFAULT_CLIENT,
    bodyless: true,
  };
}
