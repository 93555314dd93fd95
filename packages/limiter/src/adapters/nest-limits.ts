import { validateHeaderName, validateHeaderValue } from 'node:http';
import { HttpException, type ExecutionContext } from '@nestjs/common';
import type { HttpAnswer } from '../http/answer.ts';
import { HttpLimiter } from '../http/http-limiter.ts';
import { writeHeaders, type HeaderBag } from '../http/place-headers.ts';
import {
  acceptChosen,
  acceptPolicies,
  requireCost,
  requireFunction,
  type AcceptedPolicy,
  type PolicyChoice,
  type RateLimitOptions,
} from '../http/rate-limit-options.ts';
import { inside, limitsOfRoute } from './nest-decorators.ts';
import {
  admit,
  headersOf,
  joinedLines,
  type NodeHttpExchange,
  type NodeConnection,
  type NodeRequest,
  type NodeResponse,
} from './node-exchange.ts';

/**
 * The functions of the options get the `ExecutionContext`: `(context) =>
 * context.switchToHttp().getRequest<Request>().user.id`.
 */
export interface NestRateLimitOptions extends Omit<RateLimitOptions<ExecutionContext>, 'policies'> {
  /** What every route has to meet. Default: nothing, and only what `@Limit()` names. */
  readonly policies?: RateLimitOptions<ExecutionContext>['policies'] | undefined;
  /**
   * Where the HTTP request and response of a context are; undefined for a context that is not counted. Default: those
   * of HTTP contexts, and no others.
   */
  readonly exchange?: ((context: ExecutionContext) => NestExchange | undefined) | undefined;
}

/** A request and its response, as Express or Fastify have them. */
export interface NestExchange {
  readonly request: NestRequest;
  readonly response: NestResponse;
}

export type NestRequest = NodeRequest | { readonly raw: NodeRequest };
export type NestResponse = NodeResponse | NestReply;

/** What is used of a `FastifyReply`. */
export interface NestReply {
  readonly raw: NodeConnection;
  getHeader(name: string): number | string | readonly string[] | undefined;
  header(name: string, value: string): unknown;
  code(status: number): unknown;
  send(body: Uint8Array): unknown;
}

/** What a request that does not pass ends with. Its headers are on the response already. */
export class RateLimitException extends HttpException {
  readonly answer: HttpAnswer;

  constructor(answer: HttpAnswer) {
    super(objectOrText(answer.body), answer.status);
    this.answer = answer;
  }
}

/** Nobody gets it. In the application's log it is what nginx calls it. */
const CLIENT_CLOSED_REQUEST = 499;

/** The limits of an application, and of its routes. */
export class NestLimits {
  private readonly options: NestRateLimitOptions;
  private readonly limiter: HttpLimiter<ExecutionContext>;
  /** Nest makes one context for all guards of a call. A guard that is there twice counts once. */
  private readonly counted = new WeakSet<ExecutionContext>();

  constructor(options: NestRateLimitOptions) {
    const { exchange, ...others } = options;
    const { policies, cost } = options;
    if (policies !== undefined && typeof policies !== 'function') acceptPolicies(policies);
    requireCost(cost);
    requireFunction('exchange', exchange);
    this.options = options;
    this.limiter = new HttpLimiter({
      ...others,
      policies: (context) => this.policiesOf(context),
      cost: (context) => this.costOf(context),
    });
  }

  /** Rejects with a `RateLimitException` if the request does not pass. */
  async admits(context: ExecutionContext): Promise<boolean> {
    const { exchange = exchangeOfHttp } = this.options;
    const found = exchange(context);
    if (found === undefined || this.counted.has(context)) return true;
    this.counted.add(context);
    if (await admit(this.limiter, context, exchangeWith(found))) return true;
    // There is no way out of a guard without an exception.
    throw new HttpException('The client has gone.', CLIENT_CLOSED_REQUEST);
  }

  private async policiesOf(context: ExecutionContext): Promise<readonly PolicyChoice<ExecutionContext>[]> {
    const ofRoute = limitsOfRoute(context);
    const around = ofRoute.startsAnew ? [] : await this.policiesAround(context);
    const { policies } = inside({ startsAnew: false, policies: around, cost: undefined }, ofRoute);
    return policies.map(({ policy, key }) => (key === undefined ? policy : { policy, key }));
  }

  private async policiesAround(
    context: ExecutionContext,
  ): Promise<readonly AcceptedPolicy<ExecutionContext>[]> {
    const { policies } = this.options;
    return acceptChosen(typeof policies === 'function' ? await policies(context) : policies);
  }

  private costOf(context: ExecutionContext): number | Promise<number> {
    const { cost = this.options.cost ?? 1 } = limitsOfRoute(context);
    return typeof cost === 'function' ? cost(context) : cost;
  }
}

function exchangeOfHttp(context: ExecutionContext): NestExchange | undefined {
  if (context.getType() !== 'http') return undefined;
  const http = context.switchToHttp();
  return { request: http.getRequest<NestRequest>(), response: http.getResponse<NestResponse>() };
}

function exchangeWith({ request, response }: NestExchange): NodeHttpExchange {
  const headers = bagOf(response);
  return {
    ...headers,
    incoming: 'raw' in request ? request.raw : request,
    connection: 'raw' in response ? response.raw : response,
    send: (answer) => {
      // Whatever writes the body sets the type.
      writeHeaders(
        headers,
        answer.headers.filter(([name]) => !isContentType(name)),
      );
      throw new RateLimitException(answer);
    },
  };
}

/** Sends the answer of an exception, whose other headers are there already. */
export function sendAnswer(response: NestResponse, { status, headers, body }: HttpAnswer): void {
  writeHeaders(
    bagOf(response),
    headers.filter(([name]) => isContentType(name)),
  );
  if (!('raw' in response)) {
    response.statusCode = status;
    response.end(body);
    return;
  }
  response.code(status);
  // As bytes: to text that is JSON Fastify adds a charset, which JSON does not have (RFC 8259 §11).
  response.send(new TextEncoder().encode(body));
}

function isContentType(name: string): boolean {
  return name.toLowerCase() === 'content-type';
}

function bagOf(response: NestResponse): HeaderBag {
  if (!('raw' in response)) return headersOf(response);
  return {
    get: (name) => joinedLines(response.getHeader(name)),
    set: (name, value) => {
      // Fastify looks at headers when it writes them. That is too late: a broken one must not go out as a denial.
      validateHeaderName(name);
      validateHeaderValue(name, value);
      response.header(name, value);
    },
  };
}

/** What filters of the application expect: an object if the answer is one. */
function objectOrText(body: string): object | string {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null ? parsed : body;
  } catch {
    return body;
  }
}
