import { formatDuration, type Decision } from 'spillgate';
import type { Config } from '../../config/config.ts';
import { DEFAULT_POLICY, matchedMethods, type RuleMatch } from '../../config/schema/rate-limit.ts';
import { shown } from '../../config/shown.ts';
import type { RequestFacts } from '../request-facts.ts';
import { RuleMatcher } from '../rule-matcher.ts';
import { outcomeOf, printable, wasRuled, type OutcomeDetail, type RuleOutcome } from '../rule-outcome.ts';
import type { Explanation, PolicyStory } from './explanation.ts';

/** What happened, or would happen, to a request. */
export interface ExplainedOutcome {
  readonly config: Config;
  readonly request: RequestFacts;
  readonly outcome: RuleOutcome;
  /** Whether it was spent: then what is left is what the request left. */
  readonly spent: boolean;
  readonly at: Date;
  readonly instance: string;
  readonly generation: number | undefined;
  readonly loadedAt: Date | undefined;
}

/** Tells the whole story of a decision. Nothing in it is a secret of a client. */
export function explainOutcome(explained: ExplainedOutcome): Explanation {
  const { config, request, outcome, at, spent } = explained;
  const { detail } = outcome;
  const policies = policyStories(explained);
  const verdict = outcomeOf(outcome);
  const toBeAdmitted = verdict === 'allowed' ? [] : adviceFor(explained, policies);
  return {
    summary: summaryOf(explained, policies),
    recorded: spent,
    at: at.toISOString(),
    outcome: verdict,
    status: outcome.admitted ? undefined : outcome.problem.status,
    reason: detail.shadowResult?.reason ?? detail.reason,
    rejected: detail.rejected,
    request: {
      id: request.id,
      method: printable(request.method),
      scheme: request.scheme,
      host: printable(request.host),
      path: printable(request.path),
    },
    client: clientStory(config, request),
    rule: detail.rule,
    rulesAsked: wasRuled(detail),
    rules: wasRuled(detail) ? [...ruleStories(config, request)] : [],
    keys: detail.keys.map(printable),
    policies: [...policies],
    settlement: settlementOf(outcome),
    decidedBy: decidedBy(explained),
    toBeAdmitted: [...toBeAdmitted],
  };
}

/** What a request was charged before, and what it has cost. */
function settlementOf({ charge }: RuleOutcome): Explanation['settlement'] {
  if (charge === undefined) return undefined;
  const { settle, reserved, measured } = charge;
  return { by: settle.type, reserved, cost: measured?.cost, estimated: measured?.estimated };
}

function decidedBy({
  config,
  outcome,
  instance,
  generation,
  loadedAt,
}: ExplainedOutcome): Explanation['decidedBy'] {
  const { decision } = outcome.detail;
  const inRedis = config.redis !== undefined;
  const local = decision?.source === 'fallback' || decision?.source === 'failurePolicy';
  return {
    instance,
    store: inRedis ? 'redis' : 'memory',
    source: decision?.source,
    degraded: decision?.degraded ?? false,
    cause: decision?.cause instanceof Error ? decision.cause.message : undefined,
    clock: inRedis && !local ? 'that of Redis' : 'that of this process',
    generation,
    loadedAt: loadedAt?.toISOString(),
  };
}

function clientStory(
  { server: { client_address: settings } }: Config,
  { client: { address, key, from, oddity } }: RequestFacts,
): Explanation['client'] {
  const said =
    from === 'header'
      ? `${settings.source} names it, and whoever sent the request is a trusted proxy`
      : 'it is the address of the connection';
  const odd = oddity === undefined ? '' : ODDITIES.get(oddity);
  return {
    address,
    countedAs: key,
    because: address === undefined ? 'nobody says which address it has' : `${said}${odd ?? ''}`,
  };
}

const ODDITIES: ReadonlyMap<string, string> = new Map([
  ['untrustedHeader', '; a forwarding header was ignored, because its sender is not in trusted_proxies'],
  ['junk', '; an entry of the forwarding header is not an address'],
  ['tooFewHops', '; the forwarding header has fewer entries than trusted_hops'],
  ['tooManyEntries', '; the forwarding header has more trusted hops than are followed'],
]);

