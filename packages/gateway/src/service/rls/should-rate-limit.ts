// Decides about the descriptors of one request.
import { MAX_LIMITS_PER_CHECK, type Decision, type Limit, type Limiter, type Verdict } from 'spillgate';
import {
  type AnnouncedLimit,
  type DescriptorLimits,
  type DescriptorMatch,
  RlsError,
  type RlsDescriptor,
  type RlsRequest,
} from './descriptor-limits.ts';
import {
  chargeHeld,
  chargesOf,
  chargeShadows,
  isLimit,
  lookAt,
  refundGroups,
  requireFew,
  stateOf,
  type AskedDescriptor,
  type Charge,
  type ChargeResult,
  chargeAll,
  type Charging,
  type RefundLedger,
} from './charges.ts';

/** The answer for one descriptor. */
export interface RlsStatus {
  readonly over: boolean;
  /** Undefined: nothing limits it. */
  readonly announced: AnnouncedLimit | undefined;
  readonly remaining: number;
  readonly resetMs: number;
}

export interface RlsDecision {
  readonly over: boolean;
  /** In the order of the descriptors. */
  readonly statuses: readonly RlsStatus[];
  /** What is told in headers; undefined if no limit was asked. */
  readonly spoken: { readonly decision: Decision; readonly limits: readonly Limit[] } | undefined;
  /** Metadata of the descriptors that passed, the first value of each name. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface RlsEngine {
  readonly limiter: Limiter;
  readonly limits: DescriptorLimits;
  /** `strict`: as the reference server counts. */
  readonly compat: 'exact' | 'strict';
  /** DescriptorAnswers are counted and never obeyed. */
  readonly shadow: boolean;
  /** What can be given back; undefined: nothing. */
  readonly refunds: RefundLedger | undefined;
}

const UNLIMITED_REMAINING = 2 ** 32 - 1;
const NO_LIMIT: RlsStatus = { over: false, announced: undefined, remaining: 0, resetMs: 0 };
const UNLIMITED: RlsStatus = { ...NO_LIMIT, remaining: UNLIMITED_REMAINING };

/** Throws an `RlsError` for a question without an answer. */
export async function shouldRateLimit(request: RlsRequest, engine: RlsEngine): Promise<RlsDecision> {
  requireAnswerable(request, engine);
  const all = withoutReplaced(
    request.descriptors.map((descriptor): AskedDescriptor => ({
      match: engine.limits.match(request.domain, descriptor),
      hits: hitsOf(descriptor, request),
    })),
  );
  const decide = engine.compat === 'strict' ? decideSingly : decideTogether;
  if (!request.descriptors.some(({ isNegativeHits }) => isNegativeHits)) {
    return concluded(all, await decide(all, engine), engine);
  }
  const isRefund = (at: number): boolean => request.descriptors[at]?.isNegativeHits === true;
  const returned = all.map((each, at) => (isRefund(at) ? each : NOT_ASKED));
  const asked = all.map((each, at) => (isRefund(at) ? NOT_ASKED : each));
  const isReturning = returned.some(({ match }) => isLimit(match));
  // Before anything is given back: a request with a mistake changes nothing.
  if (isReturning) requireFew(chargesOf(all));
  const refunded = isReturning ? await giveBack(returned, engine) : [];
  const answer = await decide(asked, engine);
  const statuses = answer.statuses.map((status, at) => (isRefund(at) ? (refunded[at] ?? status) : status));
  return concluded(asked, { ...answer, statuses }, engine);
}

const NOT_ASKED: AskedDescriptor = { match: undefined, hits: 0 };

/** Gives hits back, and tells what is left then. Nobody is refused for it. */
async function giveBack(
  returned: readonly AskedDescriptor[],
  { limiter, refunds }: RlsEngine,
): Promise<readonly RlsStatus[]> {
  const charges = chargesOf(returned);
  try {
    await Promise.all(
      refundGroups(charges).map(async (group) =>
        refunds?.giveBack(
          group.map(({ limit }) => limit),
          group[0]?.cost ?? 0,
        ),
      ),
    );
  } catch {
    throw new RlsError('unavailable', 'the hits cannot be given back at the moment');
  }
  const looks = await lookAt(
    charges.map((each) => ({ ...each, cost: 0 })),
    { limiter },
  );
  return statusesOf(returned, looks).map((status) => ({ ...status, over: false }));
}

/** What the limiter says about each descriptor. */
interface DescriptorAnswers {
  readonly statuses: readonly RlsStatus[];
  readonly spoken: RlsDecision['spoken'];
}

const MAX_ENTRIES = 32;

