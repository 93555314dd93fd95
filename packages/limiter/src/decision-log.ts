import type { DecisionSource } from './decision.ts';
import { quote } from './errors.ts';
import type { Limiter } from './limiter.ts';

export interface DecisionLogEntry {
  readonly key: string;
  readonly policy: string;
  readonly outcome: 'allowed' | 'denied';
  readonly cost: number;
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly source: DecisionSource;
}

const SHOWN_KEY_LENGTH = 128;

/** Writes one entry per decision. Returns the function that switches the log off again. */
export function logDecisions(limiter: Limiter, write: (entry: DecisionLogEntry) => void = print): () => void {
  return limiter.on('decision', ({ decision, cost }) => {
    const { key, policy, allowed, remaining, retryAfterMs, source } = decision;
    write({ key, policy, outcome: allowed ? 'allowed' : 'denied', cost, remaining, retryAfterMs, source });
  });
}

function print(entry: DecisionLogEntry): void {
  // oxlint-disable-next-line no-console -- the application asked for the log and named no other place
  console.info(formatEntry(entry));
}

/** One line, whatever bytes a client put into the key. */
export function formatEntry(entry: DecisionLogEntry): string {
  const quoted = quote(entry.key, SHOWN_KEY_LENGTH);
  const { policy, outcome, cost, remaining, retryAfterMs, source } = entry;
  return `spillgate ${outcome} policy=${policy} key=${quoted} cost=${cost} remaining=${remaining} retryAfterMs=${retryAfterMs} source=${source}`;
}
