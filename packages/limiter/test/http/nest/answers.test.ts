// What a refused request gets, who may change that, and what happens outside of HTTP.
import {
  Catch,
  HttpCode,
  HttpException,
  NotFoundException,
  Sse,
  StreamableFile,
  UseFilters,
  Controller,
  Get,
  type ArgumentsHost,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type ModuleMetadata,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { of } from 'rxjs';
import { describe, expect, test } from 'vitest';
import {
  RateLimitException,
  RateLimitFilter,
  RateLimitGuard,
  RateLimitModule,
  type NestExchange,
  type RateLimitModuleOptions,
} from '../../../src/adapters/nest.ts';
import { NestLimits } from '../../../src/adapters/nest-limits.ts';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { openRaw } from '../client.ts';
import type { RunningServer } from '../running-server.ts';
import { decorateMethod, PLATFORMS, startApplication, textController } from './application.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '10s' });

/** A filter of an application, which has one shape for all errors. */
class EnvelopeFilter implements ExceptionFilter<HttpException> {
  readonly seen: HttpException[] = [];

  catch(exception: HttpException, host: ArgumentsHost): void {
    this.seen.push(exception);
    const response = host.switchToHttp().getResponse<{
      status(code: number): { send(body: object): void };
    }>();
    response.status(exception.getStatus()).send({ envelope: exception.getResponse() });
  }
}
Catch(HttpException)(EnvelopeFilter);

describe.each(PLATFORMS)('on %s', (platform) => {
  const start = (
    options: Partial<RateLimitModuleOptions>,
    metadata: ModuleMetadata = {},
    configure?: (app: INestApplication) => void,
  ): Promise<RunningServer> => {
    const limiter = createLimiter({ clock: virtualClock() });
    const imports = [RateLimitModule.forRoot({ limiter, policies: once, ...options })];
    return startApplication(platform, { controllers: [textController('')], ...metadata, imports }, configure);
  };
  const refused = async ({ get }: RunningServer) => {
    await get();
    return get();
  };

  test('a filter for all errors of the application answers denials too, with the headers of the limit', async () => {
    const filter = new EnvelopeFilter();

    const reply = await refused(await start({}, {}, (app) => app.useGlobalFilters(filter)));

    expect(reply.status).toBe(429);
    expect(JSON.parse(reply.body)).toMatchObject({
      envelope: { status: 429, 'violated-policies': ['once'] },
    });
    expect(reply.headers).toMatchObject({ 'retry-after': '10', ratelimit: '"once";r=0;t=10' });
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(filter.seen).toMatchObject([{ answer: { status: 429 } }]);
    expect(filter.seen[0]).toBeInstanceOf(RateLimitException);
  });

  test('a filter of a route comes before the one of the module', async () => {
    const controllers = [textController('', UseFilters(EnvelopeFilter))];

    const reply = await refused(await start({}, { controllers }));

    expect(JSON.parse(reply.body)).toMatchObject({ envelope: { status: 429 } });
  });

  test('a filter that is a provider answers denials if the module is told not to', async () => {
    const providers = [{ provide: APP_FILTER, useClass: EnvelopeFilter }];

    const ours = await refused(await start({}, { providers }));
    const theirs = await refused(await start({ filter: false }, { providers }));

    expect(ours.headers['content-type']).toBe('application/problem+json');
    expect(JSON.parse(theirs.body)).toMatchObject({ envelope: { status: 429 } });
  });

  test('without any filter Nest sends the problem as JSON, and wraps text', async () => {
    const problem = await refused(await start({ filter: false }));
    const text = await refused(await start({ filter: false, answer: () => ({ body: 'Slow down.' }) }));
    const number = await refused(await start({ filter: false, answer: () => ({ body: '7' }) }));

    expect(problem.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(problem.body)).toMatchObject({ status: 429, retryAfterMs: 10_000 });
    expect(text.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(text.body)).toEqual({ statusCode: 429, message: 'Slow down.' });
    expect(JSON.parse(number.body)).toEqual({ statusCode: 429, message: '7' });
  });

  test('an answer with a type of its own has exactly that', async () => {
    const answer = () => ({ headers: { 'content-type': 'text/html' }, body: '<p>Slow down.</p>' });

    const reply = await refused(await start({ answer }));

    expect(reply).toMatchObject({ status: 429, body: '<p>Slow down.</p>' });
    expect(reply.headers['content-type']).toBe('text/html');
  });

  test('a HEAD that is refused gets the headers and no body', async () => {
    const { get } = await start({});
    await get();

    expect(await get({ method: 'HEAD' })).toMatchObject({
      status: 429,
      body: '',
      headers: { 'content-type': 'application/problem+json', 'retry-after': '10' },
    });
  });

  test('whatever a handler does, its response has the headers', async () => {
    class Various {
      events() {
        return of({ data: 'one' });
      }
      file(): StreamableFile {
        return new StreamableFile(Buffer.from('file'));
      }
      missing(): never {
        throw new NotFoundException();
      }
      empty(): void {}
    }
    decorateMethod(Various, 'events', Sse('events'));
    decorateMethod(Various, 'file', Get('file'));
    decorateMethod(Various, 'missing', Get('missing'));
    decorateMethod(Various, 'empty', Get('empty'), HttpCode(204));
    Controller()(Various);
    const key = (context: ExecutionContext): string => context.getHandler().name;
    const { get } = await start({ key }, { controllers: [Various] });

    for (const [path, status] of [
      ['/events', 200],
      ['/file', 200],
      ['/missing', 404],
      ['/empty', 204],
    ] as const) {
      const reply = await get({ path });
      expect([path, reply.status, reply.headers['ratelimit']]).toEqual([path, status, '"once";r=0;t=10']);
    }
  });

  test('a client that has gone is not served; filters see it as a 499', async () => {
    const filter = new EnvelopeFilter();
    let going: (() => void) | undefined;
    const key = async () => {
      await new Promise<void>((resolve) => (going = resolve));
      return 'ann';
    };
    const running = await start({ key }, {}, (app) => app.useGlobalFilters(filter));
    const closed = new Promise<void>((resolve) =>
      running.server.once('request', (_, response: NodeJS.EventEmitter) => response.once('close', resolve)),
    );
    const client = await openRaw(running.port, 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await expect.poll(() => going).toBeDefined();

    client.socket.destroy();
    await closed;
    going?.();

    await expect.poll(() => filter.seen.map((exception) => exception.getStatus())).toEqual([499]);
  });
});

/** A context as Nest makes it for what is not HTTP. */
function contextOf(type: string, args: readonly unknown[] = [{}, {}]): ExecutionContext {
  const context = new ExecutionContextHost([...args], Object, () => undefined);
  context.setType(type);
  return context;
}

function guard(options: Partial<RateLimitModuleOptions>): RateLimitGuard {
  const limiter = createLimiter({ clock: virtualClock() });
  return new RateLimitGuard(new NestLimits({ limiter, policies: once, ...options }));
}

test.each(['ws', 'rpc', 'graphql'])('what comes by %s is not counted', async (type) => {
  const limits = guard({ key: () => 'ann' });

  for (let call = 0; call < 3; call += 1) {
    expect(await limits.canActivate(contextOf(type))).toBe(true);
  }
});

test('an application may say where the HTTP of another context is, and count its calls one by one', async () => {
  const headers = new Map<string, string>();
  const response = {
    statusCode: 200,
    headersSent: false,
    destroyed: false,
    getHeader: (name: string) => headers.get(name),
    setHeader: (name: string, value: string) => headers.set(name, value),
    end: () => undefined,
    once: () => undefined,
  };
  const request = { headers: {}, rawHeaders: [], socket: { remoteAddress: '192.0.2.1' } };
  const exchange = (context: ExecutionContext): NestExchange | undefined =>
    context.getType<string>() === 'graphql' ? context.getArgByIndex<NestExchange>(2) : undefined;
  const limits = guard({ exchange });
  const call = () => limits.canActivate(contextOf('graphql', [{}, {}, { request, response }]));

  expect(await call()).toBe(true);
  await expect(call()).rejects.toBeInstanceOf(RateLimitException);
  expect(await limits.canActivate(contextOf('ws'))).toBe(true);
  expect(headers.get('Retry-After')).toBe('10');
});

test.each(['graphql', 'ws'])('the filter of the module leaves exceptions of %s to it', (type) => {
  const exception = new RateLimitException({ status: 429, headers: [], body: '{}' });

  expect(new RateLimitFilter().catch(exception, contextOf(type))).toBe(exception);
});

test('an exception has the answer, as an object if it is one', () => {
  const responseOf = (body: string) =>
    new RateLimitException({ status: 429, headers: [], body }).getResponse();

  expect(responseOf('{"calm":true}')).toEqual({ calm: true });
  expect(responseOf('null')).toBe('null');
  expect(responseOf('Slow down.')).toBe('Slow down.');
  expect(new RateLimitException({ status: 420, headers: [], body: '' }).getStatus()).toBe(420);
});