function requireAnswerable({ domain, descriptors }: RlsRequest, { compat, refunds }: RlsEngine): void {
  if (domain === '') throw invalid('rate limit domain must not be empty');
  if (descriptors.length === 0) throw invalid('rate limit descriptor list must not be empty');
  if (descriptors.length > MAX_LIMITS_PER_CHECK) {
    throw invalid(
      `the request has ${descriptors.length} descriptors; expected at most ${MAX_LIMITS_PER_CHECK}`,
    );
  }
  for (const [at, { entries, isNegativeHits }] of descriptors.entries()) {
    if (isNegativeHits && refunds === undefined) {
      throw new RlsError(
        'unimplemented',
        `descriptor ${at} gives hits back, which needs service.rls.refunds: true and compat: exact`,
      );
    }
    if (entries.length > MAX_ENTRIES) {
      throw invalid(`descriptor ${at} has ${entries.length} entries; expected at most ${MAX_ENTRIES}`);
    }
    // The reference server takes these for descriptors that nothing limits.
    if (compat === 'strict') continue;
    if (entries.length === 0) throw invalid(`descriptor ${at} has no entries; expected at least one`);
    const empty = entries.findIndex(({ key }) => key === '');
    if (empty >= 0) throw invalid(`entry ${empty} of descriptor ${at} has an empty key; expected a text`);
  }
}

function invalid(message: string): RlsError {
  return new RlsError('invalid', message);
}

function hitsOf({ hitsAddend }: RlsDescriptor, request: RlsRequest): number {
  if (hitsAddend === undefined) return Math.max(1, request.hitsAddend);
  if (hitsAddend > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw invalid(`hits_addend is ${hitsAddend}; expected at most ${Number.MAX_SAFE_INTEGER}`);
  }
  return Number(hitsAddend);
}

/** A limit that another one of the request replaces is neither asked nor counted. */
function withoutReplaced(asked: readonly AskedDescriptor[]): readonly AskedDescriptor[] {
  if (!asked.some(({ match }) => isLimit(match) && match.replaces.length > 0)) return asked;
  const replaced = new Set(asked.flatMap(({ match }) => (isLimit(match) ? match.replaces : [])));
  return asked.map((each) =>
    isLimit(each.match) && replaced.has(each.match.name) ? { ...each, match: undefined } : each,
  );
}

/** All limits that hold are charged, or none. */
async function decideTogether(
  asked: readonly AskedDescriptor[],
  engine: Charging,
): Promise<DescriptorAnswers> {
  const charges = chargesOf(asked);
  requireFew(charges);
  if (charges.length > 0 && isOneStep(asked, charges)) {
    const result = { charges, decision: await chargeAll(charges, engine, refundGroups) };
    requireDecided([result]);
    return { statuses: statusesOf(asked, [result]), spoken: spokenOf([result]) };
  }
  const isClosed = (quota: boolean): boolean =>
    asked.some(
      ({ match, hits }) =>
        isLimit(match) && match.closed && !match.shadow && match.quota === quota && hits > 0,
    );
  const shadows = charges.filter(({ kind }) => kind === 'shadow');
  const { refused, results, last } = await chargeHeld(
    charges.filter(({ kind }) => kind !== 'shadow'),
    { closed: isClosed(false), closedQuota: isClosed(true) },
    engine,
  );
  requireDecided(last);
  const tried = await (refused ? lookAt : chargeShadows)(shadows, engine);
  return { statuses: statusesOf(asked, [...results, ...tried]), spoken: spokenOf(last) };
}

/** Nearly every request: all that it meets holds, and is spent. */
function isOneStep(asked: readonly AskedDescriptor[], charges: readonly Charge[]): boolean {
  return (
    charges.every(({ kind, cost }) => kind === 'holds' && cost > 0) &&
    !asked.some(({ match }) => isLimit(match) && match.closed)
  );
}

/** Nobody has decided, and the failure policy does not let that pass. */
function requireDecided(results: readonly ChargeResult[]): void {
  const undecided = results.find(({ decision }) => decision.source === 'failurePolicy' && !decision.allowed);
  if (undecided !== undefined)
    throw new RlsError('unavailable', 'the limits cannot be checked at the moment');
}

function statusesOf(
  asked: readonly AskedDescriptor[],
  results: readonly ChargeResult[],
): readonly RlsStatus[] {
  const verdicts = new Map<string, Verdict>();
  let passed = false;
  for (const { charges, decision } of results) {
    passed ||= decision.source === 'failurePolicy';
    for (const [at, { limit }] of charges.entries()) {
      const verdict = decision.verdicts[at];
      if (verdict !== undefined && decision.source !== 'failurePolicy') verdicts.set(stateOf(limit), verdict);
    }
  }
  return asked.map(({ match, hits }) => {
    if (match === undefined) return NO_LIMIT;
    if (match === 'unlimited') return UNLIMITED;
    if (match.closed) return closedStatus(match, hits);
    const own = match.limits.flatMap((limit) => verdicts.get(stateOf(limit)) ?? []);
    return own.length === 0 ? NO_LIMIT : limitedStatus(match, own);
  });
}