function policyStories(explained: ExplainedOutcome): readonly PolicyStory[] {
  const { outcome } = explained;
  const { decision, shadowResult, shadow } = outcome.detail;
  return [
    ...storiesOf(decision, { ...explained, shadow }),
    ...storiesOf(shadowResult?.decision, { ...explained, shadow: true }),
  ];
}

function storiesOf(
  decision: Decision | undefined,
  { config, spent, at, outcome: { detail }, shadow }: ExplainedOutcome & { readonly shadow: boolean },
): readonly PolicyStory[] {
  if (decision === undefined) return [];
  return decision.verdicts.map((verdict) => {
    const { policy, key, allowed, limit, remaining, retryAfterMs, resetAfterMs, penalty } = verdict;
    const cost = detail.ownCosts?.get(policy) ?? detail.cost ?? 1;
    // A denial costs nothing, and neither does what no store decided.
    const charged = decision.allowed && decision.source !== 'failurePolicy' ? cost : 0;
    return {
      policy,
      key: printable(key),
      algorithm: algorithmOf(config, policy),
      shadow,
      allowed,
      cost,
      limit,
      before: spent ? remaining + charged : remaining,
      after: spent ? remaining : Math.max(0, remaining - charged),
      retryAfterMs: retryAfterMs === Infinity ? null : retryAfterMs,
      resetAfterMs,
      fullAgainAt: new Date(at.getTime() + Math.min(resetAfterMs, MAX_SHOWN_MS)).toISOString(),
      ...(penalty === undefined ? {} : { penalty: penalty.reason }),
    };
  });
}

/** Beyond it there are no dates. */
const MAX_SHOWN_MS = 8e12;

function algorithmOf({ rate_limit: { policies } }: Config, name: string): string | undefined {
  if (Object.hasOwn(policies, name)) return policies[name]?.algorithm;
  return name === DEFAULT_POLICY ? 'tokenBucket' : undefined;
}

function summaryOf(explained: ExplainedOutcome, policies: readonly PolicyStory[]): string {
  const { outcome, request, spent } = explained;
  const { detail } = outcome;
  const verdict = outcomeOf(outcome);
  const verb = spent ? VERBS[verdict] : CONDITIONAL_VERBS[verdict];
  const what = `${printable(request.method)} ${printable(request.path)} ${verb}`;
  const why = reasonInWords(detail, policies);
  return why === undefined ? `${what}.` : `${what}: ${why}.`;
}

const VERBS = {
  allowed: 'was admitted',
  denied: 'was denied',
  wouldDeny: 'was admitted, but only because of shadow mode',
} as const;
const CONDITIONAL_VERBS = {
  allowed: 'would be admitted',
  denied: 'would be denied',
  wouldDeny: 'would be admitted, but only because of shadow mode',
} as const;

/** Why, to go on with behind a colon. */
function reasonInWords(detail: OutcomeDetail, policies: readonly PolicyStory[]): string | undefined {
  const refused = policies.find(({ allowed }) => !allowed);
  switch (detail.shadowResult?.reason ?? detail.reason) {
    case 'limits':
      if (refused === undefined) return restInWords(policies);
      return isBlocked(detail) ? blockInWords(refused) : refusalInWords(refused);
    case 'unlimited':
      return detail.rule === undefined
        ? 'no rule matches it, and there is no default limit'
        : `the rule ${detail.rule} has no policy`;
    case 'allowList':
      return 'the client is on an allow list';
    case 'denyList':
      return 'the client is on a deny list';
    case 'missingKey':
      return 'it does not say who is asking';
    case 'invalidCost':
      return 'what it says about its cost is not valid';
    case 'ambiguousPath':
      return 'its path has a %2F, with which another rule or key could hold';
    case 'storeFailure':
      return 'the store did not answer, and the failure policy decides';
    case 'preflight':
      return 'it is a preflight of a browser, which no policy counts';
    case 'unidentified':
      return `what it shows about who is asking is not valid: ${REJECTIONS.get(detail.rejected ?? '') ?? detail.rejected ?? 'unknown'}. No rule was asked`;
    case 'preflightRefused':
      return 'it is a preflight of a page that cors does not allow what it asks for';
    case 'maintenance':
      return 'the service is closed for maintenance, and no rule was asked';
    case 'authorization':
      return 'the authorization service refuses it, and no rule was asked';
    case 'authorizationUnavailable':
      return 'the authorization service did not answer, and authorization.failure_policy refuses then';
    default:
      return detail.reason;
  }
}

