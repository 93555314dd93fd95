import { isDeepStrictEqual } from 'node:util';
import {
  MAX_LIMITS_PER_CHECK,
  type Decision,
  type FailurePolicy,
  type Limit,
  type Limiter,
  type Policy,
} from 'spillgate';
import {
  plainProblem,
  quotaExceeded,
  rateLimitHeaders,
  startDelay,
  type DescribeDecision,
} from 'spillgate/http';
import type { Config } from '../config/config.ts';
import type { SettleConfig } from '../config/schema/cost.ts';
import type { BodyFacts } from '../cost/body-fields.ts';
import type { ExternalLimits, LimitsSource } from '../external/limits-source.ts';
import type { Log } from '../telemetry/log.ts';
import { isListed, type AccessList } from './access-list.ts';
import { compileRules, failurePolicyOf, type CompiledRule } from './compiled-rule.ts';
import {
  decisionLog,
  type DecisionListener,
  type RuleEngine,
  type RuleOutcome,
  type OutcomeDetail,
  type DelayListener,
  admit,
  refuse,
  refuseUndecided,
  refuseUnidentified,
  refuseWithoutKey,
  withShadowResult,
  NO_OVERRIDES,
  type RouteOverrides,
} from './rule-outcome.ts';
import type { KeyNames } from '../config/schema/key-names.ts';
import { concludeHolding, type Conclude, concludeHoldingReserved, concludeReserved } from './held-charges.ts';
import type { KeyProblem, PathParameters } from './key-reader.ts';
import {
  bindingsFor,
  costOf,
  detailOf,
  externalLimitsOf,
  hasSlots,
  isLimits,
  isProblem,
  keysOf,
  limitsOf,
  tunnelKey,
  withOneSlot,
  type MatchedRequest,
} from './matched-request.ts';
import type { RequestFacts } from './request-facts.ts';
import { RuleMatcher } from './rule-matcher.ts';

export interface RuleEngineParts {
  readonly limiter: Limiter;
  /** By name; every policy of the configuration is among them. */
  readonly policies: ReadonlyMap<string, Policy>;
  /** Asked where `rate_limit.external` is enabled. */
  readonly limitsSource?: LimitsSource | undefined;
  readonly log: Log;
  /** Whom lists of the configuration mean; left out: nobody knows which API keys there are. */
  readonly keys?: KeyNames | undefined;
  /** Hears of decisions, as far as `logging.decision_log` wants it. */
  readonly onDecision?: DecisionListener | undefined;
  /** Hears of every outcome. */
  readonly onOutcome?: ((request: RequestFacts, outcome: RuleOutcome) => void) | undefined;
  /** Decides as ever, and spends nothing. Default: false. */
  readonly peeks?: boolean | undefined;
}

/** The rules of one configuration. */
export function createRuleEngine(config: Config, parts: RuleEngineParts): RuleEngine {
  return new ConfiguredRules(config, parts);
}

/** What is asked of the limiter, and what holds if it cannot answer. */
interface LimiterQuestion {
  readonly limits: readonly Limit[];
  /** Undefined if that is 1. */
  readonly cost: { readonly cost: number } | undefined;
  /** How it is corrected when the request has ended. */
  readonly settle: SettleConfig | undefined;
  readonly route: RouteOverrides;
  /** The failure policy that wins over the policies' own; undefined leaves it to them. */
  readonly failurePolicy: FailurePolicy | undefined;
  readonly failureCode: number;
}

const LISTED = plainProblem(403, 'This client may not use this service.');
/** What holds depends on how the backend reads the path, and that is not known here. */
const AMBIGUOUS = plainProblem(400, 'The path has a %2F that could be a way around a limit.');
const NO_PARAMETERS: PathParameters = new Map();

class ConfiguredRules implements RuleEngine {
  private readonly parts: RuleEngineParts;
  private readonly limits: Config['rate_limit'];
  private readonly matcher: RuleMatcher<CompiledRule>;
  private readonly otherwise: CompiledRule;
  private readonly describe: DescribeDecision;
  private readonly inMemory: boolean;
  private readonly countsTunnels: boolean;
  private readonly record: (request: RequestFacts, ruling: RuleOutcome) => void;

