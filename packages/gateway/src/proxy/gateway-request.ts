import type { Delay } from 'spillgate/http';
import type { Identity } from '../identity/identity.ts';
import type { MeasuredCost } from '../cost/request-charge.ts';
import type { Authorization } from '../authorization/authorizer.ts';
import { outcomeOf, type RuleOutcome, type DelayListener } from '../rules/rule-outcome.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import type { FinishedRequest } from '../telemetry/traffic.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import {
  type AdmittedRequest,
  type ConfigSnapshot,
  type Ending,
  type ProxyContext,
  type Transfer,
  tellEarlyRefusal,
  maintenanceHeaders,
} from './context.ts';
import { customAnswer } from './answers/custom-answers.ts';
import type { RequestHead } from './exchange.ts';
import {
  GATEWAY_ERRORS,
  errorAnswer,
  refusalText,
  unauthorizedText,
  type GatewayErrorCode,
  type AnswerText,
} from './gateway-errors.ts';
import { RuleWait } from './request-timeouts.ts';
import {
  readRequest,
  requestIdOf,
  type ReadRequest,
  readingRules,
  type ReadingRules,
} from './request/read-request.ts';
import { routeOf } from './routing/route.ts';

// What happens to every request, whether it is answered or becomes a tunnel: read, identify, admit, forward, finish.
// Each check of a request exists here and only here.
export abstract class GatewayRequest implements DelayListener {
  protected readonly context: ProxyContext;
  protected readonly snapshot: ConfigSnapshot;
  protected readonly id: string;
  protected request: ReadRequest | undefined;
  /** An answer of our own has been sent, or the request has ended. */
  protected abstract readonly settled: boolean;
  private readonly head: RequestHead;
  private readonly rules: ReadingRules;
  private readonly startedAt = performance.now();
  private wait: RuleWait | undefined;
  private ruling: RuleOutcome | undefined;
  private trace: RequestTrace | undefined;
  private countedFor: string | undefined;
  /** What the authorization service tells the backend, names and values by turns. */
  private authorizedAs: readonly string[] = [];
  private finished = false;

  constructor(head: RequestHead, context: ProxyContext) {
    this.head = head;
    this.context = context;
    // A reload does not change the configuration of a request that has begun.
    this.snapshot = context.snapshot();
    this.rules = readingRules(this.snapshot.config);
    this.id = requestIdOf(head, this.rules.requestIdHeader);
  }

  /** Never throws: what goes wrong in here ends this request, and no other. */
  start(): void {
    this.context.load.underWay += 1;
    this.context.traffic.started();
    try {
      const request = this.read();
      if (typeof request === 'string') this.answer(request);
      else this.identify(request);
    } catch (cause) {
      this.fail(cause);
    }
  }

  /** The request, or what is wrong with it. */
  protected read(): ReadRequest | GatewayErrorCode {
    const { context, head, snapshot } = this;
    if (context.load.underWay > snapshot.config.server.max_concurrent_requests) {
      return 'TOO_MANY_REQUESTS_UNDER_WAY';
    }
    const request = readRequest(head, this.id, this.rules);
    if (typeof request === 'string') return request;
    this.request = request;
    if (request.namesClient || request.facts.client.oddity !== undefined) {
      context.proxyWatch.saw(request, head.peer, snapshot.config);
    }
    if (comesBack(request, context.pseudonym)) return 'LOOP_DETECTED';
    return this.countsFor(request.facts.client.key) ? request : 'TOO_MANY_REQUESTS_OF_CLIENT';
  }

  /** Counts the request for its client; false if that has as many in flight as it may. */
  private countsFor(client: string | undefined): boolean {
    const { max_concurrent_requests_per_address: max } = this.snapshot.config.server;
    if (max === 0 || client === undefined) return true;
    const { byClient } = this.context.load;
    if (byClient.of(client) >= max) return false;
    byClient.add(client);
    this.countedFor = client;
    return true;
  }

  protected stopCounting(): void {
    if (this.countedFor !== undefined) this.context.load.byClient.remove(this.countedFor);
    this.countedFor = undefined;
  }

  /** Finds out who is asking, before anything is decided. */
  private identify(request: ReadRequest): void {
    const identity = this.snapshot.identifier?.identify(request.facts);
    if (identity instanceof Promise) this.goOnAfter(identity, (found) => this.identified(request, found));
    else this.identified(request, identity);
  }

  private identified(request: ReadRequest, identity: Identity | undefined): void {
    const known = identity === undefined ? request : { ...request, facts: { ...request.facts, identity } };
    this.request = known;
    // What is not valid is refused by the rules, and nothing else is asked.
    if (identity?.problem === undefined) this.answerOrAdmit(known);
    else this.admit(known, known.facts);
  }