/** Keys and tokens that were not accepted, for whoever runs the gateway. */
const REJECTIONS: ReadonlyMap<string, string> = new Map([
  ['apiKey unknown', 'its API key is none of this gateway'],
  ['apiKey disabled', 'its API key was revoked'],
  ['apiKey expired', 'its API key has expired'],
  ['apiKey unclear', 'it carries an API key twice, or in a way that leaves doubt'],
  ['token unclear', 'it carries a token twice, or in a way that leaves doubt'],
  ['token malformed', 'its token is malformed'],
  ['token algorithm', 'its token is signed in a way that identity.jwt.algorithms does not have'],
  ['token unknownKey', 'its token is signed with a key that the issuer does not publish'],
  ['token signature', 'the signature of its token is wrong'],
  ['token issuer', 'its token is of another issuer'],
  ['token audience', 'its token is for another audience'],
  ['token type', 'its token is of another type'],
  ['token claims', 'the claims of its token are not valid'],
  ['token notYetValid', 'its token is not valid yet'],
  ['token expired', 'its token has expired'],
  ['token keysUnavailable', 'the keys of the issuer cannot be fetched'],
]);

function refusalInWords({ policy, key, before, cost, limit, retryAfterMs, penalty }: PolicyStory): string {
  if (penalty !== undefined && retryAfterMs !== null)
    return `${key} is blocked by the policy ${policy}, because it was ${penalty}; the next is admitted in ${waitInWords(retryAfterMs)}`;
  const who = `${key} has ${before} of ${limit} left under the policy ${policy}`;
  if (retryAfterMs === null) return `${who}, and ${cost} never fit at once`;
  const asked = cost === 1 ? '' : ` and asks for ${cost}`;
  return `${who}${asked}; the next is admitted in ${waitInWords(retryAfterMs)}`;
}

/** Whether somebody blocked a key: then no policy was asked what it has left. */
function isBlocked({ decision, shadowResult }: OutcomeDetail): boolean {
  return (shadowResult?.decision ?? decision)?.source === 'block';
}

function blockInWords({ policy, key, retryAfterMs }: PolicyStory): string {
  const end = retryAfterMs === null ? 'until somebody ends it' : `for another ${waitInWords(retryAfterMs)}`;
  return `somebody has blocked ${key} under the policy ${policy}, ${end}`;
}

function restInWords(policies: readonly PolicyStory[]): string | undefined {
  const [least] = policies.filter(({ shadow }) => !shadow).toSorted((one, other) => one.after - other.after);
  return least === undefined
    ? undefined
    : `${least.key} has ${least.after} of ${least.limit} left under the policy ${least.policy}`;
}

/** Never less than it is. */
function waitInWords(ms: number): string {
  const unitMs = ms > 1000 ? 100 : 1;
  return formatDuration(Math.max(1, Math.ceil(ms / unitMs)) * unitMs * 1000);
}

function adviceFor(
  { outcome, config }: ExplainedOutcome,
  policies: readonly PolicyStory[],
): readonly string[] {
  const { detail } = outcome;
  switch (detail.shadowResult?.reason ?? detail.reason) {
    case 'limits':
      return policies
        .filter(({ allowed }) => !allowed)
        .flatMap(isBlocked(detail) ? adviceForBlock : adviceForPolicy);
    case 'denyList':
      return ['Take the client off the deny list of the rule, or of rate_limit.deny.'];
    case 'missingKey':
    case 'invalidCost':
    case 'unidentified':
      return outcome.admitted ? [] : [outcome.problem.detail];
    case 'preflightRefused':
      return ['Add its origin, method and headers to the section cors, if that page may ask.'];
    case 'maintenance':
      return [
        'Wait until somebody ends it: maintenance.enabled, or POST /v1/maintenance/off of the admin API.',
      ];
    case 'authorization':
      return ['Ask the service that authorization.url names why: its answer was passed on.'];
    case 'authorizationUnavailable':
      return [
        'The authorization service has to answer in time; authorization.failure_policy says what holds until then.',
      ];
    case 'ambiguousPath':
      return ['Send the path without %2F, or set server.encoded_slashes.'];
    case 'storeFailure':
      return [
        'The store has to answer in time: look at the store on the live page, or run spillgate doctor.',
        `Until then rate_limit.failure_policy decides, which is ${config.rate_limit.failure_policy}.`,
      ];
    default:
      return [];
  }
}

