// What a request costs is known when its response has ended: reserve before, give back or charge the rest after.
import { LimiterError, show } from '../errors.ts';
import { complain } from '../events.ts';
import type { Reservation } from '../reservation.ts';

/** How the response to a request ended. */
export interface EndedResponse {
  /** 499 if the client went away before there was a response; 500 if a `fetch` handler threw. */
  readonly status: number;
  /** False if it broke off: the client went away, or a stream failed. */
  readonly finished: boolean;
  /** A header of the response. */
  header(name: string): string | undefined;
}

/** A request whose reservation could not be settled: it counts in full. */
export interface UnsettledRequest<Request> {
  readonly request: Request;
  readonly error: LimiterError;
}

/** The options of `rateLimit()` about what is known after the response. */
export interface SettleOptions<Request> {
  /**
   * What a request used, an integer >= 0, known when its response has ended: `cost` is reserved before it, and the rest
   * is given back or charged after it. Default: `cost`.
   */
  readonly settle?: ((request: Request, response: EndedResponse) => number | Promise<number>) | undefined;
  /**
   * Which requests count in the end: those that failed (a status from 400), those that did not, or those of which a
   * function says true. The others get back what they spent. A response that broke off counts. Default: all.
   */
  readonly count?:
    | 'failures'
    | 'successes'
    | ((request: Request, response: EndedResponse) => boolean | Promise<boolean>)
    | undefined;
  /**
   * Hears of a request that could not be settled and so counts in full. Default: the error is printed with
   * `console.error`.
   */
  readonly onSettleError?: ((unsettled: UnsettledRequest<Request>) => unknown) | undefined;
}

/** What a reservation needs of a limiter. */
export type HttpReservation = Pick<Reservation, 'allowed' | 'decision' | 'reserved' | 'settle'>;

/** What was used, of what was reserved; undefined where everything was. */
type UsedUnits<Request> = (
  request: Request,
  response: EndedResponse,
  reserved: number,
) => number | undefined | Promise<number | undefined>;

/** The first status that says that a request failed. */
const FIRST_FAILURE = 400;
/** What nginx calls it: client closed request. */
export const CLIENT_CLOSED_REQUEST = 499;
/** A response that takes longer counts in full. */
export const RESERVED_FOR = '1h';

/** What a request has used by the options; undefined where it costs what it costs before. */
export function usedUnits<Request>({
  settle,
  count,
}: SettleOptions<Request>): UsedUnits<Request> | undefined {
  if (settle !== undefined) return async (request, response) => acceptUsed(await settle(request, response));
  if (count === undefined) return undefined;
  // What broke off counts in any case: a client must not be let off because it does not wait for its answer.
  if (count === 'failures')
    return (_, { status, finished }) => (finished && status < FIRST_FAILURE ? 0 : undefined);
  if (count === 'successes')
    return (_, { status, finished }) => (finished && status >= FIRST_FAILURE ? 0 : undefined);
  return async (request, response) => (acceptCounts(await count(request, response)) ? undefined : 0);
}

export interface Settling<Request> {
  readonly request: Request;
  readonly reservation: HttpReservation;
  readonly used: UsedUnits<Request>;
  readonly onSettleError: SettleOptions<Request>['onSettleError'];
}

/** Settles a reservation when the response has ended. Never throws: nobody waits for it. */
export async function settleResponse<Request>(
  { request, reservation, used, onSettleError }: Settling<Request>,
  response: EndedResponse,
): Promise<void> {
  try {
    const actual = await used(request, response, reservation.reserved);
    if (actual !== undefined) await reservation.settle(actual);
  } catch (cause) {
    const error = new LimiterError(
      'SETTLE_FAILED',
      `A request counts as the ${reservation.reserved} units that were reserved for it, because what it used could not be settled: ${show(messageOf(cause))}.`,
      { cause },
    );
    await report({ request, error }, onSettleError);
  }
}

async function report<Request>(
  unsettled: UnsettledRequest<Request>,
  onSettleError: SettleOptions<Request>['onSettleError'],
): Promise<void> {
  if (onSettleError === undefined) return complain('settling a request', unsettled.error);
  try {
    await onSettleError(unsettled);
  } catch (error) {
    complain('onSettleError', error);
  }
}

function messageOf(cause: unknown): unknown {
  return cause instanceof Error ? cause.message : cause;
}

function acceptUsed(used: unknown): number {
  if (typeof used === 'number' && Number.isSafeInteger(used) && used >= 0) return used;
  throw new LimiterError(
    'INVALID_COST',
    `settle() returned ${show(used)}; expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}, the units that the request used`,
  );
}

function acceptCounts(counts: unknown): boolean {
  if (typeof counts === 'boolean') return counts;
  throw new LimiterError(
    'INVALID_OPTION',
    `count() returned ${show(counts)}; expected true if the request counts, else false`,
  );
}
