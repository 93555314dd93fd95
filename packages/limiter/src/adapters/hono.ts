import { LimiterError } from '../errors.ts';
import { HttpLimiter } from '../http/http-limiter.ts';
import { requireFunction, type RateLimitOptions } from '../http/rate-limit-options.ts';
import { holdUntilEnd, needsPeer, passOn, refusal, checkExchange, withHeaders } from './fetch-exchange.ts';

/** What the functions of the options know of a request if they do not name its type: `(context: Context<Env>) => …`. */
export interface HonoContext {
  readonly req: {
    readonly raw: Request;
    readonly method: string;
    readonly path: string;
    readonly url: string;
    header(name: string): string | undefined;
    param(name: string): string | undefined;
    query(name: string): string | undefined;
  };
  readonly env: unknown;
  get res(): Response;
  set res(response: Response | undefined);
  /** What earlier middleware found out. */
  get(name: string): unknown;
}

export interface HonoRateLimitOptions<Context> extends RateLimitOptions<Context> {
  /**
   * Tells the address at the other end of the socket: the `getConnInfo` of the platform. Default: what
   * `@hono/node-server` knows. On other platforms it is an error to count by addresses without it.
   */
  readonly getConnInfo?:
    | ((context: Context) => { readonly remote: { readonly address?: string | undefined } })
    | undefined;
}

/** A middleware for Hono. */
export type HonoRateLimit<Context> = (context: Context, next: () => Promise<void>) => Promise<void>;

/**
 * Limits the requests of a Hono application or of a route.
 *
 * @example
 * app.use(rateLimit({ limiter: createLimiter(), policies: api }));
 */
export function rateLimit<Context extends HonoContext = HonoContext>(
  options: HonoRateLimitOptions<Context>,
): HonoRateLimit<Context> {
  const limiter = new HttpLimiter(options, ['getConnInfo']);
  const findPeer = peerFinder(options);
  return async (context, next) => {
    const request = context.req.raw;
    const outcome = await checkExchange(limiter, context, { request, peer: () => findPeer(context) });
    if (!outcome.passes) return respond(context, refusal(request, outcome.answer, context.res.headers));
    await holdUntilEnd(request, outcome.onEnd, async (watch) => {
      await passOn(request, outcome.headers, {
        proceed: next,
        tell: (_, headers) => respond(context, withHeaders(context.res, headers)),
      });
      respond(context, watch(context.res));
    });
  };
}

/** Makes a response the one that is sent. */
function respond(context: HonoContext, response: Response): void {
  if (response === context.res) return;
  // Hono adds the headers of the response before to a new one, over those that it has.
  context.res = undefined;
  context.res = response;
}

function peerFinder<Context extends HonoContext>(
  options: HonoRateLimitOptions<Context>,
): (context: Context) => string | undefined {
  const { getConnInfo } = options;
  requireFunction('getConnInfo', getConnInfo);
  if (getConnInfo !== undefined) return (context) => getConnInfo(context).remote.address;
  const isNeeded = needsPeer(options);
  return ({ env }) => {
    const socket = nodeSocket(env);
    if (socket === undefined && isNeeded) throw unknownPeer();
    const address = property(socket, 'remoteAddress');
    return typeof address === 'string' ? address : undefined;
  };
}

/** `@hono/node-server` hands over the request of Node: as `env`, or below `server` where there are other bindings. */
function nodeSocket(env: unknown): unknown {
  const bindings = property(env, 'server') ?? env;
  return property(property(bindings, 'incoming'), 'socket');
}

function property(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function unknownPeer(): LimiterError {
  return new LimiterError(
    'UNKNOWN_PEER',
    'Clients are to be counted by their address, which is unknown on this platform: set getConnInfo to the one that Hono has for it, or clientAddress to { trustedProxies: { hops: 1 } } behind one proxy, or key to something else.',
  );
}
