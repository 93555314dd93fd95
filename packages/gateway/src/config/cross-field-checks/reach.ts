import {
  matchedMethods,
  type RateLimitConfig,
  type RuleConfig,
  type RuleMatch,
} from '../schema/rate-limit.ts';
import { parseLenientPattern, parsePathPattern, type PathSegment } from '../path-pattern.ts';
import { warnWhen, type CrossFieldCheck, type CrossFieldFinding } from './finding.ts';

/** A pattern of a rule, and where it stands. */
interface Reach {
  readonly rule: number;
  readonly match: RuleMatch;
  readonly path: readonly PathSegment[];
  /** The same as `lenient_path` compares it. */
  readonly lenient: readonly PathSegment[];
}

/** Every pattern is compared with all before it: with more of them a reload would take noticeably longer. */
const MAX_PATTERNS = 2000;

export const rulesAreReachable: CrossFieldCheck = ({ rate_limit: limits }) => {
  const { rules } = limits;
  const reaches = rules
    .flatMap(({ match }, rule) => reachOf({ ...match, method: matchedMethods(match.method, limits) }, rule))
    .slice(0, MAX_PATTERNS);
  return rules.flatMap((rule, at) => {
    const catchAll = rules.slice(0, at).find(matchesEverything);
    const hidden = `rate_limit.rules[${at}] (${rule.name}) is never reached`;
    if (catchAll !== undefined) {
      return warnWhen(true, {
        paths: [['rate_limit', 'rules', at]],
        message: `${hidden}: the rule ${catchAll.name} before it matches every request`,
        suggestion: 'The first rule that matches decides; move this one up, or remove it.',
      });
    }
    const names = hiding(reaches, rule, at).map((before) => rules[before]?.name ?? '');
    return warnWhen(names.length > 0, {
      paths: [['rate_limit', 'rules', at]],
      message: `${hidden}: everything it matches is already matched by ${names.join(' and ')}`,
      suggestion: 'The first rule that matches decides; move this one up, or remove it.',
    });
  });
};

/**
 * Rules that other spellings of their path get around, in front of frameworks that forgive them. Only `check` says so:
 * it is right in front of a service that is exact, which `lenient_path: false` says.
 */
export function exactPaths({ rules }: RateLimitConfig): readonly CrossFieldFinding[] {
  const exact = rules.flatMap(({ name, match: { path, lenient_path: lenient }, policies, deny }, at) => {
    const limits = policies.length + deny.keys.length + deny.cidrs.length > 0;
    const everything = path === undefined || path.includes('/**');
    return limits && lenient === undefined && !everything ? [{ at, name }] : [];
  });
  const [first] = exact;
  if (first === undefined) return [];
  const others = exact.length > 1 ? ` (and ${exact.length - 1} more)` : '';
  return warnWhen(true, {
    paths: [['rate_limit', 'rules', first.at, 'match', 'path']],
    message: `the rule ${first.name}${others} matches its path exactly, but many frameworks, such as Express, also serve it as /PATH, /path/ or /path;x, which the rule would not count`,
    suggestion: 'Set match.lenient_path to true, or to false if your service is exact.',
  });
}

function matchesEverything({ match }: RuleConfig): boolean {
  const everyPath = match.path === undefined || match.path.includes('/**');
  return match.host === undefined && match.method === undefined && match.header === undefined && everyPath;
}

/** The rules before one that leave nothing to it; none if it has a path that no single one of them covers. */
function hiding(reaches: readonly Reach[], { match }: RuleConfig, rule: number): readonly number[] {
  const own = reaches.filter((reach) => reach.rule === rule);
  const before = own.flatMap(
    (reach) => reaches.find((other) => other.rule < rule && covers(other, reach)) ?? [],
  );
  return before.length === (match.path?.length ?? 1) ? [...new Set(before.map((reach) => reach.rule))] : [];
}

function reachOf(match: RuleMatch, rule: number): readonly Reach[] {
  const patterns = match.path ?? ['/**'];
  return patterns.map((pattern) => ({
    rule,
    match,
    path: parsePathPattern(pattern),
    lenient: parseLenientPattern(pattern),
  }));
}

function covers(one: Reach, other: Reach): boolean {
  const path =
    one.match.lenient_path === true
      ? coversPath(one.lenient, other.lenient)
      : coversPath(one.path, other.path) &&
        (other.match.lenient_path !== true || one.path[0]?.kind === 'rest');
  return (
    path &&
    coversList(one.match.method, other.match.method, (method, given) => method === given) &&
    coversList(one.match.host, other.match.host, coversHost) &&
    coversHeaders(one.match.header, other.match.header)
  );
}

function coversPath(one: readonly PathSegment[], other: readonly PathSegment[]): boolean {
  for (const [at, segment] of one.entries()) {
    if (segment.kind === 'rest') return true;
    const given = other[at];
    if (given === undefined || !coversSegment(segment, given)) return false;
  }
  return one.length === other.length;
}

function coversSegment(segment: PathSegment, given: PathSegment): boolean {
  if (given.kind === 'rest') return false;
  if (segment.kind === 'literal') return given.kind === 'literal' && given.text === segment.text;
  // An empty segment is not a parameter.
  return given.kind !== 'literal' || given.text !== '';
}

/** Without a list everything fits. */
function coversList(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
  coversEntry: (entry: string, given: string) => boolean,
): boolean {
  if (one === undefined) return true;
  return other?.every((given) => one.some((entry) => coversEntry(entry, given))) ?? false;
}

function coversHost(host: string, given: string): boolean {
  return host === given || (host.startsWith('*.') && given.endsWith(host.slice(1)));
}

function coversHeaders(one: RuleMatch['header'] = {}, other: RuleMatch['header'] = {}): boolean {
  const given = new Map(Object.entries(other).map(([name, value]) => [name.toLowerCase(), value]));
  return Object.entries(one).every(([name, value]) => {
    const found = given.get(name.toLowerCase());
    return found !== undefined && (value === '*' || found === value);
  });
}
