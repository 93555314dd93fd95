import { validateHeaderName, validateHeaderValue } from 'node:http';
import { LimiterError, show } from '../errors.ts';
import type { HttpAnswer } from '../http/answer.ts';
import { addressKeyOf, HttpLimiter } from '../http/http-limiter.ts';
import { writeHeaders } from '../http/place-headers.ts';
import { requireRateLimitOptions, type RateLimitOptions } from '../http/rate-limit-options.ts';
import {
  asError,
  admitThenProceed,
  joinedLines,
  type CallbackExchange,
  type NodeConnection,
  type NodeRequest,
} from './node-exchange.ts';

/**
 * What the functions of the options know of a request if they do not name its type: `(request: FastifyRequest) => …`.
 */
export interface LimitedRequest {
  readonly raw: NodeRequest;
  readonly id: string;
  readonly method: string;
  readonly url: string;
  readonly ip: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly params: unknown;
  readonly query: unknown;
  /** Known from `preValidation` on. */
  readonly body: unknown;
  readonly is404: boolean;
  readonly routeOptions: { readonly url: string | undefined; readonly config: object };
}

/** What is used of a `FastifyReply`. */
export interface LimitedReply {
  readonly raw: NodeConnection;
  getHeader(name: string): number | string | readonly string[] | undefined;
  header(name: string, value: string): unknown;
  code(status: number): unknown;
  send(body: Uint8Array): unknown;
}

/** Where a context keeps its last registration. Contexts inherit it from the one around them, as they do hooks. */
const REGISTRATION: unique symbol = Symbol('spillgate.registration');

/** What is used of a `FastifyInstance`: a context, whose hooks its children inherit. */
export interface FastifyContext {
  /** @internal */
  [REGISTRATION]?: object;
  addHook(name: string, hook: (...given: never) => void): unknown;
}

export interface FastifyRateLimitOptions<Request> extends RateLimitOptions<Request> {
  /**
   * When a request is checked: before anything is read of it, or as soon as its body is parsed (`preValidation`) or
   * valid (`preHandler`). Default: `'onRequest'`.
   */
  readonly hook?: Hook | undefined;
}

/** What a route changes for itself: `config: { rateLimit: { cost: 5 } }`. `false` instead switches its limits off. */
export type RouteRateLimit<Request = LimitedRequest> = Partial<
  Omit<RateLimitOptions<Request>, 'onProxyWarning'>
>;

/** A plugin for `app.register()`. It limits the context that it is registered in, and the children of that. */
export type FastifyRateLimit = (context: FastifyContext, options: unknown, done: () => void) => void;

type Hook = (typeof HOOKS)[number];
const HOOKS = ['onRequest', 'preValidation', 'preHandler'] as const;

/**
 * Limits the requests of a Fastify application, of a context or of a route.
 *
 * @example
 * app.register(rateLimit({ limiter: createLimiter(), policies: api }));
 */
export function rateLimit<Request extends LimitedRequest = LimitedRequest>(
  options: FastifyRateLimitOptions<Request>,
): FastifyRateLimit {
  requireCalled(options);
  requireRateLimitOptions(options, ['hook']);
  const { hook = 'onRequest', ...registered } = options;
  requireHook(hook);
  const limits = new FastifyRouteLimits(registered);
  const plugin: FastifyRateLimit = (context, _, done) => {
    limitContext(context, hook, limits);
    done();
  };
  return Object.assign(plugin, PLUGIN_FACTS);
}

/**
 * What `fastify-plugin` would say of it: its hooks belong to the context that registers it, not to one of their own.
 */
const PLUGIN_FACTS = {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'spillgate',
  [Symbol.for('plugin-meta')]: { name: 'spillgate', fastify: '>=5.0.0' },
};

function limitContext<Request extends LimitedRequest>(
  context: FastifyContext,
  hook: Hook,
  limits: FastifyRouteLimits<Request>,
): void {
  const registration = {};
  const limiterOf = (routeContext: FastifyContext, config?: object): HttpLimiter<Request> | undefined =>
    limits.of(config, routeContext[REGISTRATION] === registration);
  // `reply.callNotFound()` runs the preHandler hooks once more, for a request that has paid.
  const checked = hook === 'preHandler' ? new WeakSet<Request>() : undefined;

  context[REGISTRATION] = registration;
  // Only to see mistakes early. A route that was declared before this plugin was loaded is not seen here.
  context.addHook('onRoute', (route: { readonly config?: object }) => void limiterOf(context, route.config));
  context.addHook(
    hook,
    function limit(this: FastifyContext, request: Request, reply: LimitedReply, done: Done): void {
      if (checked?.has(request) === true) return done();
      checked?.add(request);
      const exchange = new FastifyExchange(request, reply, done);
      let limiter;
      try {
        limiter = limiterOf(this, request.routeOptions.config);
      } catch (error) {
        return exchange.fail(error);
      }
      if (limiter === undefined) return done();
      admitThenProceed(limiter, request, exchange);
    },
  );
}

