import { once } from 'node:events';
import { connect } from 'node:http2';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fastify, { type FastifyRequest } from 'fastify';
import { expect, onTestFinished, test, vi } from 'vitest';
import { rateLimit, type FastifyRateLimitOptions } from '../../../src/adapters/fastify.ts';
import { createLimiter, leakyBucket, type Decision, type LimiterError } from '../../../src/index.ts';
import { stoppedLimiter, times } from '../standing-clock.ts';
import { application, statuses } from './application.ts';

const one = times('one', 1);
const two = times('two', 2);

test('what a key function throws reaches the error handler of the route, as it was thrown', async () => {
  const app = application();
  const failure = Object.assign(new Error('who are you?'), { statusCode: 401 });
  const heard: unknown[] = [];
  app.register(
    rateLimit({
      limiter: stoppedLimiter(),
      policies: one,
      key: () => {
        throw failure;
      },
    }),
  );
  app.get('/', () => 'hello');
  app.register(async (child) => {
    child.setErrorHandler((error, _request, reply) => {
      heard.push(error);
      return reply.code(418).send('handled');
    });
    child.get('/child', () => 'hello');
  });

  const reply = await app.inject('/');

  expect(reply.statusCode).toBe(401);
  expect(reply.json()).toMatchObject({ message: 'who are you?' });
  expect(await app.inject('/child')).toMatchObject({ statusCode: 418, body: 'handled' });
  expect(heard).toEqual([failure]);
});

test('what is no error reaches the error handler as the cause of one', async () => {
  const app = application();
  const heard: unknown[] = [];
  const key = vi.fn<() => Promise<string>>().mockRejectedValue('broken');
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: one, key }));
  app.setErrorHandler((error, _request, reply) => {
    heard.push(error);
    return reply.code(500).send();
  });
  app.get('/', () => 'hello');

  await app.inject('/');

  expect(heard).toEqual([new Error('rateLimit() failed', { cause: 'broken' })]);
});

test('a broken header of an answer reaches the error handler, and nothing of the answer is left', async () => {
  const app = application();
  for (const [name, value] of [
    ['X-Bad', 'a\r\nb'],
    ['X Bad', 'a'],
  ] as const) {
    app.register(async (context) => {
      const answer = (): object => ({ status: 420, headers: { [name]: value } });
      context.register(rateLimit({ limiter: stoppedLimiter(), policies: one, cost: 2, answer }));
      context.setErrorHandler((error: LimiterError, _request, reply) => reply.send({ code: error.code }));
      context.get(`/${value.length}`, () => 'hello');
    });
  }

  const [byValue, byName] = [await app.inject('/4'), await app.inject('/1')];

  expect(byValue.json()).toEqual({ code: 'ERR_INVALID_CHAR' });
  expect(byName.json()).toEqual({ code: 'ERR_INVALID_HTTP_TOKEN' });
  for (const { statusCode, headers } of [byValue, byName]) {
    expect(statusCode).toBe(200); // what the error handler left it at
    expect(headers).not.toHaveProperty('retry-after');
  }
});

test('a denial passes the onSend hooks, and never the handler, however long they take', async () => {
  const app = application();
  let served = 0;
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
  app.addHook('onSend', async (_request, reply, body) => {
    await nextTurn();
    reply.header('x-frame-options', 'DENY');
    return body;
  });
  app.get('/', () => `hello ${(served += 1)}`);
  await app.inject('/');

  const denied = await app.inject('/');

  expect(denied.statusCode).toBe(429);
  expect(denied.headers).toMatchObject({
    'x-frame-options': 'DENY',
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(denied.body)),
  });
  expect(denied.json()).toMatchObject({ 'violated-policies': ['one'] });
  expect(served).toBe(1);
});