  /** What the gateway answers by itself meets no rule; everything else does. */
  private answerOrAdmit(request: ReadRequest): void {
    const { config } = this.snapshot;
    const preflight = this.rules.cors?.preflight(request.facts);
    if (preflight?.outcome === 'refuse') this.answer(preflight.code);
    else if (preflight?.outcome === 'answer') {
      this.sendOwn('PREFLIGHT', preflight.answer, { outcome: 'answered', reason: 'PREFLIGHT' });
    } else if (this.context.maintenance.refuses(config, request.facts.client.address)) {
      this.answer('MAINTENANCE');
    } else if (preflight === undefined) this.authorize(request);
    else this.admit(request, preflight.facts);
  }

  /** Asks the authorization service, where there is one, and then the rules. */
  private authorize(request: ReadRequest): void {
    const authorization = this.snapshot.authorizer?.authorize(request.facts);
    if (authorization instanceof Promise) {
      this.goOnAfter(authorization, (later) => this.authorized(request, later));
    } else this.authorized(request, authorization);
  }

  private authorized(request: ReadRequest, authorization: Authorization | undefined): void {
    if (authorization === 'failed') this.answer('AUTHORIZATION_UNAVAILABLE');
    else if (authorization?.allowed === false) {
      const refusal = unauthorizedText(authorization, this.speaksGrpc);
      this.sendOwn('authorization', refusal, { outcome: 'refused', reason: 'authorization' });
    } else {
      this.authorizedAs = authorization?.headers ?? [];
      this.admit(request, request.facts);
    }
  }

  /** Before the rules: goes on when somebody has answered, unless that is too late. */
  private goOnAfter<Answer>(answer: Promise<Answer>, goOn: (answer: Answer) => void): void {
    const letGo = this.snapshot.hold?.();
    this.boundWait();
    answer
      .finally(letGo)
      .then((found) => (this.settled ? undefined : goOn(found)))
      .catch((cause: unknown) => this.fail(cause));
  }

  /** The time of the request runs while it waits for others. */
  private boundWait(): void {
    const { request_timeout: timeoutMs } = this.snapshot.config.server;
    if (timeoutMs > 0) this.waiting().atMost(timeoutMs);
  }

  /** Asks the rules about these facts, and goes on with what they say. */
  private admit(request: ReadRequest, facts: RequestFacts): void {
    this.trace = this.snapshot.tracer?.(request.facts);
    const ruling = this.snapshot.ruleEngine.decide(facts, this);
    if (!('then' in ruling)) {
      this.ruled(request, ruling);
      return;
    }
    this.boundWait();
    // Not `catch` behind it: that is a promise more, and every request that asks Redis passes here.
    ruling.then(
      (later) => this.ruledLater(request, later),
      (cause: unknown) => this.fail(cause),
    );
  }

  /** The rules say that the request waits for its turn. */
  waits(turn: Delay, timeoutMs: number | undefined): void {
    this.waiting().forTurn(turn, timeoutMs ?? this.snapshot.config.server.request_timeout);
  }

  private waiting(): RuleWait {
    this.wait ??= new RuleWait(this.startedAt, () => this.answer('REQUEST_TIMEOUT'));
    return this.wait;
  }

  private ruledLater(request: ReadRequest, ruling: RuleOutcome): void {
    try {
      this.ruled(request, ruling);
    } catch (cause) {
      this.fail(cause);
    }
  }

  private ruled(asked: ReadRequest, ruling: RuleOutcome): void {
    // Reading its body may have changed what is left to do.
    const request = this.request ?? asked;
    this.wait?.end();
    // The client went away, or was told that it took too long: whatever was decided comes too late.
    if (this.settled) {
      ruling.release?.();
      void ruling.charge?.end({ cost: 0, estimated: false });
      return;
    }
    this.ruling = ruling;
    if (!ruling.admitted) {
      const { reason } = ruling.detail;
      this.sendOwn(reason, refusalText(ruling, this.id, this.speaksGrpc), { outcome: 'refused', reason });
      return;
    }
    const { head, context, snapshot, rules, trace, startedAt } = this;
    const route = routeOf(snapshot, { admission: ruling, facts: request.facts, identity: this.authorizedAs });
    this.forward({ head, request, admission: ruling, route, context, snapshot, rules, trace, startedAt });
  }

  /** Sends an admitted request to a backend. */
  protected abstract forward(admitted: AdmittedRequest): void;

  /** Gives an answer of our own what all of them carry, in the operator's words where there are some, and sends it. */
  private sendOwn(name: string, standard: AnswerText, ending: Ending): void {
    const { config } = this.snapshot;
    const { head, ruling, request, id } = this;
    const described = { name, standard, id, head, ruling, request, grpc: this.speaksGrpc };
    tellEarlyRefusal(this.context, described, config);
    const answer = customAnswer(config, described);
    answer.headers.push(config.server.request_id_header, id);
    this.rules.cors?.addToOwnAnswer(answer.headers, head.rawHeaders);
    this.send(answer, ending);
  }

  protected abstract send(answer: AnswerText, ending: Ending): void;

