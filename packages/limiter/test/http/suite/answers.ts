import { expect, test, vi } from 'vitest';
import { createLimiter, tokenBucket, type Decision } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import type { HttpRefusal } from '../../../src/http/index.ts';
import { startServer, type Framework } from '../running-server.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '10s' });

export function answerTests<Request>(framework: Framework<Request>): void {
  const start = async (options: object) => {
    const limiter = createLimiter({ clock: virtualClock() });
    const running = await startServer<Request>(framework, { limiter, policies: once, ...options });
    await running.get();
    return running;
  };

  test('plain JSON instead of a problem', async () => {
    const { get } = await start({ answer: 'json' });

    const reply = await get();

    expect(reply.headers['content-type']).toBe('application/json');
    expect(JSON.parse(reply.body)).toEqual({
      error: 'Too Many Requests',
      message: 'The policy "once" admits this request again in 10 s.',
    });
  });

  test('an answer of your own replaces what it names, and the headers of the limit stay', async () => {
    const refusals: HttpRefusal<Request>[] = [];
    const { get } = await start({
      answer: async (refusal: HttpRefusal<Request>) => {
        refusals.push(refusal);
        return { status: 420, headers: { 'retry-after': '60', 'X-Mood': 'calm' }, body: { calm: true } };
      },
    });

    const reply = await get();

    expect(reply).toMatchObject({ status: 420, body: '{"calm":true}' });
    expect(reply.headers).toMatchObject({
      'content-type': 'application/json',
      'retry-after': '60',
      'x-mood': 'calm',
      ratelimit: '"once";r=0;t=10',
    });
    expect(refusals).toMatchObject([
      { reason: 'limited', decision: { policy: 'once' }, problem: { status: 429 } },
    ]);
  });

  test('an answer of text is text, and no answer is the default one', async () => {
    let text: string | undefined = 'Slow down.';
    const { get } = await start({ answer: () => (text === undefined ? undefined : { body: text }) });

    const worded = await get();
    text = undefined;
    const standard = await get();

    expect(worded).toMatchObject({ status: 429, body: 'Slow down.' });
    expect(worded.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(standard.headers['content-type']).toBe('application/problem+json');
  });

  test.each([
    ['a status that is none', { status: 99 }],
    ['a header that would split the response', { headers: { 'X-Bad': 'a\r\nSet-Cookie: b=c' } }],
  ])('%s in an answer is an error and neither a denial nor an admission', async (_, answer) => {
    vi.spyOn(console, 'error').mockReturnValue();
    const { get, served } = await start({ answer: () => answer });

    const reply = await get();

    expect(reply.status).toBe(500);
    expect(reply.headers).not.toHaveProperty('set-cookie');
    expect(served()).toBe(1);
  });

  test('onLimited hears of every denial, with the request', async () => {
    const heard: [string | undefined, Decision, boolean][] = [];
    const { get } = await start({
      onLimited: (limited: { request: Request; decision: Decision; shadow: boolean }) =>
        heard.push([framework.headerOf(limited.request, 'x-user'), limited.decision, limited.shadow]),
    });

    await get({ headers: { 'x-user': 'ann' } });

    expect(heard).toMatchObject([['ann', { allowed: false, policy: 'once' }, false]]);
  });

  test('onDecision hears of every decision, before the application and before the answer', async () => {
    const heard: [string | undefined, boolean, boolean][] = [];
    const servedBefore: number[] = [];
    const { get, served } = await startServer<Request>(framework, {
      limiter: createLimiter({ clock: virtualClock() }),
      policies: once,
      onDecision: ({ request, decision, shadow }) => {
        servedBefore.push(served());
        heard.push([framework.headerOf(request, 'x-user'), decision.allowed, shadow]);
      },
      answer: () => ({ body: `heard ${heard.length}` }),
    });

    const admitted = await get({ headers: { 'x-user': 'ann' } });
    const denied = await get({ headers: { 'x-user': 'bob' } });

    expect(admitted.status).toBe(200);
    expect(denied).toMatchObject({ status: 429, body: 'heard 2' });
    expect(heard).toEqual([
      ['ann', true, false],
      ['bob', false, false],
    ]);
    expect(servedBefore).toEqual([0, 1]);
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('a listener that %s is reported and changes nothing', async (_, listener) => {
    const complaint = vi.spyOn(console, 'error').mockReturnValue();
    const limited = await start({ onLimited: listener });
    const decided = await start({ onDecision: listener });

    expect((await limited.get()).status).toBe(429);
    expect((await decided.get()).status).toBe(429);
    expect(complaint).toHaveBeenCalledWith('spillgate: onLimited failed:', new Error('broken'));
    expect(complaint).toHaveBeenCalledWith('spillgate: onDecision failed:', new Error('broken'));
  });

  test('other origins may read the headers when asked to', async () => {
    const { get } = await start({ exposeHeaders: true, headers: 'draft' });

    expect((await get()).headers['access-control-expose-headers']).toBe(
      'RateLimit, RateLimit-Policy, Retry-After',
    );
  });

  test('without headers a denial still says when to come back', async () => {
    const { get } = await start({ headers: 'none' });

    const { headers } = await get();

    expect(headers['retry-after']).toBe('10');
    expect(Object.keys(headers).filter((name) => name.includes('ratelimit'))).toEqual([]);
  });
}