test('an answer is not put through a serializer of the application', async () => {
  const app = application();
  app.addHook('onRequest', async (_request, reply) => {
    reply.serializer((body) => `<${String(body)}>`);
  });
  app.register(
    rateLimit({ limiter: stoppedLimiter(), policies: one, cost: 2, answer: () => ({ body: 'später' }) }),
  );
  app.get('/', () => 'hello');

  expect((await app.inject('/')).body).toBe('später');
});

test('a streamed reply has the headers', async () => {
  const app = application();
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: two }));
  app.get('/', (_request, reply) => reply.send(Readable.from(['hel', 'lo'])));
  app.get('/web', (_request, reply) => reply.send(new Response('hello').body));

  for (const [url, remaining] of [
    ['/', '1'],
    ['/web', '0'],
  ] as const) {
    const reply = await app.inject(url);
    expect(reply.body).toBe('hello');
    expect(reply.headers['x-ratelimit-remaining']).toBe(remaining);
  }
});

test('what earlier hooks have put into the headers is appended to', async () => {
  const app = application();
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('RateLimit', ['"a";r=1', '"b";r=2']).header('x-ratelimit-remaining', 0);
    reply.raw.setHeader('RateLimit-Policy', '"a";q=1');
  });
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: two }));
  app.get('/', () => 'hello');

  const { headers } = await app.inject('/');

  expect(headers).toMatchObject({
    ratelimit: '"a";r=1, "b";r=2, "two";r=1;t=1800',
    'ratelimit-policy': '"a";q=1, "two";q=2;w=3600',
    'x-ratelimit-remaining': '0',
  });
  expect(headers).not.toHaveProperty('x-ratelimit-limit');
});

test.each(['preValidation', 'preHandler'] as const)(
  'a key may come from the body when the hook is %s',
  async (hook) => {
    const app = application();
    const key = ({ body }: FastifyRequest): string => (body as { user: string }).user;
    app.register(rateLimit({ limiter: stoppedLimiter(), policies: one, hook, key }));
    app.post('/', () => 'hello');
    const post = (user: string) => ({ method: 'POST', url: '/', payload: { user } }) as const;

    expect(await statuses(app, 2, post('ann'))).toEqual([200, 429]);
    expect(await statuses(app, 1, post('bob'))).toEqual([200]);
  },
);

test('the hook is the one that was chosen: what is not valid is counted before validation only', async () => {
  const body = { type: 'object', required: ['user'] };
  for (const [hook, expected] of [
    [undefined, [400, 429]],
    ['onRequest', [400, 429]],
    ['preValidation', [400, 429]],
    ['preHandler', [400, 400]],
  ] as const) {
    const app = application();
    app.register(rateLimit({ limiter: stoppedLimiter(), policies: one, hook }));
    app.post('/', { schema: { body } }, () => 'hello');

    expect(await statuses(app, 2, { method: 'POST', url: '/', payload: {} })).toEqual(expected);
  }
});

test('by default a request is denied before its body is read', async () => {
  const app = application();
  const parse = vi.fn<() => Promise<string>>().mockResolvedValue('parsed');
  app.addContentTypeParser('text/csv', parse);
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
  app.post('/', () => 'hello');
  const post = { method: 'POST', url: '/', payload: 'a,b', headers: { 'content-type': 'text/csv' } } as const;

  expect(await statuses(app, 2, post)).toEqual([200, 429]);
  expect(parse).toHaveBeenCalledOnce();
});

test('hooks that stand before it have run: a key may be what they found out', async () => {
  const app = application();
  const users = new WeakMap<FastifyRequest, string>();
  app.addHook('onRequest', async (request) => {
    users.set(request, String(request.headers['authorization']));
  });
  app.register(
    rateLimit({
      limiter: stoppedLimiter(),
      policies: one,
      key: (request: FastifyRequest) => users.get(request),
    }),
  );
  app.get('/', () => 'hello');
  const as = (authorization: string) => ({ url: '/', headers: { authorization } });

  expect(await statuses(app, 2, as('ann'))).toEqual([200, 429]);
  expect(await statuses(app, 1, as('bob'))).toEqual([200]);
});

