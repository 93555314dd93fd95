import type { Config } from '../../config/config.ts';
import { matchedMethods, type RuleMatch } from '../../config/schema/rate-limit.ts';
import { shown } from '../../config/shown.ts';
import type { RequestFacts } from '../request-facts.ts';
import { RuleMatcher } from '../rule-matcher.ts';

/** What became of one rule when a request looked for its own. */
export interface RuleStory {
  readonly rule: string;
  readonly matched: boolean;
  /** Why it is the one, or is not. */
  readonly because: string;
}

/** Looks at every rule alone, by the same code that finds the one that holds. */
export function ruleStories({ rate_limit: limits }: Config, request: RequestFacts): readonly RuleStory[] {
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
