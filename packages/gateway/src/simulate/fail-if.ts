import type { Config } from '../config/config.ts';
import { DEFAULT_POLICY, defaultPolicy } from '../config/schema/rate-limit.ts';
import type { DenialCounts } from './denial-tally.ts';
import { keyClass, KEY_CLASSES, type KeyClass } from './key-class.ts';
import type { Replay } from './replay-log.ts';

/** A condition that cannot be understood. */
export class UnusableCondition extends Error {}

/** A condition under which a simulation counts as failed. */
export interface FailCondition {
  readonly text: string;
  /** The clients that it is about, if it is not about all. */
  readonly of: KeyClass | undefined;
  /** Why it could never hold with this configuration, which is a mistake in it. */
  readonly impossible: (config: Config, isCompared: boolean) => string | undefined;
  /** What was found, if it is more than the condition allows. */
  readonly exceeded: (replay: Replay) => string | undefined;
}

const CONDITION = /^(\w+)(?:\s+(rule|policy|key|client|plan):(\S+))?\s*(>=?)\s*(\d+(?:\.\d+)?)\s*(%)?$/;

type Measure = (replay: Replay) => Pick<DenialCounts, 'requests'> & { readonly found: number };

const NONE: DenialCounts = { requests: 0, denied: 0, wouldDeny: 0 };
const MEASURES: ReadonlyMap<string, Measure> = new Map<string, Measure>([
  ['denied', ({ tally: { total } }) => ({ requests: total.requests, found: total.denied })],
  ['wouldDeny', ({ tally: { total } }) => ({ requests: total.requests, found: total.wouldDeny })],
  [
    'newlyDenied',
    ({ tally: { total }, comparison }) => ({
      requests: total.requests,
      found: comparison?.newlyDenied.total.requests ?? 0,
    }),
  ],
  ['deniedKeys', ({ tally }) => ({ requests: tally.total.requests, found: tally.deniedKeyCount })],
  ['unreadable', ({ reading }) => ({ requests: reading.lines, found: reading.unreadable })],
]);
const OF_ONE: ReadonlySet<string> = new Set(['denied', 'wouldDeny']);

/**
 * Reads `denied > 0.1%`, `wouldDeny >= 10`, `denied rule:login > 1%`, `denied policy:api > 0`, `denied key:acme-* > 0`,
 * `denied client:10.0.0.0/8 > 0`, `denied plan:gold > 0.1%`, `newlyDenied > 0`, `deniedKeys > 5` or `unreadable > 1%`.
 * Throws `UnusableCondition`.
 */
export function failCondition(text: string): FailCondition {
  const [, name = '', scope, which = '', operator, number, percent] = CONDITION.exec(text.trim()) ?? [];
  const measure = MEASURES.get(name);
  if (measure === undefined) {
    throw new UnusableCondition(
      `"${text}" is no condition: write for example "denied > 0.1%" or "denied rule:login >= 10", with one of ${[...MEASURES.keys()].join(', ')}`,
    );
  }
  if (scope !== undefined && !OF_ONE.has(name)) {
    throw new UnusableCondition(`"${text}": only ${[...OF_ONE].join(' and ')} can be asked of one ${scope}`);
  }
  const bound = Number(number);
  const isOfClass = scope !== undefined && KEY_CLASSES.includes(scope);
  const of = isOfClass ? keyClass(scope, which) : undefined;
  if (isOfClass && of === undefined)
    throw new UnusableCondition(`"${text}": ${which} is no network, such as 10.0.0.0/8`);
  return {
    text,
    of,
    impossible(config, isCompared) {
      if (name === 'newlyDenied' && !isCompared) return `"${text}": newlyDenied needs --against`;
      const known = scope === undefined ? undefined : namesOf(config, scope);
      if (known === undefined || known.includes(which)) return undefined;
      const others = known.length === 0 ? 'none' : known.join(', ');
      return `"${text}": there is no ${scope} "${which}": the configuration has ${others}`;
    },
    exceeded(replay) {
      const { requests, found } = scope === undefined ? measure(replay) : ofOne(replay, name, scope, which);
      const value = percent === undefined ? found : requests === 0 ? 0 : (100 * found) / requests;
      const isOver = operator === '>' ? value > bound : value >= bound;
      if (!isOver) return undefined;
      return percent === undefined ? String(found) : `${value.toFixed(3)}% (${found} of ${requests})`;
    },
  };
}

/** What may be named; undefined where that is a pattern or a network. */
function namesOf({ rate_limit: limits, identity }: Config, scope: string): readonly string[] | undefined {
  switch (scope) {
    case 'rule':
      return limits.rules.map(({ name }) => name);
    case 'policy':
      return [
        ...Object.keys(limits.policies),
        ...(defaultPolicy(limits) === undefined ? [] : [DEFAULT_POLICY]),
      ];
    case 'plan':
      return Object.keys(identity.plans);
    default:
      return undefined;
  }
}

function ofOne({ tally }: Replay, name: string, scope: string, which: string): ReturnType<Measure> {
  const counts = countsOf(tally, scope, which) ?? NONE;
  const requests = scope === 'policy' ? tally.total.requests : counts.requests;
  return { requests, found: name === 'denied' ? counts.denied : counts.wouldDeny };
}

function countsOf(tally: Replay['tally'], scope: string, which: string): DenialCounts | undefined {
  if (scope === 'rule') return tally.rules.get(which);
  return scope === 'policy' ? tally.policies.get(which) : tally.classes.get(`${scope}:${which}`);
}