test('inject() may say where it comes from', async () => {
  const app = application();
  app.register(rateLimit({ limiter: stoppedLimiter(), policies: one }));
  app.get('/', () => 'hello');

  expect(await statuses(app, 2, '/')).toEqual([200, 429]);
  expect(await statuses(app, 2, { url: '/', remoteAddress: '192.0.2.7' })).toEqual([200, 429]);
});

test('a request that Fastify gives up on while it waits for its turn leaves no timer behind', async () => {
  const queue = leakyBucket({ name: 'queue', average: 1, period: '1h', maxDelay: '100h' });
  const app = fastify({ handlerTimeout: 100 });
  onTestFinished(() => app.close());
  app.register(rateLimit({ limiter: createLimiter(), policies: queue }));
  app.get('/', () => 'hello');
  await app.listen({ port: 0, host: '127.0.0.1' });
  const url = app.listeningOrigin;
  const starts = vi.spyOn(globalThis, 'setTimeout');
  const stops = vi.spyOn(globalThis, 'clearTimeout');

  const [first, second] = [await fetch(url), await fetch(url)];

  expect([first.status, second.status]).toEqual([200, 503]);
  const at = starts.mock.calls.findIndex(([, delayMs = 0]) => delayMs > 3_000_000);
  await vi.waitFor(() => expect(stops).toHaveBeenCalledWith(starts.mock.results[at]?.value));
  expect(at).toBeGreaterThanOrEqual(0);
});

test('a client of HTTP/2 that goes while its limits are checked is not served', async () => {
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const inner = createLimiter();
  const check = vi.fn<FastifyRateLimitOptions<FastifyRequest>['limiter']['check']>(
    async (limits, options): Promise<Decision> => {
      if (options.cost === 2) await gate;
      return inner.check(limits, { cost: options.cost });
    },
  );
  const served: string[] = [];
  const app = fastify({ http2: true });
  onTestFinished(() => app.close());
  app.register(
    rateLimit({
      limiter: { check },
      policies: times('many', 9),
      cost: ({ url }) => (url === '/slow' ? 2 : 1),
    }),
  );
  app.get('/*', ({ url }) => served.push(url));
  const client = connect(await app.listen({ port: 0, host: '127.0.0.1' }));
  onTestFinished(() => client.destroy());

  const slow = client.request({ ':path': '/slow' });
  await vi.waitFor(() => expect(check).toHaveBeenCalledOnce());
  slow.close();
  await once(slow, 'close');
  const stayed = client.request({ ':path': '/stayed' });
  const [headers] = await once(stayed, 'response');
  open();
  await nextTurn();

  expect(headers).toMatchObject({ ':status': 200, ratelimit: '"many";r=8;t=400' });
  expect(served).toEqual(['/stayed']);
});

test('a mistake in the options throws when rateLimit() is called', () => {
  const options = { limiter: stoppedLimiter(), policies: one };
  const hook = 'onSend' as 'onRequest';

  expect(() => rateLimit({ ...options, hook })).toThrow(
    'hook is "onSend"; choose one of "onRequest", "preValidation", "preHandler".',
  );
  expect(() => rateLimit({ ...options, cost: -1 })).toThrow('cost is -1');
  expect(() => rateLimit({ ...options, max: 3 } as typeof options)).toThrow('"max"');
  expect(() => rateLimit(undefined as unknown as typeof options)).toThrow('The options of rateLimit()');
  expect(() => rateLimit(null as unknown as typeof options)).toThrow('The options of rateLimit()');
});

test('registering the function instead of what it returns is told what to write', () => {
  const app = application();

  // This is what Fastify does with what it is given.
  const load = (): unknown => rateLimit(app as never);

  expect(load).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  expect(load).toThrow('app.register(rateLimit({ limiter, policies }))');
});
