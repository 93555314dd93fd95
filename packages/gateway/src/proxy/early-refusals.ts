import type { Config } from '../config/config.ts';
import type { RequestFacts } from '../rules/request-facts.ts';
import { refuseEarly, type EarlyReason, type Refusal } from '../rules/rule-outcome.ts';
import type { AnswerText, GatewayErrorCode } from './gateway-errors.ts';

/** Hears of what was refused before the rules, so that it can be explained later. */
export type EarlyRefusalListener = (facts: RequestFacts, refusal: Refusal, config: Config) => void;

/** An answer of our own; without a ruling, it was given before any rule was asked. */
interface SentAnswer {
  readonly name: string;
  readonly standard: Pick<AnswerText, 'status'>;
  readonly ruling: object | undefined;
  readonly request: { readonly facts: RequestFacts } | undefined;
}

const REASONS: ReadonlyMap<string, EarlyReason> = new Map<GatewayErrorCode | 'authorization', EarlyReason>([
  ['MAINTENANCE', 'maintenance'],
  ['AUTHORIZATION_UNAVAILABLE', 'authorizationUnavailable'],
  ['authorization', 'authorization'],
  ['CORS_NOT_ALLOWED', 'preflightRefused'],
]);

/** Other answers are no refusals, or about requests that cannot be understood: there is nothing to explain. */
export function tellEarlyRefusal(
  { onEarlyRefusal }: { readonly onEarlyRefusal: EarlyRefusalListener },
  { name, standard, ruling, request }: SentAnswer,
  config: Config,
): void {
  const reason = ruling === undefined ? REASONS.get(name) : undefined;
  if (reason === undefined || request === undefined) return;
  onEarlyRefusal(request.facts, refuseEarly(reason, standard.status), config);
}
