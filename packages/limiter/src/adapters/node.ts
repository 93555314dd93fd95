import { complain } from '../events.ts';
import { HttpLimiter } from '../http/http-limiter.ts';
import { plainProblem } from '../http/problem.ts';
import type { RateLimitOptions } from '../http/rate-limit-options.ts';
import { admitThenProceed, NodeExchange, type NodeRequest, type NodeResponse } from './node-exchange.ts';

export interface NodeRateLimitOptions<Request> extends RateLimitOptions<Request> {
  /**
   * Hears of a mistake in the program, such as a key function that throws; the client gets a 500. Default: the error is
   * printed with `console.error`.
   */
  readonly onError?: ((error: unknown, request: Request) => void) | undefined;
}

/** Calls `next` when the request may go on, and otherwise answers it. */
export type NodeRateLimit<Request> = (request: Request, response: NodeResponse, next: () => unknown) => void;

/**
 * Limits the requests of a `node:http` server.
 *
 * @example
 * const limit = rateLimit({ limiter: createLimiter(), policies: api });
 * createServer((request, response) => limit(request, response, () => response.end('hello')));
 */
export function rateLimit<Request extends NodeRequest = NodeRequest>(
  options: NodeRateLimitOptions<Request>,
): NodeRateLimit<Request> {
  const limiter = new HttpLimiter(options, ['onError']);
  const { onError = (error) => complain('rateLimit()', error) } = options;
  return (request, response, next) => {
    const exchange = new NodeExchange(request, response);
    admitThenProceed(
      limiter,
      request,
      Object.assign(exchange, {
        // What the handler throws ends up where it would without a limiter.
        proceed: () => void next(),
        fail: (error: unknown) => {
          if (!response.headersSent) exchange.send(INTERNAL_ERROR);
          onError(error, request);
        },
      }),
    );
  };
}

const INTERNAL_ERROR = {
  status: 500,
  headers: [['Content-Type', 'application/problem+json']],
  body: JSON.stringify(plainProblem(500, 'The limits of this request could not be checked.')),
} as const;