  protected answer(code: GatewayErrorCode): void {
    const answer = errorAnswer(code, this.id, { grpc: this.speaksGrpc, ruling: this.ruling });
    if (code === 'MAINTENANCE') {
      answer.headers.push(...maintenanceHeaders(this.snapshot.config));
      this.sendOwn(code, answer, { outcome: 'answered', reason: code });
      return;
    }
    const outcome = GATEWAY_ERRORS[code].status < 500 ? 'invalid' : 'failed';
    this.sendOwn(code, answer, { outcome, reason: code });
  }

  protected get speaksGrpc(): boolean {
    return this.request?.grpc === true;
  }

  private fail(cause: unknown): void {
    this.context.log.error(
      { err: cause, requestId: this.id },
      'the gateway could not decide about a request',
    );
    this.answer('GATE_FAILED');
  }

  /** The client has its answer, or is gone. Only the first call counts. */
  protected finish({ outcome, reason }: Ending, transfer: Transfer = {}): void {
    if (this.finished) return;
    this.finished = true;
    this.context.load.underWay -= 1;
    this.stopCounting();
    this.wait?.end();
    this.ruling?.release?.();
    const durationMs = performance.now() - this.startedAt;
    if (this.ruling?.charge === undefined) this.tell({ outcome, reason }, transfer, durationMs);
    else void this.settleCost(transfer).then(() => this.tell({ outcome, reason }, transfer, durationMs));
  }

  /** Finds out what the request has cost, and has that charged; nobody waits for the latter. */
  private async settleCost(transfer: Transfer): Promise<void> {
    const measured = await this.measure(transfer).catch((error: unknown) => {
      this.context.log.error(
        { err: error, requestId: this.id },
        'the cost of a request could not be found out',
      );
      return undefined;
    });
    void this.endCharge(measured);
  }

  private async endCharge(measured: MeasuredCost | undefined): Promise<void> {
    const event = await this.ruling?.charge?.end(measured);
    if (event === undefined) return;
    this.context.traffic.count('settlements', event);
    if (event !== 'failed') return;
    this.context.log.warn(
      { requestId: this.id, measured },
      'the cost of a request could not be settled: it counts as reserved',
    );
  }

  /** What the request has cost; undefined: what was charged before it began. */
  protected async measure({ bytesReceived = 0, bytesSent = 0 }: Transfer): Promise<MeasuredCost | undefined> {
    switch (this.ruling?.charge?.settle.type) {
      case 'requestBytes':
        return { cost: bytesReceived, estimated: false };
      case 'responseBytes':
        return { cost: bytesSent, estimated: false };
      default:
        return undefined;
    }
  }

  private tell({ outcome, reason }: Ending, transfer: Transfer, durationMs: number): void {
    const { head, request, trace } = this;
    const described: FinishedRequest = {
      id: this.id,
      outcome,
      reason,
      rejected: this.ruling?.detail.rejected,
      method: head.method,
      scheme: head.scheme,
      host: request?.facts.host ?? '',
      path: request?.facts.path ?? '',
      protocol: this.protocol,
      status: transfer.status,
      clientAddress: request?.facts.client.address ?? head.peer,
      rule: this.ruling?.detail.rule,
      counted: this.ruling?.detail.decision?.verdicts,
      shadowDenied: this.ruling !== undefined && outcomeOf(this.ruling) === 'wouldDeny',
      apiKey: request?.facts.identity?.apiKey?.name,
      upstream: transfer.upstream,
      bytesReceived: transfer.bytesReceived ?? 0,
      bytesSent: transfer.bytesSent ?? 0,
      durationMs,
      charged: isCharged(this.ruling),
      cost: this.costOf(this.ruling),
      upstreamMs: transfer.upstreamMs,
      traceId: trace?.traceId,
    };
    trace?.end(described);
    this.context.traffic.finished(described);
    // To whoever listens now: what the request began with may be closed.
    this.context.snapshot().usage?.record(described);
  }

  /** What is worth to be told: not that a request costs 1. */
  private costOf(ruling: RuleOutcome | undefined): FinishedRequest['cost'] {
    if (ruling?.charge?.measured !== undefined) return ruling.charge.measured;
    const { cost = 1 } = ruling?.detail ?? {};
    return cost !== 1 && isCharged(ruling) ? { cost, estimated: false } : undefined;
  }

  protected get isFinished(): boolean {
    return this.finished;
  }

  protected get protocol(): FinishedRequest['protocol'] {
    return this.head.protocol;
  }
}

/** What one policy denies costs nothing, also where it passes in shadow mode. */
function isCharged(ruling: RuleOutcome | undefined): boolean {
  return ruling?.admitted === true && ruling.detail.decision?.allowed === true;
}

/** Whether a request has passed this gateway before. */
function comesBack({ headers }: ReadRequest, pseudonym: string): boolean {
  return headers.has('via') && headers.lines('via').some((line) => line.includes(pseudonym));
}
