import { expect, test, vi } from 'vitest';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import {
  HttpLimiter,
  plainProblem,
  quotaExceeded,
  type RateLimitOptions,
  type HttpRefusal,
  type HttpRequestFacts,
} from '../../../src/http/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { watchProxies } from '../../../src/http/proxy-warning.ts';
import { remoteStore } from '../../unit/remote-store.ts';

vi.mock(import('../../../src/http/proxy-warning.ts'), { spy: true });

const api = tokenBucket({ name: 'api', average: 3, period: '1m' });
const FACTS: HttpRequestFacts = { peer: '192.0.2.1', headerLines: () => [] };

function httpLimiter(options: Partial<RateLimitOptions<string>>): HttpLimiter<string> {
  return new HttpLimiter({ limiter: createLimiter({ clock: virtualClock() }), policies: api, ...options });
}

test.each([false, true])(
  'a request whose signal aborts is given up with its reason (shadow: %s)',
  async (shadow) => {
    const store = remoteStore(virtualClock());
    store.behaviour = 'hangs';
    const complaint = vi.spyOn(console, 'error').mockReturnValue();
    const limits = httpLimiter({ limiter: createLimiter({ store, deadlineMs: 60_000 }), shadow });
    const client = new AbortController();
    const ruling = limits.check('/', { ...FACTS, signal: client.signal });

    client.abort(new Error('gone'));

    await expect(ruling).rejects.toThrow('gone');
    expect(complaint).not.toHaveBeenCalled();
  },
);

test('a signal that does not abort changes nothing', async () => {
  const ruling = await httpLimiter({}).check('/', { ...FACTS, signal: new AbortController().signal });

  expect(ruling.passes).toBe(true);
});

test('every client that is counted by its address is shown to the watch for forgotten proxies', async () => {
  const seen = vi.fn<ReturnType<typeof watchProxies>>();
  const onProxyWarning = (): void => undefined;
  vi.mocked(watchProxies).mockReturnValueOnce(seen);
  const limits = httpLimiter({ onProxyWarning, key: 'address', skip: (path) => path === '/skipped' });

  await limits.check('/', FACTS);
  await limits.check('/skipped', FACTS);

  expect(vi.mocked(watchProxies)).toHaveBeenLastCalledWith(onProxyWarning);
  expect(seen.mock.calls).toEqual([[expect.objectContaining({ address: '192.0.2.1' }), FACTS]]);
});

test('an answer of your own is asked for every refusal, and told why', async () => {
  const refusals: HttpRefusal<string>[] = [];
  const store = remoteStore(virtualClock());
  store.behaviour = 'rejects';
  const answer = (refusal: HttpRefusal<string>): undefined => {
    refusals.push(refusal);
  };

  await httpLimiter({ answer, key: { header: 'x-api-key' } }).check('/a', FACTS);
  await httpLimiter({ answer, limiter: createLimiter({ store, failurePolicy: 'failClosed' }) }).check(
    '/b',
    FACTS,
  );
  await httpLimiter({ answer, cost: 4 }).check('/c', FACTS);

  expect(refusals).toMatchObject([
    { request: '/a', reason: 'noKey', decision: undefined, problem: { status: 400 } },
    { request: '/b', reason: 'unavailable', decision: { degraded: true }, problem: { status: 503 } },
    { request: '/c', reason: 'limited', decision: { allowed: false }, problem: { status: 429 } },
  ]);
});

test('a header of an answer replaces ours, in whatever case it is written', async () => {
  const ruling = await httpLimiter({
    cost: 4,
    headers: 'none',
    answer: () => ({ headers: { 'content-TYPE': 'text/html', 'X-Own': 'yes' }, body: '<p>' }),
  }).check('/', FACTS);

  expect(ruling).toEqual({
    passes: false,
    answer: {
      status: 429,
      headers: [
        ['content-TYPE', 'text/html'],
        ['X-Own', 'yes'],
      ],
      body: '<p>',
    },
  });
});

test.each([199, 600, 200.5, Number.NaN])('an answer with the status %d is refused', async (status) => {
  const ruling = httpLimiter({ cost: 4, answer: () => ({ status }) }).check('/', FACTS);

  await expect(ruling).rejects.toThrow(`answer() returned the status ${status}; expected 200 to 599`);
});

test.each([200, 599])('an answer with the status %d is sent', async (status) => {
  const ruling = await httpLimiter({ cost: 4, answer: () => ({ status }) }).check('/', FACTS);

  expect(ruling).toMatchObject({ passes: false, answer: { status } });
});

test('the problem of a cost that never fits has no wait', () => {
  const decision = createLimiter().checkSync(api.for('ann'), { cost: 4 });

  expect(decision.retryAfterMs).toBe(Infinity);
  expect(quotaExceeded(decision).retryAfterMs).toBeNull();
});

test.each([
  [400, 'Bad Request'],
  [429, 'Too Many Requests'],
  [503, 'Service Unavailable'],
  [418, 'Request Refused'],
  [507, 'Request Failed'],
])('the title of a %d is %s', (status, title) => {
  expect(plainProblem(status, 'why')).toEqual({ type: 'about:blank', title, status, detail: 'why' });
});
