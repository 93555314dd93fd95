import { MAX_TIME_US } from '../algorithms/algorithm.ts';
import { LimiterError, show } from '../errors.ts';
import type { Decision } from '../decision.ts';
import type { Limit } from '../limit.ts';
import type { Limiter } from '../limiter.ts';
import { requireOptionNames } from '../options.ts';
import {
  FLEET_OPTIONS,
  simulatedFleet,
  type SimulatedFleetOptions,
  type SimulatedFleet,
} from './simulated-fleet.ts';
import { Departures } from './departures.ts';

export interface SimulateOptions<Request> extends SimulatedFleetOptions {
  /** When a request came: milliseconds since 1970, or a `Date`. Requests have to come in this order. */
  readonly at: (request: Request) => Date | number;
  /** What it has to pass; an empty list is admitted. */
  readonly limits: (request: Request) => Limit | readonly Limit[];
  /** What it costs. Default: 1. */
  readonly cost?: ((request: Request) => number) | undefined;
  /** When it ended, for limits of `concurrency()`. Default: at once, so that it holds no slot. */
  readonly endsAt?: ((request: Request) => Date | number) | undefined;
  /** Which instance it goes to, from 0 on. Default: one after the other. */
  readonly instance?: ((request: Request) => number) | undefined;
  /** Hears of every decision. */
  readonly onDecision?: ((request: Request, decision: Decision) => void) | undefined;
}

/** What became of the requests. */
export interface SimulationResult {
  readonly requests: number;
  readonly denied: number;
  /** Answered by a failure policy, admitted or not, because the store was away. */
  readonly degraded: number;
  /** By the policy that denied them, most first. */
  readonly policies: readonly { readonly policy: string; readonly denied: number }[];
  /** Whom it denied how often, most first: up to 100. */
  readonly keys: readonly { readonly policy: string; readonly key: string; readonly denied: number }[];
}

const OPTIONS = [...FLEET_OPTIONS, 'at', 'limits', 'cost', 'endsAt', 'instance', 'onDecision'];
const SHOWN_KEYS = 100;
/** Beyond that, those that were denied least are forgotten. */
const MAX_COUNTED = 50_000;

/**
 * Replays requests of the past through policies, in their own time: who would have been denied. Rejects if they are not
 * in the order of time.
 *
 * @example
 * const { denied } = await simulate(requests, {
 *   at: ({ time }) => time,
 *   limits: ({ user }) => api.for(user),
 * });
 */
export async function simulate<Request>(
  requests: Iterable<Request> | AsyncIterable<Request>,
  options: SimulateOptions<Request>,
): Promise<SimulationResult> {
  requireOptionNames('The options of simulate()', options, OPTIONS);
  const { at, limits, cost, endsAt, instance, onDecision, ...fleetOptions } = options;
  requireFunction('at', at);
  requireFunction('limits', limits);
  requireRequests(requests);
  const replay = new PolicyReplay(simulatedFleet(fleetOptions));
  for await (const request of requests) {
    const decision = await replay.decide({
      atMs: Number(at(request)),
      limits: limitList(limits(request)),
      cost: cost?.(request),
      endMs: endsAt === undefined ? undefined : Number(endsAt(request)),
      instance: instance?.(request),
    });
    if (decision !== undefined) onDecision?.(request, decision);
  }
  await replay.end();
  return replay.result();
}

function requireFunction(name: string, value: unknown): void {
  if (typeof value === 'function') return;
  throw new LimiterError(
    'INVALID_OPTION',
    `${name} is ${show(value)}; expected a function of a request, such as ${name}: ${EXAMPLES.get(name) ?? ''}.`,
  );
}

const EXAMPLES: ReadonlyMap<string, string> = new Map([
  ['at', '({ time }) => time'],
  ['limits', '({ user }) => api.for(user)'],
]);

function requireRequests(requests: unknown): void {
  const isIterable =
    typeof requests === 'object' &&
    requests !== null &&
    (Symbol.iterator in requests || Symbol.asyncIterator in requests);
  if (isIterable) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `The requests are ${show(requests)}; expected an array or anything else that can be iterated.`,
  );
}

const MAX_TIME_MS = Math.floor(MAX_TIME_US / 1000);

