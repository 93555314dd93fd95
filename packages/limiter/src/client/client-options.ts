import { systemClock, type Clock } from '../clock.ts';
import { LimiterError, show } from '../errors.ts';
import { requireOptionNames } from '../options.ts';
import { timerSleep, type Sleep } from './sleep.ts';

/** `fetch`, as browsers, Node.js and edge runtimes have it. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A request that a server refused. */
export interface RefusedRequest {
  readonly url: string;
  readonly method: string;
  readonly status: number;
}

/** A request that is about to wait before it is sent again. */
export interface Retry extends RefusedRequest {
  /** 1 before the first retry. */
  readonly retry: number;
  readonly waitMs: number;
}

export interface PoliteFetchOptions {
  /** What sends the requests. Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** How often one call may be sent again, 0 to 100. Default: 3. */
  readonly maxRetries?: number | undefined;
  /** How long one call may wait in total, all its waits together, at most a day. Default: 60,000. */
  readonly maxWaitMs?: number | undefined;
  /** Statuses that mean "later", when they come with a wait. Default: `[429, 503]`. */
  readonly statuses?: readonly number[] | undefined;
  /** Up to what share of a wait is added at random, 0 to 1; twice as much with each retry. Default: 0.25. */
  readonly jitter?: number | undefined;
  /**
   * Spreads what is left over the time until there is more, and holds requests back that would be refused. `true`
   * begins when less than a quarter of the quota is left, a number from 0 to 1 at that share of it. Default: false.
   */
  readonly pace?: boolean | number | undefined;
  /** Which requests share their limits; only `pace` looks at it. Default: the origin of the URL. */
  readonly partition?: ((url: URL) => string) | undefined;
  /** Whether a refused request may be sent again. Default: after a 429 always, else only idempotent methods. */
  readonly mayRepeat?: ((refused: RefusedRequest) => boolean) | undefined;
  /** How much of a body inside a `Request` is kept in case it has to be sent again. Default: 1 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** How many calls may wait at the same time; one more does not wait. Default: 1000. */
  readonly maxWaiting?: number | undefined;
  /** Called before a refused request waits to be sent again. What it throws is reported, and changes nothing. */
  readonly onRetry?: ((retry: Retry) => unknown) | undefined;
  /** Microseconds since 1970. Default: the machine's clock. */
  readonly clock?: Clock | undefined;
  /** Resolves after some milliseconds, or earlier when the signal is aborted. Default: a timer. */
  readonly sleep?: Sleep | undefined;
  /** A number from 0 to 1, for `jitter`. Default: `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** All options, with their defaults. */
export interface ClientSettings {
  readonly fetch: Fetch;
  readonly maxRetries: number;
  readonly maxWaitMs: number;
  readonly statuses: readonly number[];
  readonly jitter: number;
  /** Below which share of a quota to spread; undefined: nothing is paced. */
  readonly paceShare: number | undefined;
  readonly partition: (url: URL) => string;
  readonly mayRepeat: (refused: RefusedRequest) => boolean;
  readonly maxBodyBytes: number;
  readonly maxWaiting: number;
  readonly onRetry: ((retry: Retry) => unknown) | undefined;
  readonly clock: Clock;
  readonly sleep: Sleep;
  readonly random: () => number;
}

const OPTIONS: readonly (keyof PoliteFetchOptions)[] = [
  'fetch',
  'maxRetries',
  'maxWaitMs',
  'statuses',
  'jitter',
  'pace',
  'partition',
  'mayRepeat',
  'maxBodyBytes',
  'maxWaiting',
  'onRetry',
  'clock',
  'sleep',
  'random',
];

const FUNCTIONS = ['fetch', 'partition', 'mayRepeat', 'onRetry', 'clock', 'sleep', 'random'] as const;
const TOO_MANY_REQUESTS = 429;
const DEFAULT_STATUSES: readonly number[] = [TOO_MANY_REQUESTS, 503];
const DEFAULT_PACE = 0.25;

/** Every mistake in the options shows here. */
export function acceptOptions(options: PoliteFetchOptions): ClientSettings {
  requireOptionNames('The options of politeFetch()', options, OPTIONS);
  for (const name of FUNCTIONS) requireFunction(name, options[name]);
  return {
    // Looked up with each call, as `fetch()` in a program is: what replaces the global later is meant too.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    maxRetries: integer('maxRetries', options.maxRetries ?? 3, 100),
    maxWaitMs: number('maxWaitMs', options.maxWaitMs ?? 60_000, 86_400_000),
    statuses: acceptStatuses(options.statuses ?? DEFAULT_STATUSES),
    jitter: number('jitter', options.jitter ?? 0.25, 1),
    paceShare: acceptPace(options.pace ?? false),
    partition: options.partition ?? ((url) => url.origin),
    mayRepeat: options.mayRepeat ?? mayRepeat,
    maxBodyBytes: integer('maxBodyBytes', options.maxBodyBytes ?? 2 ** 20, 2 ** 30),
    maxWaiting: integer('maxWaiting', options.maxWaiting ?? 1000, 1_000_000),
    onRetry: options.onRetry,
    clock: options.clock ?? systemClock,
    sleep: options.sleep ?? timerSleep,
    random: options.random ?? Math.random,
  };
}

/** RFC 9110 §9.2.2. */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/** A 429 means that nothing was done; after any other status part of the work may have been. */
function mayRepeat({ method, status }: RefusedRequest): boolean {
  return status === TOO_MANY_REQUESTS || IDEMPOTENT.has(method);
}

function acceptPace(pace: unknown): number | undefined {
  if (pace === false) return undefined;
  if (pace === true) return DEFAULT_PACE;
  if (typeof pace === 'number' && pace > 0 && pace <= 1) return pace;
  return invalid(`pace is ${show(pace)}; expected true, false, or a share of the quota above 0 and up to 1.`);
}

function acceptStatuses(statuses: unknown): readonly number[] {
  if (Array.isArray(statuses) && statuses.length > 0 && statuses.every(isErrorStatus)) return [...statuses];
  return invalid(
    `statuses is ${show(statuses)}; expected a list of statuses from 400 to 599, such as [429].`,
  );
}

function isErrorStatus(status: unknown): status is number {
  return typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599;
}

function integer(name: string, value: unknown, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most) return value;
  return invalid(`${name} is ${show(value)}; expected an integer from 0 to ${most}.`);
}

function number(name: string, value: unknown, most: number): number {
  if (typeof value === 'number' && value >= 0 && value <= most) return value;
  return invalid(`${name} is ${show(value)}; expected a number from 0 to ${most}.`);
}

function requireFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') {
    invalid(`${name} is ${show(value)}; expected a function.`);
  }
}

function invalid(message: string): never {
  throw new LimiterError('INVALID_OPTION', message);
}