  constructor(config: Config, parts: RuleEngineParts) {
    const { rules, otherwise } = compileRules(config, parts.policies, parts.keys);
    this.parts = parts;
    this.limits = config.rate_limit;
    this.matcher = new RuleMatcher(rules);
    this.otherwise = otherwise;
    this.describe = rateLimitHeaders({ headers: config.rate_limit.headers });
    this.inMemory = config.redis === undefined;
    this.countsTunnels = config.server.websocket.max_per_key > 0;
    this.record = decisionLog(config.logging.decision_log, parts.onDecision);
  }

  decide(request: RequestFacts, waiter?: DelayListener): RuleOutcome | Promise<RuleOutcome> {
    try {
      const ruling = this.matchAndLimit(request, waiter);
      // One promise less than with `catch`, and every request that asks Redis passes here.
      return ruling instanceof Promise
        ? ruling.then(
            (settled) => this.recorded(request, settled),
            (failure: unknown) => this.recorded(request, this.recover(request, failure)),
          )
        : this.recorded(request, ruling);
    } catch (failure) {
      return this.recorded(request, this.recover(request, failure));
    }
  }

  private matchAndLimit(
    request: RequestFacts,
    waiter: DelayListener | undefined,
  ): RuleOutcome | Promise<RuleOutcome> {
    const problem = request.identity?.problem;
    if (problem !== undefined) return refuseUnidentified(problem);
    const matched = this.matcher.find(request);
    const rule = matched?.rule ?? this.otherwise;
    const parameters = matched?.parameters ?? NO_PARAMETERS;
    if (rule.reading !== undefined && request.body === undefined && waiter?.readBody !== undefined) {
      return this.matchWithBody(request, waiter, waiter.readBody(rule.reading));
    }
    const keys = keysOf(rule, request, parameters);
    const found: MatchedRequest = { request, rule, parameters, keys, waiter };

    const { otherPath } = request;
    if (otherPath !== undefined && this.differs(found, otherPath)) {
      return refuse(detailOf(found, 'ambiguousPath'), AMBIGUOUS);
    }
    const denied = isOnAny(rule.deny, found);
    if (denied || isOnAny(rule.ruleDeny, found)) {
      const detail = detailOf(found, 'denyList');
      return rule.shadow && !denied ? admit(detail, NO_OVERRIDES) : refuse(detail, LISTED);
    }
    if (isOnAny(rule.allow, found)) return admit(detailOf(found, 'allowList'), NO_OVERRIDES);
    if (request.uncounted === true) return admit(detailOf(found, 'preflight'), NO_OVERRIDES);
    const ruling = this.limit(found);
    return rule.trials.length === 0 ? ruling : this.tryOut(found, ruling);
  }

  private matchWithBody(
    request: RequestFacts,
    waiter: DelayListener,
    reading: Promise<BodyFacts>,
  ): Promise<RuleOutcome> {
    return reading.then((body) => this.matchAndLimit({ ...request, body }, waiter));
  }

  private limit(found: MatchedRequest): RuleOutcome | Promise<RuleOutcome> {
    const { limitsSource } = this.parts;
    if (found.rule.external && limitsSource !== undefined) return this.decideExternally(found, limitsSource);
    return this.count(found, this.configuredRoute(found));
  }

  /** Whether another rule, or another key, would hold for the request with another path. */
  private differs({ request, rule, keys }: MatchedRequest, path: string): boolean {
    const other = { ...request, path };
    const matched = this.matcher.find(other);
    if ((matched?.rule ?? this.otherwise) !== rule) return true;
    const parameters = matched?.parameters ?? NO_PARAMETERS;
    return rule.readers.some((reader, at) => !isDeepStrictEqual(reader.read(other, parameters), keys[at]));
  }

  /** Meets the policies of the configuration. */
  private count(found: MatchedRequest, route: RouteOverrides): RuleOutcome | Promise<RuleOutcome> {
    const { rule, request } = found;
    const bindings = bindingsFor(rule, request.identity);
    if (bindings.length === 0) return admit(detailOf(found, 'unlimited'), route);
    const limits = limitsOf(bindings, found);
    if (!isLimits(limits)) return this.withoutKey(found, limits, route);
    const cost = costOf(found);
    if (isProblem(cost)) return this.withoutKey(found, cost, route);
    const { failure_code: failureCode } = this.limits;
    return this.ask(found, {
      limits: withOneSlot(limits, rule.settle),
      cost,
      settle: rule.settle,
      route,
      failurePolicy: undefined,
      failureCode,
    });
  }

