// Unlike the other adapters this one imports its framework, which an application has that uses it: filters know an
// exception by its class (HttpException), and decorators need `reflect-metadata` to be there before them.
import {
  Catch,
  Inject,
  Injectable,
  Module,
  type ArgumentsHost,
  type CanActivate,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  type FactoryProvider,
  type Provider,
} from '@nestjs/common';
import { requireOneOf } from '../http/rate-limit-options.ts';
import { requireOptionNames } from '../options.ts';
import {
  NestLimits,
  RateLimitException,
  sendAnswer,
  type NestRateLimitOptions,
  type NestResponse,
} from './nest-limits.ts';

export { Limit, SkipLimit, type LimitOptions } from './nest-decorators.ts';
export {
  RateLimitException,
  type NestExchange,
  type NestRateLimitOptions,
  type NestReply,
  type NestRequest,
  type NestResponse,
} from './nest-limits.ts';

export interface RateLimitModuleParts {
  /**
   * Whether every route of the application is guarded. With false, those with `@UseGuards(RateLimitGuard)` are.
   * Default: true.
   */
  readonly guard?: boolean | undefined;
  /**
   * Whether the module answers refused requests. With false that is left to the other exception filters: they get a
   * `RateLimitException`. Default: true.
   */
  readonly filter?: boolean | undefined;
}

export interface RateLimitModuleOptions extends NestRateLimitOptions, RateLimitModuleParts {}

/** Options that other providers are needed for, such as one with the configuration. */
export interface RateLimitModuleAsyncOptions extends RateLimitModuleParts {
  readonly imports?: DynamicModule['imports'];
  /** What `useFactory` gets, in this order. */
  readonly inject?: FactoryProvider['inject'];
  readonly useFactory: FactoryProvider<NestRateLimitOptions>['useFactory'];
}

/** Admits a request to its handler, or ends it with a `RateLimitException`. */
export class RateLimitGuard implements CanActivate {
  private readonly limits: NestLimits;

  constructor(limits: NestLimits) {
    this.limits = limits;
  }

  canActivate(context: ExecutionContext): Promise<boolean> {
    return this.limits.admits(context);
  }
}
Injectable()(RateLimitGuard);
Inject(NestLimits)(RateLimitGuard, undefined, 0);

/** Answers a request that was refused: the status, the type and the body that the options say. */
export class RateLimitFilter implements ExceptionFilter<RateLimitException> {
  catch(exception: RateLimitException, host: ArgumentsHost): RateLimitException | undefined {
    // Elsewhere, as in GraphQL, the answer is made of what a filter returns.
    if (host.getType() !== 'http') return exception;
    sendAnswer(host.switchToHttp().getResponse<NestResponse>(), exception.answer);
    return undefined;
  }
}
Catch(RateLimitException)(RateLimitFilter);

/**
 * Limits the requests of a NestJS application.
 *
 * @example
 * RateLimitModule.forRoot({ limiter: createLimiter(), policies: api });
 */
// oxlint-disable-next-line typescript/no-extraneous-class -- a module of Nest is a class
export class RateLimitModule {
  static forRoot({ guard, filter, ...options }: RateLimitModuleOptions): DynamicModule {
    return dynamicModule({ guard, filter }, { provide: NestLimits, useValue: new NestLimits(options) });
  }

  static forRootAsync(options: RateLimitModuleAsyncOptions): DynamicModule {
    requireOptionNames('The options of forRootAsync()', options, [
      'imports',
      'inject',
      'useFactory',
      'guard',
      'filter',
    ]);
    const { imports = [], inject = [], useFactory } = options;
    const module = dynamicModule(options, {
      provide: NestLimits,
      inject,
      useFactory: async (...injected: unknown[]) => new NestLimits(await useFactory(...injected)),
    });
    return { ...module, imports };
  }
}
Module({})(RateLimitModule);

function dynamicModule(
  { guard = true, filter = true }: RateLimitModuleParts,
  limits: Provider,
): DynamicModule {
  requireOneOf('guard', guard, [true, false]);
  requireOneOf('filter', filter, [true, false]);
  // The names that @nestjs/core exports as APP_GUARD and APP_FILTER: providers that hold for the whole application.
  const appGuard: Provider = { provide: 'APP_GUARD', useClass: RateLimitGuard };
  const appFilter: Provider = { provide: 'APP_FILTER', useClass: RateLimitFilter };
  return {
    module: RateLimitModule,
    global: true,
    providers: [limits, ...(guard ? [appGuard] : []), ...(filter ? [appFilter] : [])],
    exports: [NestLimits],
  };
}