function closedStatus({ announced, shadow }: DescriptorMatch, hits: number): RlsStatus {
  return { over: hits > 0 && !shadow, announced, remaining: 0, resetMs: 0 };
}

function limitedStatus({ announced, shadow }: DescriptorMatch, verdicts: readonly Verdict[]): RlsStatus {
  const denied = verdicts.filter(({ allowed }) => !allowed);
  const over = denied.length > 0;
  const waits = (over ? denied : verdicts).map(({ retryAfterMs, resetAfterMs }) =>
    over && Number.isFinite(retryAfterMs) ? retryAfterMs : resetAfterMs,
  );
  return {
    over: over && !shadow,
    announced,
    remaining: Math.min(...verdicts.map(({ remaining }) => remaining)),
    resetMs: Math.max(...waits),
  };
}

/** The limit that denied, else the one with the least left. */
function spokenOf(results: readonly ChargeResult[]): RlsDecision['spoken'] {
  const [first, ...others] = results.filter(({ decision }) => decision.source !== 'failurePolicy');
  if (first === undefined) return undefined;
  const { decision, charges } = others.reduce((spoken, other) => {
    const [one, two] = [spoken.decision, other.decision];
    if (one.allowed !== two.allowed) return one.allowed ? other : spoken;
    return two.remaining < one.remaining ? other : spoken;
  }, first);
  return { decision, limits: charges.map(({ limit }) => limit) };
}

/** As the reference server counts: every descriptor on its own, and also what is over. */
async function decideSingly(
  asked: readonly AskedDescriptor[],
  { limiter }: Charging,
): Promise<DescriptorAnswers> {
  const statuses = await Promise.all(
    asked.map(async ({ match, hits }) => {
      if (match === undefined) return NO_LIMIT;
      if (match === 'unlimited') return UNLIMITED;
      if (match.closed) return closedStatus(match, hits);
      return match.saturates ? saturated(match, hits, limiter) : checkedSingly(match, hits, limiter);
    }),
  );
  return { statuses, spoken: undefined };
}

async function checkedSingly(match: DescriptorMatch, hits: number, limiter: Limiter): Promise<RlsStatus> {
  const decision =
    hits === 0
      ? await limiter.peek(match.limits, { cost: 1 })
      : await limiter.check(match.limits, { cost: hits });
  requireDecided([{ charges: [], decision }]);
  return decision.source === 'failurePolicy' ? NO_LIMIT : limitedStatus(match, decision.verdicts);
}

const MAX_DRAINS = 3;

/**
 * The limit holds one more than is admitted: it is over when that one is spent. What does not fit spends all that is
 * left.
 */
async function saturated(match: DescriptorMatch, hits: number, limiter: Limiter): Promise<RlsStatus> {
  const { limits, announced, shadow } = match;
  let decision =
    hits === 0 ? await limiter.peek(limits, { cost: 1 }) : await limiter.check(limits, { cost: hits });
  for (let drains = 0; drains < MAX_DRAINS; drains += 1) {
    if (decision.allowed || decision.remaining === 0 || hits === 0) break;
    decision = await limiter.check(limits, { cost: decision.remaining });
  }
  requireDecided([{ charges: [], decision }]);
  if (decision.source === 'failurePolicy') return NO_LIMIT;
  const over = decision.remaining === 0;
  return {
    over: over && !shadow,
    announced,
    remaining: Math.max(0, decision.remaining - 1),
    resetMs: decision.resetAfterMs,
  };
}

function concluded(
  asked: readonly AskedDescriptor[],
  { statuses, spoken }: DescriptorAnswers,
  { shadow }: RlsEngine,
): RlsDecision {
  const quotas = asked.map(({ match }) => isLimit(match) && match.quota);
  const isOverAt = (at: number): boolean => statuses[at]?.over === true;
  const held = asked.some((_, at) => quotas[at] !== true && isOverAt(at));
  const quotaSpent = quotas.includes(true) && quotas.every((isQuota, at) => !isQuota || isOverAt(at));
  const metadata = Object.fromEntries(
    asked
      .flatMap(({ match }, at) =>
        isLimit(match) && !isOverAt(at) ? Object.entries(match.metadata ?? {}) : [],
      )
      // The first value of a name wins.
      .toReversed(),
  );
  return { over: (held || quotaSpent) && !shadow, statuses, spoken, metadata };
}
