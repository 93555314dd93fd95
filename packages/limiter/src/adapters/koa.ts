import { HttpLimiter } from '../http/http-limiter.ts';
import { writeHeaders, type HeaderBag } from '../http/place-headers.ts';
import type { RateLimitOptions } from '../http/rate-limit-options.ts';
import {
  admit,
  asError,
  headersOf,
  type NodeHttpExchange,
  type NodeRequest,
  type NodeResponse,
} from './node-exchange.ts';

/** What the functions of the options know of a request if they do not name its type: `(context: Context) => …`. */
export interface KoaContext {
  readonly req: NodeRequest;
  readonly res: NodeResponse;
  readonly method: string;
  readonly path: string;
  readonly ip: string;
  readonly query: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** What earlier middleware found out. */
  readonly state: object;
  status: number;
  body: unknown;
  get(name: string): string;
}

/** A middleware for Koa. */
export type KoaRateLimit<Context> = (context: Context, next: () => Promise<unknown>) => Promise<void>;

/**
 * Limits the requests of a Koa application, or those of a router or a route.
 *
 * @example
 * app.use(rateLimit({ limiter: createLimiter(), policies: api }));
 */
export function rateLimit<Context extends KoaContext = KoaContext>(
  options: RateLimitOptions<Context>,
): KoaRateLimit<Context> {
  const limiter = new HttpLimiter(options);
  return async (context, next) => {
    const told = new Set<string>();
    if (!(await isAdmitted(limiter, context, told))) return;
    try {
      await next();
    } catch (error) {
      if (error instanceof Error && told.size > 0) keepHeaders(error, context, told);
      throw error;
    }
  };
}

/** `told` gets the names of the headers that the response has from here. */
async function isAdmitted<Context extends KoaContext>(
  limiter: HttpLimiter<Context>,
  context: Context,
  told: Set<string>,
): Promise<boolean> {
  try {
    return await admit(limiter, context, exchangeWith(context, told));
  } catch (error) {
    // Koa never answers a request that failed with nothing.
    throw asError(error);
  }
}

function exchangeWith(context: KoaContext, told: Set<string>): NodeHttpExchange {
  const { req, res } = context;
  const bag = headersOf(res);
  const headers: HeaderBag = {
    get: (name) => bag.get(name),
    set: (name, value) => {
      bag.set(name, value);
      told.add(name);
    },
  };
  return {
    ...headers,
    incoming: req,
    connection: res,
    send: (answer) => {
      // The status last: what a broken header of the application throws must not go out as a denial.
      writeHeaders(headers, answer.headers);
      context.status = answer.status;
      context.body = answer.body;
    },
  };
}

/** Koa drops the headers of a response that ends in an error, but for those that the error has. */
function keepHeaders(error: Error, { res }: KoaContext, told: ReadonlySet<string>): void {
  const headers = headersOf(res);
  const kept: Record<string, string> = {};
  for (const name of told) {
    const value = headers.get(name);
    if (value !== undefined) kept[name] = value;
  }
  const own: unknown = Reflect.get(error, 'headers');
  // A new object, as the error's own may be shared. An error that cannot be changed stays as it is.
  Reflect.set(error, 'headers', { ...(typeof own === 'object' ? own : undefined), ...kept });
}