type Done = (error?: Error) => void;

/** The limits that were registered, and what routes make of them. */
class FastifyRouteLimits<Request> {
  private readonly options: RateLimitOptions<Request>;
  private readonly limiter: HttpLimiter<Request>;
  /** One per object that routes have as `config.rateLimit`. */
  private readonly ofRoutes = new WeakMap<object, HttpLimiter<Request>>();

  constructor(options: RateLimitOptions<Request>) {
    // Shared by all routes, so that a proxy that is not trusted is warned of once.
    this.options = { ...options, clientAddress: addressKeyOf(options) };
    this.limiter = new HttpLimiter(this.options);
  }

  /** Undefined for a route without limits. Its options are for the closest registration; the ones around it stay. */
  of(config: object = {}, isClosest: boolean): HttpLimiter<Request> | undefined {
    const own: unknown = 'rateLimit' in config ? config.rateLimit : undefined;
    if (own === false) return undefined;
    if (own === undefined || !isClosest) return this.limiter;
    if (typeof own !== 'object' || own === null) {
      throw new LimiterError(
        'INVALID_OPTION',
        `config.rateLimit of a route is ${show(own)}; expected options such as { cost: 5 }, or false for no limits.`,
      );
    }
    const limiter = this.ofRoutes.get(own) ?? new HttpLimiter({ ...this.options, ...own });
    this.ofRoutes.set(own, limiter);
    return limiter;
  }
}

class FastifyExchange implements CallbackExchange {
  readonly incoming: NodeRequest;
  readonly connection: NodeConnection;
  private readonly reply: LimitedReply;
  private readonly done: Done;

  constructor(request: LimitedRequest, reply: LimitedReply, done: Done) {
    this.incoming = request.raw;
    this.connection = reply.raw;
    this.reply = reply;
    this.done = done;
  }

  get(name: string): string | undefined {
    return joinedLines(this.reply.getHeader(inLowerCase(name)));
  }

  set(name: string, value: string): void {
    this.reply.header(inLowerCase(name), value);
  }

  send({ status, headers, body }: HttpAnswer): void {
    // Fastify looks at headers when it writes them. That is too late: a broken one must not go out as a denial.
    for (const [name, value] of headers) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
    writeHeaders(this, headers);
    this.reply.code(status);
    // As bytes: to text that is JSON Fastify adds a charset, which JSON does not have (RFC 8259 §11).
    this.reply.send(new TextEncoder().encode(body));
  }

  proceed(): void {
    this.done();
  }

  fail(error: unknown): void {
    this.done(asError(error));
  }
}

/**
 * Fastify keeps headers in lower case, and making it so costs more than all else about a header; other names it turns
 * itself. Spelled out: comparing literals takes less time than looking them up.
 */
function inLowerCase(name: string): string {
  switch (name) {
    case 'RateLimit':
      return 'ratelimit';
    case 'RateLimit-Policy':
      return 'ratelimit-policy';
    case 'X-RateLimit-Limit':
      return 'x-ratelimit-limit';
    case 'X-RateLimit-Remaining':
      return 'x-ratelimit-remaining';
    case 'X-RateLimit-Reset':
      return 'x-ratelimit-reset';
    default:
      return name;
  }
}

/** People used to other plugins write `register(rateLimit, options)`. Then Fastify calls it, with its instance. */
function requireCalled(options: unknown): void {
  if (typeof options !== 'object' || options === null || !('addHook' in options)) return;
  throw new LimiterError(
    'INVALID_OPTION',
    'rateLimit was registered itself; register what it returns: app.register(rateLimit({ limiter, policies })).',
  );
}

function requireHook(hook: string): void {
  if (HOOKS.some((known) => known === hook)) return;
  throw new LimiterError(
    'INVALID_OPTION',
    `hook is ${show(hook)}; choose one of ${HOOKS.map(show).join(', ')}.`,
  );
}