  /** Asks the policies in shadow mode about a request that the others admit: as if they held, they count no other. */
  private tryOut(
    found: MatchedRequest,
    ruling: RuleOutcome | Promise<RuleOutcome>,
  ): RuleOutcome | Promise<RuleOutcome> {
    if (ruling instanceof Promise) return ruling.then((settled) => this.tryOut(found, settled));
    if (!ruling.admitted || ruling.detail.decision?.allowed === false) return ruling;
    const { rule, request } = found;
    const tried = (decision: Decision): RuleOutcome =>
      decision.allowed || decision.source === 'failurePolicy'
        ? ruling
        : withShadowResult(ruling, { reason: 'limits', decision });
    const failed = (error: unknown): RuleOutcome => {
      this.parts.log.error({ id: request.id, error }, 'a policy in shadow mode could not be asked');
      return ruling;
    };
    try {
      const limits = limitsOf(rule.trials, found);
      const cost = costOf(found);
      if (!isLimits(limits) || isProblem(cost)) {
        return withShadowResult(ruling, { reason: 'missingKey', decision: undefined });
      }
      const asked = withOneSlot(limits, rule.settle);
      return this.check({ limits: asked, cost, settle: rule.settle }, tried, failed);
    } catch (failure) {
      return failed(failure);
    }
  }

  private decideExternally(found: MatchedRequest, source: LimitsSource): RuleOutcome | Promise<RuleOutcome> {
    const { request, rule, parameters, keys } = found;
    const key = rule.readers[0]?.ask(request, parameters);
    if (typeof key !== 'string') return this.withoutKey(found, keys[0], NO_OVERRIDES);
    const { method, path, headers } = request;
    const answer = source.limitsFor({ key, method, path, headers });
    return answer instanceof Promise
      ? answer.then((limits) => this.countExternally(found, limits))
      : this.countExternally(found, answer);
  }

  /** Meets the policies of the service. */
  private countExternally(
    found: MatchedRequest,
    external: ExternalLimits,
  ): RuleOutcome | Promise<RuleOutcome> {
    const { rule } = found;
    const { policies, tenantKey } = external;
    const route = {
      connectionKey: this.countsTunnels ? tunnelKey(found, tenantKey) : undefined,
      backendUrl: external.backendUrl,
      timeoutMs: external.requestTimeoutMs,
    };
    if (policies === undefined) return this.count(found, route);

    const limits = externalLimitsOf(found, policies, tenantKey);
    if (!isLimits(limits)) return this.withoutKey(found, limits, route);
    if (limits.length === 0) return admit(detailOf(found, 'unlimited'), route);
    if (limits.length > MAX_LIMITS_PER_CHECK) return this.countWithoutAnswer(found, limits.length);
    const cost = external.cost === undefined ? costOf(found) : { cost: external.cost };
    if (isProblem(cost)) return this.withoutKey(found, cost, route);
    return this.ask(found, {
      limits: withOneSlot(limits, rule.settle),
      cost,
      settle: rule.settle,
      route,
      failurePolicy: failurePolicyOf(rule, external),
      failureCode: external.failureCode ?? this.limits.failure_code,
    });
  }

  /** With the rule's own policies it is more than the limiter decides at once: nothing of the answer is used. */
  private countWithoutAnswer(found: MatchedRequest, policies: number): RuleOutcome | Promise<RuleOutcome> {
    const { id } = found.request;
    this.parts.log.error({ id, policies }, 'an external answer has too many policies and is not used');
    return this.count(found, this.configuredRoute(found));
  }

  private ask(found: MatchedRequest, question: LimiterQuestion): RuleOutcome | Promise<RuleOutcome> {
    if (this.isAnsweredAtOnce(question)) {
      return this.conclude(found, question, this.parts.limiter.checkSync(question.limits, question.cost));
    }
    return this.check(question, (decision, limits) =>
      this.conclude(found, limits === question.limits ? question : { ...question, limits }, decision),
    );
  }

