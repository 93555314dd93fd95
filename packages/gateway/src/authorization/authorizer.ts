import { Breaker } from 'spillgate/internal';
import type { AuthorizationConfig } from '../config/schema/authorization.ts';
import { freshnessOf } from '../external/freshness.ts';
import { Slots } from '../external/limits-service-caller.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import { RuleMatcher } from '../rules/rule-matcher.ts';
import type { Log } from '../telemetry/log.ts';
import type {
  AuthorizationAnswer,
  AuthorizationQuestion,
  AuthorizationService,
  AuthorizationVerdict,
} from './authorization-service.ts';

/** `failed`: the service does not answer, and the failure policy wants it to. */
export type Authorization = AuthorizationVerdict | 'failed';

export interface AuthorizerOptions {
  readonly config: AuthorizationConfig;
  readonly service: AuthorizationService;
  readonly log: Log;
  /** Milliseconds of a clock that only goes forward. Default: `performance.now()`. */
  readonly now?: (() => number) | undefined;
}

interface CachedVerdict {
  readonly verdict: AuthorizationVerdict;
  /** Of the question and the answer together. */
  readonly length: number;
  readonly freshUntilMs: number;
  readonly staleUntilMs: number;
}

const PROBE_GRACE_MS = 1000;
const COMPLAINT_MS = 10_000;
/** Of all questions and answers in the cache: clients and the service make them as long as they like. */
const MAX_CACHED_LENGTH = 32 * 2 ** 20;
const PASSED: AuthorizationVerdict = { allowed: true, headers: [] };
const NO_FIELDS = { cacheMaxAgeSeconds: undefined, cacheNoStore: false };

/** Asks a service whether requests may pass: with a cache, a breaker, and bounds on how many calls there are. */
export class Authorizer {
  private readonly options: AuthorizerOptions;
  private readonly now: () => number;
  private readonly except: RuleMatcher<true>;
  private readonly sent: readonly string[];
  private readonly breaker: Breaker;
  private readonly slots: Slots;
  /** The one that was used longest ago comes first. */
  private readonly cache = new Map<string, CachedVerdict>();
  private cachedLength = 0;
  private readonly asking = new Map<string, Promise<Authorization>>();
  private complainedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: AuthorizerOptions) {
    const { config, now = () => performance.now() } = options;
    this.options = options;
    this.now = now;
    this.except = new RuleMatcher(config.except.map((match) => ({ match, rule: true })));
    this.sent = config.request_headers.map((name) => name.toLowerCase());
    this.breaker = new Breaker({
      threshold: config.circuit_breaker.threshold,
      openMs: config.circuit_breaker.reset_timeout,
      probeLeaseMs: config.timeout + PROBE_GRACE_MS,
    });
    const { max_concurrent_requests: max, max_queued_requests: maxWaiting } = config;
    this.slots = new Slots({ max, maxWaiting, maxPerKey: Math.max(1, Math.ceil((max + maxWaiting) / 2)) });
  }

  /** Never rejects. At once where nobody has to be asked. */
  authorize(facts: RequestFacts): Authorization | Promise<Authorization> {
    if (this.isExcepted(facts)) return PASSED;
    const question = this.questionOf(facts);
    const { id: _, ...asked } = question;
    const key = JSON.stringify(asked);
    const cached = this.cache.get(key);
    if (cached !== undefined && this.now() < cached.freshUntilMs) {
      this.keep(key, cached);
      return cached.verdict;
    }
    // Requests that look the same to the service share a call.
    const underWay = this.asking.get(key);
    if (underWay !== undefined) return underWay;
    const call = this.ask(key, question, cached).finally(() => this.asking.delete(key));
    this.asking.set(key, call);
    return call;
  }

  close(): void {
    this.options.service.close();
    this.slots.clear();
  }

  /** Whichever way the backend reads an escaped slash. */
  private isExcepted(facts: RequestFacts): boolean {
    if (this.except.find(facts) === undefined) return false;
    const { otherPath } = facts;
    return otherPath === undefined || this.except.find({ ...facts, path: otherPath }) !== undefined;
  }

  private questionOf({
    id,
    method,
    scheme,
    host,
    path,
    query,
    headers,
    client,
  }: RequestFacts): AuthorizationQuestion {
    return {
      id,
      method,
      scheme,
      host,
      target: path + query,
      client: client.address,
      headers: this.sent.flatMap((name) => headers.lines(name).flatMap((value) => [name, value])),
    };
  }

  private async ask(
    key: string,
    question: AuthorizationQuestion,
    cached: CachedVerdict | undefined,
  ): Promise<Authorization> {
    const client = question.client ?? '';
    const permit = this.breaker.enter(this.now());
    if (permit === undefined) return this.failed(cached);
    const place = this.slots.acquire(client);
    if (place === 'full' || (place !== 'granted' && !(await place.granted))) {
      this.breaker.abandoned(permit);
      return this.failed(cached);
    }
    try {
      const answer = await this.options.service.ask(
        question,
        AbortSignal.timeout(this.options.config.timeout),
      );
      this.breaker.succeeded(permit);
      this.remember(key, answer);
      return answer.verdict;
    } catch (failure) {
      this.breaker.failed(permit, this.now());
      this.complain(failure);
      return this.failed(cached);
    } finally {
      this.slots.release(client);
    }
  }

  private remember(key: string, { verdict, cacheHeaders }: AuthorizationAnswer): void {
    const { cache_ttl: freshMs, stale_ttl: staleMs } = this.options.config;
    const nowMs = this.now();
    // The wall clock: headers may have HTTP dates.
    const fresh = freshnessOf(cacheHeaders, NO_FIELDS, { defaults: { freshMs, staleMs }, nowMs: Date.now() });
    const freshUntilMs = nowMs + fresh.freshMs;
    this.drop(key);
    if (fresh.freshMs + fresh.staleMs <= 0) return;
    const staleUntilMs = freshUntilMs + fresh.staleMs;
    this.keep(key, { verdict, length: key.length + lengthOf(verdict), freshUntilMs, staleUntilMs });
  }

  private keep(key: string, cached: CachedVerdict): void {
    this.drop(key);
    this.cache.set(key, cached);
    this.cachedLength += cached.length;
    for (const oldest of this.cache.keys()) {
      if (this.cache.size <= this.options.config.max_cached && this.cachedLength <= MAX_CACHED_LENGTH) return;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    this.cachedLength -= this.cache.get(key)?.length ?? 0;
    this.cache.delete(key);
  }

  private failed(cached: CachedVerdict | undefined): Authorization {
    if (cached !== undefined && this.now() < cached.staleUntilMs) return cached.verdict;
    return this.options.config.failure_policy === 'passThrough' ? PASSED : 'failed';
  }

  private complain(failure: unknown): void {
    const nowMs = this.now();
    if (nowMs - this.complainedAtMs < COMPLAINT_MS) return;
    this.complainedAtMs = nowMs;
    const { failure_policy: failurePolicy } = this.options.config;
    this.options.log.error({ err: failure, failurePolicy }, 'the authorization service does not answer');
  }
}

function lengthOf(verdict: AuthorizationVerdict): number {
  const headers = verdict.headers.reduce((sum, text) => sum + text.length, 0);
  return verdict.allowed ? headers : headers + verdict.body.length;
}
