import { LimiterError } from '../errors.ts';
import { HttpLimiter } from '../http/http-limiter.ts';
import { acceptPolicies, requireFunction, type RateLimitOptions } from '../http/rate-limit-options.ts';
import { holdUntilEnd, needsPeer, passOn, refusal, checkExchange, withHeaders } from './fetch-exchange.ts';

export interface FetchRateLimitOptions<Asked, Platform> extends RateLimitOptions<Asked> {
  /**
   * Tells the address at the other end of the socket, from the request or from what the platform hands over with it:
   * `(request) => request.headers.get('cf-connecting-ip')`. Default: unknown, and then it is an error to count by
   * addresses.
   */
  readonly peer?: ((request: Asked, platform: Platform) => string | null | undefined) | undefined;
}

/** What a handler may return. Where nothing means that the request goes on, as in Next.js, nothing stays nothing. */
export type Answered = Response | null | undefined | void;

/** What a handler gets beside the request. The platform comes first if `peer` asks it. */
export type BesideRequest<Platform> = unknown extends Platform
  ? readonly unknown[]
  : readonly [Platform, ...unknown[]];

/** Wraps a handler: the same function, behind the limits. */
export type FetchRateLimit<Asked, Platform> = <
  Given extends Asked,
  Rest extends BesideRequest<Platform>,
  Result extends Answered,
>(
  handler: (request: Given, ...rest: Rest) => Result | Promise<Result>,
) => (request: Given, ...rest: Rest) => Promise<Result | Response>;

/**
 * Limits what a `fetch` handler gets: any function of a `Request` that returns a `Response`.
 *
 * @example
 * const limit = rateLimit({ limiter: createLimiter(), policies: api, key: { header: 'x-api-key' } });
 * export default { fetch: limit((request) => new Response('hello')) };
 */
export function rateLimit<Asked extends Request = Request, Platform = unknown>(
  options: FetchRateLimitOptions<Asked, Platform>,
): FetchRateLimit<Asked, Platform>;
// What `peer` wants to know of the platform is a matter of types: it gets whatever comes with the request.
export function rateLimit(
  options: FetchRateLimitOptions<Request, unknown>,
): FetchRateLimit<Request, unknown> {
  const limiter = new HttpLimiter(options, ['peer']);
  const findPeer = peerFinder(options);
  return <Given extends Request, Rest extends readonly unknown[], Result extends Answered>(
    handler: (request: Given, ...rest: Rest) => Result | Promise<Result>,
  ) =>
    async (request: Given, ...rest: Rest): Promise<Result | Response> => {
      const outcome = await checkExchange(limiter, request, {
        request,
        peer: () => findPeer(request, rest[0]),
      });
      if (!outcome.passes) return refusal(request, outcome.answer);
      return holdUntilEnd(request, outcome.onEnd, async (watch) => {
        const result = await passOn<Result | Response>(request, outcome.headers, {
          proceed: () => handler(request, ...rest),
          tell: (answered, headers) => (answered ? withHeaders(answered, headers) : answered),
        });
        return result ? watch(result) : result;
      });
    };
}

function peerFinder(
  options: FetchRateLimitOptions<Request, unknown>,
): (request: Request, platform: unknown) => string | undefined {
  const { peer } = options;
  requireFunction('peer', peer);
  if (peer !== undefined) return (request, platform) => peer(request, platform) ?? undefined;
  const isNeeded = needsPeer(options);
  if (isNeeded && countsByAddress(options)) throw unknownPeer();
  return () => {
    // Only a function that chooses policies can bring this about.
    if (isNeeded) throw unknownPeer();
    return undefined;
  };
}

/** As far as it can be seen before a request comes. */
function countsByAddress({
  policies,
  key: common = 'address',
  missingKey,
}: FetchRateLimitOptions<Request, unknown>): boolean {
  if (missingKey === 'address') return true;
  if (typeof policies === 'function') return false;
  return acceptPolicies(policies).some(({ key = common }) => [key].flat().includes('address'));
}

function unknownPeer(): LimiterError {
  return new LimiterError(
    'UNKNOWN_PEER',
    "Clients are to be counted by their address, which a fetch handler is not told: set peer to a function that knows it, such as (request) => request.headers.get('cf-connecting-ip') on Cloudflare, or clientAddress to { trustedProxies: { hops: 1 } } behind one proxy, or key to something else.",
  );
}
