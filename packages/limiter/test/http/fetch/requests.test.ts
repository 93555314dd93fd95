// What is known of a request: its sender, its headers, and whether anybody still waits for the answer.
import { expect, test, vi } from 'vitest';
import { rateLimit, type FetchRateLimitOptions } from '../../../src/adapters/fetch.ts';
import { createLimiter, leakyBucket, tokenBucket, type Decision } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });

type Options = FetchRateLimitOptions<Request, unknown>;

function limit(options: Partial<Options>) {
  return rateLimit({ limiter: createLimiter({ clock: virtualClock() }), policies: once, ...options });
}

/** The statuses of requests with these headers, one after the other. */
async function statuses(options: Partial<Options>, headers: readonly Record<string, string>[]) {
  const handle = limit(options)(() => new Response('hello'));
  const found: number[] = [];
  for (const each of headers)
    found.push((await handle(new Request('http://localhost/', { headers: each }))).status);
  return found;
}

test.each<[string, Partial<Options>]>([
  ['nothing else is said', {}],
  ['the key says so', { key: 'address' }],
  ['a part of the key says so', { key: [{ header: 'x-tenant' }, 'address'] }],
  ['one of the policies says so', { key: () => 'ann', policies: [once, { policy: once, key: 'address' }] }],
  ['addresses stand in for a missing key', { key: () => 'ann', missingKey: 'address' }],
  ['proxies are trusted by their address', { clientAddress: { trustedProxies: 'private' } }],
  ['a list of proxies is trusted', { clientAddress: { trustedProxies: ['10.0.0.0/8'] } }],
  ['no proxy is trusted', { clientAddress: { trustedProxies: { hops: 0 } } }],
  ['only the prefix is chosen', { clientAddress: { ipv6Prefix: 56 } }],
])('counting by addresses that nobody knows is a mistake that shows at start: %s', (_, options) => {
  expect(() => limit(options)).toThrow(expect.objectContaining({ code: 'UNKNOWN_PEER' }));
});

test.each<[string, Partial<Options>]>([
  ['a header', { key: { header: 'x-api-key' } }],
  ['a function', { key: () => 'ann' }],
  ['several of these', { key: [{ header: 'x-api-key' }, () => 'ann'] }],
  ['policies that each have a key', { policies: { policy: once, key: () => 'ann' } }],
  ['policies of a function that each have a key', { policies: () => ({ policy: once, key: () => 'ann' }) }],
  ['a function that finds the address', { clientAddress: () => '192.0.2.1' }],
  ['a platform that knows the address', { peer: () => '192.0.2.1' }],
])('nobody needs the address for %s', async (_, options) => {
  expect(await statuses(options, [{ 'x-api-key': 'ann' }, { 'x-api-key': 'ann' }])).toEqual([200, 429]);
});

test('an address that turns out to be needed is an error, and neither a denial nor an admission', async () => {
  const handler = vi.fn<() => Response>();
  const handle = limit({ policies: () => once })(handler);

  await expect(handle(new Request('http://localhost/'))).rejects.toMatchObject({
    code: 'UNKNOWN_PEER',
    message: expect.stringContaining('set peer'),
  });
  expect(handler).not.toHaveBeenCalled();
});

test('a platform says who sent a request: by the request, or by what it hands over with it', async () => {
  const byHeader = limit({ peer: (request) => request.headers.get('cf-connecting-ip') });
  const cloudflare = byHeader(() => new Response('hello'));
  const deno = rateLimit({
    limiter: createLimiter({ clock: virtualClock() }),
    policies: once,
    peer: (_: Request, { remoteAddr }: { remoteAddr: { hostname: string } }) => remoteAddr.hostname,
  })((_request, { remoteAddr }, ...others) => Response.json([remoteAddr, others]));
  const from = (address: string) =>
    new Request('http://localhost/', { headers: { 'cf-connecting-ip': address } });
  const remote = (hostname: string) => ({ remoteAddr: { hostname } });

  expect((await cloudflare(from('192.0.2.1'))).status).toBe(200);
  expect((await cloudflare(from('192.0.2.2'))).status).toBe(200);
  expect((await cloudflare(from('192.0.2.1'))).status).toBe(429);
  expect((await deno(from(''), remote('2001:db8::1'), 7)).status).toBe(200);
  expect((await deno(from(''), remote('2001:db8::2'), 7)).status).toBe(429); // the same network
  expect((await deno(from(''), remote('2001:db8:1::'), 7)).status).toBe(200);
});

test.each([null, undefined])(
  'a platform that answers %s for once leaves the client unknown',
  async (address) => {
    const handle = limit({ peer: () => address })(() => new Response('hello'));

    const response = await handle(new Request('http://localhost/'));

    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ detail: 'The address of the client is unknown.' });
  },
);

