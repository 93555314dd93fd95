import { HttpLimiter } from '../http/http-limiter.ts';
import type { RateLimitOptions } from '../http/rate-limit-options.ts';
import {
  asError,
  admitThenProceed,
  NodeExchange,
  type CallbackExchange,
  type NodeRequest,
  type NodeResponse,
} from './node-exchange.ts';

/** What the functions of the options know of a request if they do not name its type: `(request: Request) => …`. */
export interface ExpressRequest extends NodeRequest {
  readonly ip?: string | undefined;
  readonly path: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  get(name: string): string | undefined;
}

/** A middleware for Express 4 and 5, and for whatever else takes `(request, response, next)`. */
export type ExpressRateLimit<Request> = (
  request: Request,
  response: NodeResponse,
  next: (error?: unknown) => void,
) => void;

/**
 * Limits the requests of an Express application, of a router or of a route.
 *
 * @example
 * app.use(rateLimit({ limiter: createLimiter(), policies: api }));
 */
export function rateLimit<Request extends NodeRequest = ExpressRequest>(
  options: RateLimitOptions<Request>,
): ExpressRateLimit<Request> {
  const limiter = new HttpLimiter(options);
  return (request, response, next) =>
    admitThenProceed(limiter, request, new ExpressExchange(request, response, next));
}

class ExpressExchange extends NodeExchange implements CallbackExchange {
  private readonly next: (error?: unknown) => void;

  constructor(request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void) {
    super(request, response);
    this.next = next;
  }

  proceed(): void {
    this.next();
  }

  fail(error: unknown): void {
    this.next(asError(error));
  }
}
