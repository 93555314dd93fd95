import type { Config } from '../config/config.ts';
import type { RuleOutcome } from './rule-outcome.ts';
import type { RequestFacts } from './request-facts.ts';

/** One line of the decision log. */
export interface DecisionRecord {
  readonly id: string;
  readonly outcome: 'allowed' | 'denied' | 'wouldDeny';
  readonly reason: RuleOutcome['detail']['reason'];
  readonly rule: string | undefined;
  readonly policy: string | undefined;
  /** Printable and of limited length, whatever the client sent; secrets are hashed. */
  readonly keys: readonly string[];
  readonly limit: number | undefined;
  readonly remaining: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly source: string | undefined;
  readonly method: string;
  readonly path: string;
}

export type DecisionListener = (record: DecisionRecord) => void;

const SHOWN_LENGTH = 128;
/** Everything that moves a cursor, breaks a line or turns the direction of a text. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** Tells the listener what the configuration wants to be told. */
export function decisionLog(
  level: Config['logging']['decision_log'],
  listener: DecisionListener | undefined,
): (request: RequestFacts, ruling: RuleOutcome) => void {
  if (listener === undefined || level === 'off') return () => undefined;
  return (request, ruling) => {
    const outcome = outcomeOf(ruling);
    if (level === 'all' || outcome !== 'allowed') listener(recordOf(request, ruling, outcome));
  };
}

function outcomeOf({ admitted, detail }: RuleOutcome): DecisionRecord['outcome'] {
  if (!admitted) return 'denied';
  if (detail.shadowResult !== undefined) return 'wouldDeny';
  if (!detail.shadow) return 'allowed';
  const refused = detail.decision?.allowed === false || REFUSING.has(detail.reason);
  return refused ? 'wouldDeny' : 'allowed';
}

const REFUSING: ReadonlySet<string> = new Set(['denyList', 'missingKey']);

function recordOf(
  request: RequestFacts,
  { detail }: RuleOutcome,
  outcome: DecisionRecord['outcome'],
): DecisionRecord {
  // The one that says no is worth the line: those that said yes had nothing to say.
  const { decision, reason } = detail.shadowResult ?? detail;
  const keys = detail.shadowResult?.decision?.verdicts.map(({ key }) => key) ?? detail.keys;
  return {
    id: request.id,
    outcome,
    reason,
    rule: detail.rule,
    policy: decision?.policy,
    keys: keys.map(printable),
    limit: decision?.limit,
    remaining: decision?.remaining,
    retryAfterMs: decision?.retryAfterMs,
    source: decision?.source,
    method: printable(request.method),
    path: printable(request.path),
  };
}

function printable(text: string): string {
  const short = text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}...` : text;
  return short.replaceAll(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}