function adviceForPolicy({ policy, key, cost, limit, retryAfterMs }: PolicyStory): readonly string[] {
  if (retryAfterMs === null) {
    return [
      `Raise the policy ${policy} so that it admits at least ${cost} at once (now ${limit}), or ask for less.`,
    ];
  }
  return [
    `Wait ${waitInWords(retryAfterMs)}.`,
    `Or give ${key} higher numbers under the policy ${policy}, or forget what it has spent.`,
  ];
}

function adviceForBlock({ policy, key, retryAfterMs }: PolicyStory): readonly string[] {
  const end = `nd the block of ${key} under the policy ${policy}.`;
  return retryAfterMs === null ? [`E${end}`] : [`Wait ${waitInWords(retryAfterMs)}.`, `Or e${end}`];
}

/** What became of one rule when a request looked for its own. */
interface RuleStory {
  readonly rule: string;
  readonly matched: boolean;
  /** Why it is the one, or is not. */
  readonly because: string;
}

/** Looks at every rule alone, by the same code that finds the one that holds. */
function ruleStories({ rate_limit: limits }: Config, request: RequestFacts): readonly RuleStory[] {
  let found: string | undefined;
  return limits.rules.map(({ name, match: written }) => {
    const match = { ...written, method: matchedMethods(written.method, limits) };
    const against = objectionTo(match, request);
    if (against !== undefined) return { rule: name, matched: false, because: against };
    if (found !== undefined) {
      return { rule: name, matched: false, because: `it would match too, but ${found} comes first` };
    }
    found = name;
    return { rule: name, matched: true, because: agreementOf(match) };
  });
}

/** Conditions one by one: the first that does not hold is told. */
function objectionTo(match: RuleMatch, request: RequestFacts): string | undefined {
  const { host, path, method, header = {}, lenient_path: lenient } = match;
  if (host !== undefined && !holds({ host }, request)) {
    return `the host is ${shown(request.host)}, not ${oneOf(host)}`;
  }
  if (path !== undefined && !holds({ path, lenient_path: lenient }, request)) {
    return `the path is ${shown(request.path)}, not ${oneOf(path)}`;
  }
  if (method !== undefined && !holds({ method }, request)) {
    return `the method is ${shown(request.method)}, not ${oneOf(method)}`;
  }
  const missing = Object.entries(header).find(
    ([name, value]) => !holds({ header: { [name]: value } }, request),
  );
  if (missing === undefined) return undefined;
  const [name, value] = missing;
  return value === '*' ? `there is no header ${name}` : `no header ${name} says ${shown(value)}`;
}

function holds(match: Partial<RuleMatch>, request: RequestFacts): boolean {
  return new RuleMatcher([{ match, rule: true }]).find(request) !== undefined;
}

function agreementOf({ host, path, method, header }: RuleMatch): string {
  const conditions = [
    ...(host === undefined ? [] : ['the host']),
    ...(path === undefined ? [] : ['the path']),
    ...(method === undefined ? [] : ['the method']),
    ...(header === undefined || Object.keys(header).length === 0 ? [] : ['the headers']),
  ];
  if (conditions.length === 0) return 'it matches every request';
  const last = conditions.pop() ?? '';
  const named = conditions.length === 0 ? last : `${conditions.join(', ')} and ${last}`;
  return `${named} ${conditions.length === 0 && last !== 'the headers' ? 'matches' : 'match'}`;
}

function oneOf(values: readonly string[]): string {
  return values.length === 1 ? shown(values[0]) : `one of ${values.map((value) => shown(value)).join(', ')}`;
}