interface TimedRequest {
  readonly atMs: number;
  readonly limits: readonly Limit[];
  readonly cost: number | undefined;
  readonly endMs: number | undefined;
  readonly instance: number | undefined;
}

class PolicyReplay {
  private readonly fleet: SimulatedFleet;
  private readonly departures = new Departures();
  private readonly counted = new Map<string, { policy: string; key: string; denied: number }>();
  private readonly policies = new Map<string, number>();
  private lastMs = -Infinity;
  private requests = 0;
  private denied = 0;
  private degraded = 0;

  constructor(fleet: SimulatedFleet) {
    this.fleet = fleet;
  }

  async decide(request: TimedRequest): Promise<Decision | undefined> {
    const { atMs, limits } = request;
    if (!(atMs >= 0 && atMs <= MAX_TIME_MS)) {
      throw new LimiterError(
        'INVALID_OPTION',
        `at() returned ${show(atMs)} for request ${this.requests + 1}; expected milliseconds since 1970, or a Date, up to ${MAX_TIME_MS}: Date.parse() reads a text.`,
      );
    }
    if (atMs < this.lastMs) {
      throw new LimiterError(
        'INVALID_OPTION',
        `Request ${this.requests + 1} came at ${show(atMs)} and the one before at ${this.lastMs}; simulate() expects them in the order of time: sort them.`,
      );
    }
    this.lastMs = atMs;
    await this.departures.until(atMs, (departedMs) => this.fleet.advanceTo(departedMs));
    this.fleet.advanceTo(atMs);
    const limiter = this.limiterFor(request.instance);
    this.requests += 1;
    if (limits.length === 0) return undefined;
    const decision = await this.ask(limiter, request);
    this.count(decision);
    return decision;
  }

  async end(): Promise<void> {
    await this.departures.until(Infinity, () => undefined);
  }

  result(): SimulationResult {
    const { requests, denied, degraded } = this;
    const policies = [...this.policies].map(([policy, times]) => ({ policy, denied: times }));
    return {
      requests,
      denied,
      degraded,
      policies: policies.toSorted((one, other) => other.denied - one.denied),
      keys: [...this.counted.values()]
        .toSorted((one, other) => other.denied - one.denied)
        .slice(0, SHOWN_KEYS),
    };
  }

  private async ask(limiter: Limiter, { limits, cost, endMs = 0 }: TimedRequest): Promise<Decision> {
    const asked = cost === undefined ? undefined : { cost };
    if (!limits.some(({ policy }) => policy.algorithm === 'concurrency')) return limiter.check(limits, asked);
    const slot = await limiter.acquire(limits, asked);
    if (slot.allowed) this.departures.add(endMs, () => slot.release());
    return slot.decision;
  }

  private limiterFor(chosen: number | undefined): Limiter {
    const { limiters } = this.fleet;
    const limiter = limiters[chosen ?? this.requests % limiters.length];
    if (limiter !== undefined) return limiter;
    throw new LimiterError(
      'INVALID_OPTION',
      `instance() returned ${show(chosen)}; expected an integer from 0 to ${limiters.length - 1}.`,
    );
  }

  private count(decision: Decision): void {
    if (decision.degraded) this.degraded += 1;
    if (decision.allowed) return;
    this.denied += 1;
    const { policy, key } = decision;
    this.policies.set(policy, (this.policies.get(policy) ?? 0) + 1);
    const id = `${policy}\n${key}`;
    const known = this.counted.get(id);
    if (known !== undefined) {
      known.denied += 1;
      return;
    }
    if (this.counted.size >= MAX_COUNTED) this.forgetHalf();
    this.counted.set(id, { policy, key, denied: 1 });
  }

  private forgetHalf(): void {
    const byCount = [...this.counted].toSorted(([, one], [, other]) => one.denied - other.denied);
    for (const [id] of byCount.slice(0, MAX_COUNTED / 2)) this.counted.delete(id);
  }
}

function limitList(limits: Limit | readonly Limit[]): readonly Limit[] {
  return isList(limits) ? limits : [limits];
}

function isList(limits: Limit | readonly Limit[]): limits is readonly Limit[] {
  return Array.isArray(limits);
}
