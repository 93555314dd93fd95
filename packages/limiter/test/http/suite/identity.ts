import { expect, test, vi } from 'vitest';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import type { AddressFacts, RateLimitOptions } from '../../../src/http/index.ts';
import { startServer, type Framework, type RunningServer } from '../running-server.ts';

const once = tokenBucket({ name: 'once', average: 1, burst: 1, period: '1h' });
const tenant = tokenBucket({ name: 'tenant', average: 3, burst: 3, period: '1h' });

export function identityTests<Request>(framework: Framework<Request>): void {
  const start = (options: Partial<RateLimitOptions<Request>>, host?: string): Promise<RunningServer> => {
    const limiter = createLimiter({ clock: virtualClock() });
    return startServer<Request>(framework, { limiter, policies: once, ...options }, host);
  };

  test('clients are told apart by the address of their socket', async () => {
    const { statuses } = await start({});

    expect(await statuses(2, { from: '127.0.0.1' })).toEqual([200, 429]);
    expect(await statuses(2, { from: '127.0.0.2' })).toEqual([200, 429]);
  });

  test.each(['X-Forwarded-For', 'Forwarded', 'X-Real-IP', 'CF-Connecting-IP', 'X_Forwarded_For'])(
    'a %s from nobody we trust is ignored',
    async (name) => {
      const { get } = await start({ onProxyWarning: () => undefined });
      const line = (n: number): string => (name === 'Forwarded' ? `for=192.0.2.${n}` : `192.0.2.${n}`);

      expect((await get({ headers: { [name]: line(1) } })).status).toBe(200);
      expect((await get({ headers: { [name]: line(2) } })).status).toBe(429);
    },
  );

  test('behind a proxy the address is found from the peer and all lines of a header, in their order', async () => {
    const seen: [string | undefined, readonly string[]][] = [];
    const lastForwarded = ({ peer, headerLines }: AddressFacts) => {
      const lines = headerLines('x-forwarded-for');
      seen.push([peer, lines]);
      return lines.join(',').split(',').at(-1)?.trim();
    };
    const { get } = await start({ clientAddress: lastForwarded });
    const forwarded = (...lines: string[]) => get({ headers: { 'x-FORWARDED-for': lines } });

    expect((await forwarded('6.6.6.6, 192.0.2.1')).status).toBe(200);
    expect((await forwarded('7.7.7.7', '192.0.2.1')).status).toBe(429);
    expect((await forwarded('192.0.2.1', '192.0.2.2')).status).toBe(200);
    expect(seen.at(-1)).toEqual(['127.0.0.1', ['192.0.2.1', '192.0.2.2']]);
  });

  test('IPv6 clients are counted too', async () => {
    const peers: (string | undefined)[] = [];
    const { statuses } = await start(
      {
        clientAddress: ({ peer }) => {
          peers.push(peer);
          return peer;
        },
      },
      '::1',
    );

    expect(await statuses(2)).toEqual([200, 429]);
    expect(peers).toEqual(['::1', '::1']);
  });

  test('a client whose address is unknown is refused', async () => {
    const { get } = await start({
      clientAddress: () => undefined,
    });

    const reply = await get();

    expect(reply.status).toBe(400);
    expect(JSON.parse(reply.body)).toMatchObject({ detail: 'The address of the client is unknown.' });
  });

  test('a header says who is asking', async () => {
    const { statuses } = await start({ key: { header: 'X-Api-Key' } });

    expect(await statuses(2, { headers: { 'x-api-key': 'ann' } })).toEqual([200, 429]);
    expect(await statuses(2, { headers: { 'x-aPI-key': 'bob' } })).toEqual([200, 429]);
    expect(await statuses(2, { headers: { 'x-api-key': '__proto__' } })).toEqual([200, 429]);
  });

  test('a cookie says who is asking, however it is spelled', async () => {
    const { statuses } = await start({ key: { cookie: 'session' } });

    expect(await statuses(1, { headers: { cookie: 'theme=dark; session=ann' } })).toEqual([200]);
    expect(await statuses(1, { headers: { cookie: 'session="%61nn"' } })).toEqual([429]);
    expect(await statuses(1, { headers: { cookie: 'session=bob' } })).toEqual([200]);
    expect(await statuses(1, { headers: { cookie: 'session=bob; session=eve' } })).toEqual([400]);
  });

  test('a query parameter says who is asking, however it is spelled', async () => {
    const { statuses } = await start({ key: { query: 'tenant' } });

    expect(await statuses(1, { path: '/?page=2&tenant=ann%20b' })).toEqual([200]);
    expect(await statuses(1, { path: '/?t%65nant=%61nn+b' })).toEqual([429]);
    expect(await statuses(1, { path: '/?tenant=bob' })).toEqual([200]);
    expect(await statuses(1, { path: '/?tenant=bob&tenant=eve' })).toEqual([400]);
    expect(await statuses(1, { path: '/' })).toEqual([400]);
  });

  test.each([
    ['no key', {}],
    ['an empty key', { 'x-api-key': '' }],
    ['a blank key', { 'x-api-key': '  ' }],
    ['a key in a header of a similar name', { x_api_key: 'ann' }],
  ])('%s is a 400, and never one bucket for all of them', async (_, headers) => {
    const { get, served } = await start({ key: { header: 'x-api-key' } });

    const reply = await get({ headers });

    expect(reply.status).toBe(400);
    expect(reply.headers).not.toHaveProperty('ratelimit');
    expect(JSON.parse(reply.body)).toEqual({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      detail: 'The header "x-api-key" is missing; it says who is asking.',
    });
    expect(served()).toBe(0);
  });

  test.each(['reject', 'address'] as const)('a key sent twice is a 400 (%s)', async (missingKey) => {
    const { get } = await start({ key: { header: 'x-api-key' }, missingKey });

    const reply = await get({ headers: { 'x-api-key': ['ann', 'bob'] } });

    expect(reply.status).toBe(400);
    expect(JSON.parse(reply.body)).toMatchObject({ detail: 'The header "x-api-key" may be sent only once.' });
  });

  test('a missing key may be stood in for by the address, which nobody can send as a key', async () => {
    const { get, statuses } = await start({ key: { header: 'x-api-key' }, missingKey: 'address' });
    const send = async (key: string) => (await get({ headers: { 'x-api-key': key } })).status;

    expect(await send('127.0.0.1')).toBe(200);
    expect(await send('@127.0.0.1')).toBe(200);
    expect(await send('@@127.0.0.1')).toBe(200);
    expect(await statuses(2)).toEqual([200, 429]);
    expect(await send('@127.0.0.1')).toBe(429);
  });

  test('a function says who is asking, also one that has to wait', async () => {
    const now = await start({ key: (request) => framework.headerOf(request, 'x-user') });
    const later = await start({ key: async (request) => framework.headerOf(request, 'x-user') ?? null });

    for (const { get, statuses } of [now, later]) {
      expect(await statuses(2, { headers: { 'x-user': 'ann' } })).toEqual([200, 429]);
      expect(await statuses(1, { headers: { 'x-user': 'bob' } })).toEqual([200]);
      const reply = await get();
      expect(reply.status).toBe(400);
      expect(JSON.parse(reply.body)).toMatchObject({ detail: 'The request does not say who is asking.' });
    }
  });

  test('a key of several parts keeps them apart', async () => {
    const { get } = await start({ key: [{ header: 'x-tenant' }, { header: 'x-user' }, 'address'] });
    const send = async (headers: Record<string, string>, from?: string) =>
      (await get({ headers, ...(from === undefined ? {} : { from }) })).status;

    expect(await send({ 'x-tenant': 'a:b', 'x-user': 'c' })).toBe(200);
    expect(await send({ 'x-tenant': 'a', 'x-user': 'b:c' })).toBe(200);
    expect(await send({ 'x-tenant': 'a,1', 'x-user': 'c' })).toBe(200);
    expect(await send({ 'x-tenant': 'a', 'x-user': '1,c' })).toBe(200);
    expect(await send({ 'x-tenant': 'a:b', 'x-user': 'c' }, '127.0.0.2')).toBe(200);
    expect(await send({ 'x-tenant': 'a:b', 'x-user': 'c' })).toBe(429);
    expect(await send({ 'x-tenant': 'a:b' })).toBe(400);
  });

  test('every policy may count by a key of its own', async () => {
    const { get } = await start({
      policies: [{ policy: tenant, key: { header: 'x-tenant' } }, once],
      key: { header: 'x-user' },
    });
    const send = async (user: string) =>
      (await get({ headers: { 'x-tenant': 'acme', 'x-user': user } })).headers['ratelimit'];

    expect(await send('ann')).toBe('"tenant";r=2;t=1200, "once";r=0;t=3600');
    expect(await send('ann')).toBe('"tenant";r=2;t=1200, "once";r=0;t=3600');
    expect(await send('bob')).toBe('"tenant";r=1;t=2400, "once";r=0;t=3600');
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['rejects with nothing', vi.fn<() => Promise<string>>().mockRejectedValue(undefined)],
    ['rejects with a word that Express obeys', vi.fn<() => Promise<string>>().mockRejectedValue('route')],
    ['returns a number', () => 7],
    ['returns more than a key may hold', () => 'x'.repeat(2 ** 20 + 1)],
  ])('a key function that %s is an error and no admission', async (_, key) => {
    vi.spyOn(console, 'error').mockReturnValue();
    const { get, served } = await start({ key: key as () => string });

    const reply = await get();

    expect(reply.status).toBe(500);
    expect(served()).toBe(0);
  });
}
