import { headerValue } from 'spillgate/http';
import type { CostConfig } from '../config/schema/cost.ts';
import { tokensOfBytes } from '../cost/token-usage.ts';
import type { KeyProblem } from './key-reader.ts';
import type { RequestFacts } from './request-facts.ts';

/** What a request spends, or what is wrong with what it says about that. */
export type CostReader = (request: RequestFacts) => number | KeyProblem;

const DIGITS = /^\d{1,15}$/;

export function costReader(config: CostConfig): CostReader {
  if (typeof config === 'number') return () => config;
  const { max } = config;
  switch (config.type) {
    case 'header':
      return headerReader(config);
    case 'requestBytes':
      return (request) => bounded(lengthOf(request) ?? config.default, max);
    default:
      return (request) => {
        const bytes = Math.max(lengthOf(request) ?? 0, request.body?.bytes ?? 0);
        const answer = request.body?.outputTokens ?? config.output_tokens;
        return bounded(tokensOfBytes(bytes) + answer, max);
      };
  }
}

/** A request with a body costs at least 1: nothing can be admitted without room for it. */
function bounded(cost: number, max: number): number {
  return Math.min(Math.max(cost, 1), max);
}

function headerReader({
  header_name: header,
  default: byDefault,
  max,
}: Extract<CostConfig, { readonly type: 'header' }>): CostReader {
  const name = header.toLowerCase();
  const wrong: KeyProblem = {
    detail: `The header "${name}" is not an integer from 1 to ${max}; it says what the request costs.`,
    missing: false,
  };
  return ({ headers }) => {
    const value = headerValue(headers.lines(name), name);
    if (typeof value !== 'string') return value.missing ? byDefault : value;
    const cost = DIGITS.test(value) ? Number(value) : 0;
    return cost >= 1 && cost <= max ? cost : wrong;
  };
}

/** As it was announced; undefined if it was not. */
function lengthOf({ headers }: RequestFacts): number | undefined {
  const [length, ...others] = headers.lines('content-length');
  return length === undefined || others.length > 0 || !DIGITS.test(length) ? undefined : Number(length);
}
