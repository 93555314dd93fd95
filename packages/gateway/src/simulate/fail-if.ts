import type { DenialCounts } from './denial-tally.ts';
import type { Replay } from './replay-log.ts';

/** A condition that cannot be understood. */
export class UnusableCondition extends Error {}

/** A condition under which a simulation counts as failed. */
export interface FailCondition {
  readonly text: string;
  /** What was found, if it is more than the condition allows. */
  readonly exceeded: (replay: Replay) => string | undefined;
}

const CONDITION = /^(\w+)(?:\s+(rule|policy):(\S+))?\s*(>=?)\s*(\d+(?:\.\d+)?)\s*(%)?$/;

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
 * Reads `denied > 0.1%`, `wouldDeny >= 10`, `denied rule:login > 1%`, `denied policy:api > 0`, `newlyDenied > 0`,
 * `deniedKeys > 5` or `unreadable > 1%`. Throws `UnusableCondition`.
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
  return {
    text,
    exceeded(replay) {
      const { requests, found } = scope === undefined ? measure(replay) : ofOne(replay, name, scope, which);
      const value = percent === undefined ? found : requests === 0 ? 0 : (100 * found) / requests;
      const isOver = operator === '>' ? value > bound : value >= bound;
      if (!isOver) return undefined;
      return percent === undefined ? String(found) : `${value.toFixed(3)}% (${found} of ${requests})`;
    },
  };
}

function ofOne({ tally }: Replay, name: string, scope: string, which: string): ReturnType<Measure> {
  const counts = (scope === 'rule' ? tally.rules : tally.policies).get(which) ?? NONE;
  const requests = scope === 'rule' ? counts.requests : tally.total.requests;
  return { requests, found: name === 'denied' ? counts.denied : counts.wouldDeny };
}