test('the platform is asked only if somebody is counted by the address', async () => {
  const peer = vi.fn<() => string>().mockReturnValue('192.0.2.1');
  const keys = [{ 'x-api-key': 'ann' }, {}];

  await statuses({ peer, key: { header: 'x-api-key' } }, keys);
  expect(peer).not.toHaveBeenCalled();
  expect(await statuses({ peer, key: { header: 'x-api-key' }, missingKey: 'address' }, keys)).toEqual([
    200, 200,
  ]);
  expect(peer).toHaveBeenCalledOnce();
});

test('behind a known number of proxies the header is enough, and a request without it is refused', async () => {
  const options = { clientAddress: { trustedProxies: { hops: 1 } } };
  const from = (line: string) => ({ 'x-forwarded-for': line });

  expect(
    await statuses(options, [
      from('192.0.2.1'),
      from('6.6.6.6, 192.0.2.1'),
      from('192.0.2.1, 192.0.2.2'),
      {},
    ]),
  ).toEqual([200, 429, 200, 400]);
});

test('a comma in quotes does not end an entry of Forwarded', async () => {
  const options = { clientAddress: { trustedProxies: { hops: 1 }, source: 'forwarded' } } as const;

  expect(
    await statuses(options, [
      { forwarded: 'for=192.0.2.9, for=192.0.2.1;by="a, for=192.0.2.2"' },
      { forwarded: 'for=192.0.2.1' },
      { forwarded: 'for=192.0.2.2' },
    ]),
  ).toEqual([200, 429, 200]);
});

test('a key that may be two is refused; a comma alone is part of it', async () => {
  const options = { key: { header: 'x-api-key' } };

  expect(await statuses(options, [{ 'x-api-key': 'a, b' }, { 'x-api-key': 'a,b' }])).toEqual([400, 200]);
});

test.each([7, null, 'address'])('a peer of %s is a mistake', (peer) => {
  expect(() => limit({ peer: peer as unknown as () => string })).toThrow('peer is');
});

test('an option that is not known is a mistake', () => {
  expect(() => limit({ getConnInfo: () => undefined } as Partial<Options>)).toThrow('getConnInfo');
});

test('a client that has gone when the decision comes is not served', async () => {
  const client = new AbortController();
  const handler = vi.fn<() => Response>();
  const handle = limit({ key: () => 'ann', limiter: slow(() => client.abort()) })(handler);

  const response = await handle(new Request('http://localhost/', { signal: client.signal }));

  expect(response.status).toBe(499);
  expect(handler).not.toHaveBeenCalled();
});

test('what goes wrong for a client that has gone is not an error any more', async () => {
  const client = new AbortController();
  const handler = vi.fn<() => Response>();
  const broken = slow(() => {
    client.abort();
    client.signal.throwIfAborted();
  });
  const handle = limit({ key: () => 'ann', limiter: broken })(handler);

  const response = await handle(new Request('http://localhost/', { signal: client.signal }));

  expect(response.status).toBe(499);
  expect(handler).not.toHaveBeenCalled();
});

test('a client that has gone spends nothing of a store that has not been asked yet', async () => {
  const limiter = createLimiter({ clock: virtualClock() });
  const handle = limit({ key: () => 'ann', limiter })(() => new Response('hello'));

  const gone = await handle(new Request('http://localhost/', { signal: AbortSignal.abort() }));

  expect(gone.status).toBe(499);
  expect((await limiter.peek(once.for('ann'))).remaining).toBe(1);
});

test('who waits for a turn leaves nothing behind at the signal', async () => {
  const queue = leakyBucket({ name: 'queue', average: 2, period: '1s', maxDelay: '1s' });
  const handle = limit({ key: () => 'ann', policies: queue, limiter: createLimiter() })(
    () => new Response('hello'),
  );
  const request = new Request('http://localhost/');
  const added = vi.spyOn(request.signal, 'addEventListener');
  const removed = vi.spyOn(request.signal, 'removeEventListener');
  const turns = (calls: readonly unknown[][]) => calls.map(([, listener]) => listener);

  const responses = [await handle(request), await handle(request)];

  expect(responses.map(({ status }) => status)).toEqual([200, 200]);
  expect(added).toHaveBeenCalled();
  expect(turns(removed.mock.calls)).toEqual(turns(added.mock.calls));
});

/** A limiter that does something between the question and the answer. */
function slow(meanwhile: () => void): Options['limiter'] {
  const inner = createLimiter({ clock: virtualClock() });
  return {
    async check(limits): Promise<Decision> {
      const decision = await inner.check(limits);
      meanwhile();
      return decision;
    },
  };
}
