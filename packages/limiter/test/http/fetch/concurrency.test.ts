import { expect, test, vi } from 'vitest';
import { rateLimit } from '../../../src/adapters/fetch.ts';
import { concurrency, createLimiter } from '../../../src/index.ts';

const inFlight = concurrency({ name: 'in-flight', limit: 1, hold: '1h' });

function setUp(handler: (request: Request) => Response | undefined | Promise<Response | undefined>) {
  const limiter = createLimiter();
  const limit = rateLimit({ limiter, policies: inFlight, key: () => 'ann' });
  const free = async (): Promise<number> => (await limiter.peek(inFlight.for('ann'))).remaining;
  return { handle: limit(handler), free };
}

/** A body that goes on until it is told to end. */
function openBody(): {
  body: ReadableStream<Uint8Array>;
  end: () => void;
  fail: () => void;
  cancelled: unknown[];
} {
  const cancelled: unknown[] = [];
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: (reason) => void cancelled.push(reason),
  });
  controller?.enqueue(new TextEncoder().encode('some'));
  return {
    body,
    end: () => controller?.close(),
    fail: () => controller?.error(new Error('broken')),
    cancelled,
  };
}

const request = (init?: RequestInit): Request => new Request('http://localhost/', init);

test('a slot is held until the body has been read to its end', async () => {
  const { body, end } = openBody();
  const { handle, free } = setUp(() => new Response(body, { status: 201, headers: { 'X-A': 'b' } }));

  const response = await handle(request());

  expect([response?.status, response?.headers.get('X-A'), await free()]).toEqual([201, 'b', 0]);
  expect((await handle(request()))?.status).toBe(429);
  end();
  expect(await response?.text()).toBe('some');
  expect(await free()).toBe(1);
});

test('or cancelled', async () => {
  const { body, cancelled } = openBody();
  const { handle, free } = setUp(() => new Response(body));
  const response = await handle(request());

  await response?.body?.cancel('enough');

  expect([await free(), cancelled]).toEqual([1, ['enough']]);
});

test('or has failed', async () => {
  const { body, fail } = openBody();
  const { handle, free } = setUp(() => new Response(body));
  const response = await handle(request());
  fail();

  await expect(response?.text()).rejects.toThrow('broken');
  expect(await free()).toBe(1);
});

test('or its client has gone', async () => {
  const { body } = openBody();
  const { handle, free } = setUp(() => new Response(body));
  const controller = new AbortController();
  await handle(request({ signal: controller.signal }));
  expect(await free()).toBe(0);

  controller.abort();

  await vi.waitFor(async () => expect(await free()).toBe(1));
});

test('without a body it ends with the handler, also where that throws or lets the request go on', async () => {
  const empty = setUp(() => new Response(null, { status: 204 }));
  const passing = setUp(() => undefined);
  const failing = setUp(() => {
    throw new Error('broken');
  });

  expect((await empty.handle(request()))?.status).toBe(204);
  expect(await passing.handle(request())).toBeUndefined();
  await expect(failing.handle(request())).rejects.toThrow('broken');

  expect([await empty.free(), await passing.free(), await failing.free()]).toEqual([1, 1, 1]);
});

test('of an answer to HEAD nobody reads a body: it ends with the handler', async () => {
  const { handle, free } = setUp(() => new Response('some'));

  const response = await handle(request({ method: 'HEAD' }));

  expect([response?.status, await free()]).toEqual([200, 1]);
});