  /** Spends, reserves, or takes slots, unless this engine only peeks. */
  private check(
    { limits, cost, settle }: Pick<LimiterQuestion, 'limits' | 'cost' | 'settle'>,
    conclude: (decision: Decision, limits: readonly Limit[]) => RuleOutcome | Promise<RuleOutcome>,
    failed?: (error: unknown) => RuleOutcome,
  ): RuleOutcome | Promise<RuleOutcome> {
    const { limiter, peeks } = this.parts;
    const concludeAll: Conclude = (decision) => conclude(decision, limits);
    if (peeks === true) return limiter.peek(limits, cost).then(concludeAll, failed);
    const settles = settle !== undefined && cost?.cost !== 0;
    if (limits.some(hasSlots)) {
      const settled = settles ? limits.filter((limit) => !hasSlots(limit)) : [];
      return settles && settled.length > 0
        ? concludeHoldingReserved(limiter, { limits, settled, cost, settle }, conclude).catch(failed)
        : concludeHolding(limiter, limits, cost, concludeAll).catch(failed);
    }
    if (settles) return concludeReserved(limiter, { limits, cost, settle }, concludeAll).catch(failed);
    return this.inMemory
      ? concludeAll(limiter.checkSync(limits, cost))
      : limiter.check(limits, cost).then(concludeAll, failed);
  }

  private isAnsweredAtOnce({ limits, settle }: LimiterQuestion): boolean {
    return this.inMemory && settle === undefined && this.parts.peeks !== true && !limits.some(hasSlots);
  }

  private conclude(
    found: MatchedRequest,
    question: LimiterQuestion,
    decision: Decision,
  ): RuleOutcome | Promise<RuleOutcome> {
    const { shadow } = found.rule;
    const { limits, route, cost } = question;
    if (decision.degraded) {
      const ruling = this.concludeWithoutStore(found, question, decision);
      if (ruling !== undefined) return ruling;
    }
    const detail = detailOf(found, 'limits', decision, { limits, cost: cost?.cost ?? 1 });
    if (shadow) return admit(detail, route);
    const headers = this.describe(decision, limits);
    if (!decision.allowed) return refuse(detail, quotaExceeded(decision), headers);
    const admission = admit(detail, route, headers);
    if (decision.delayMs === 0) return admission;
    const turn = startDelay(decision.delayMs);
    found.waiter?.waits(turn, route.timeoutMs);
    return turn.ended.then(() => admission);
  }

  /** What the failure policy alone says; undefined where the local fallback has decided, and may. */
  private concludeWithoutStore(
    found: MatchedRequest,
    { route, failurePolicy, failureCode }: LimiterQuestion,
    decision: Decision,
  ): RuleOutcome | undefined {
    const detail = detailOf(found, 'storeFailure', decision);
    if (found.rule.shadow || failurePolicy === 'passThrough') return admit(detail, route);
    if (failurePolicy === 'failClosed') return refuseUndecided(detail, failureCode, decision);
    if (decision.source !== 'failurePolicy') return undefined;
    return decision.allowed ? admit(detail, route) : refuseUndecided(detail, failureCode, decision);
  }

  private withoutKey(
    found: MatchedRequest,
    problem: string | KeyProblem | undefined,
    route: RouteOverrides,
  ): RuleOutcome {
    const isCost = typeof problem === 'object' && problem.invalidCost === true;
    const detail = detailOf(found, isCost ? 'invalidCost' : 'missingKey');
    return found.rule.shadow ? admit(detail, route) : refuseWithoutKey(detail, problem);
  }

  private configuredRoute(found: MatchedRequest): RouteOverrides {
    return this.countsTunnels
      ? { ...NO_OVERRIDES, connectionKey: tunnelKey(found, undefined) }
      : NO_OVERRIDES;
  }

  /** Something that must not happen did: the failure policy is the last word of the operator about such cases. */
  private recover(request: RequestFacts, error: unknown): RuleOutcome {
    this.parts.log.error({ id: request.id, error }, 'the limits of a request could not be checked');
    const rule = this.matcher.find(request)?.rule.name;
    const undecided = { keys: [], decision: undefined, shadow: false, reason: 'storeFailure' } as const;
    const detail: OutcomeDetail = { rule, ...undecided };
    const { failure_policy: policy, failure_code: code } = this.limits;
    if (policy === 'passThrough') return admit(detail, NO_OVERRIDES);
    return refuseUndecided(detail, policy === 'failClosed' ? code : 503);
  }

  private recorded(request: RequestFacts, ruling: RuleOutcome): RuleOutcome {
    this.record(request, ruling);
    this.parts.onOutcome?.(request, ruling);
    return ruling;
  }
}

function isOnAny(lists: readonly AccessList[], { request, keys }: MatchedRequest): boolean {
  if (lists.length === 0) return false;
  const { address } = request.client;
  return lists.some((list) => isListed(list, address, keys));
}
