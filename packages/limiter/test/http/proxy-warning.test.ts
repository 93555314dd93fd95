import { describe, expect, test, vi } from 'vitest';
import type { LimiterError } from '../../src/errors.ts';
import {
  clientAddress,
  type AddressFacts,
  type ClientAddressOptions,
} from '../../src/http/client-address.ts';
import { MAX_SHARED_ADDRESSES, REQUESTS_WATCHED, watchProxies } from '../../src/http/proxy-warning.ts';
import { CLIENT, PROXY, request, xff } from './requests.ts';

/** What is warned about when these requests come in. */
function warnings(options: ClientAddressOptions, requests: readonly AddressFacts[]): readonly LimiterError[] {
  const said: LimiterError[] = [];
  const clients = clientAddress(options);
  const watch = watchProxies((warning) => said.push(warning));
  for (const facts of requests) watch(clients(facts), facts);
  return said;
}

function codes(options: ClientAddressOptions, requests: readonly AddressFacts[]): readonly string[] {
  return warnings(options, requests).map(({ code }) => code);
}

function times(count: number, make: (at: number) => AddressFacts): readonly AddressFacts[] {
  return Array.from({ length: count }, (_, at) => make(at));
}

/** One of many clients. */
function someone(at: number): string {
  return `203.0.113.${at % 256}`;
}

const BEHIND: ClientAddressOptions = { trustedProxies: 'private' };
const NO_TRUST = 'PROXY_NOT_TRUSTED';
const SHARED = 'SHARED_ADDRESS';

describe('a proxy that is not trusted', () => {
  test('is named once, with the setting that trusts it', () => {
    const said = warnings(
      {},
      times(REQUESTS_WATCHED - 1, () => request(PROXY, xff(CLIENT))),
    );

    expect(said.map(({ code }) => code)).toEqual([NO_TRUST]);
    expect(said[0]?.message).toContain('10.0.0.1 sent x-forwarded-for');
    expect(said[0]?.message).toContain("set trustedProxies to ['private']");
  });

  test.each([
    ['127.0.0.1', "['loopback']"],
    ['::ffff:127.0.0.1', "['loopback']"],
    ['fe80::1%eth0', "['linkLocal']"],
    ['203.0.113.9', "['203.0.113.9']"],
    ['2001:DB8:0::9', "['2001:db8::9']"],
    [undefined, '{ hops: 1 }'],
    ['unix:\n', '{ hops: 1 }'],
  ])('%s is trusted by %s', (peer, setting) => {
    const [warning] = warnings({}, [request(peer, { forwarded: 'for=1.2.3.4' })]);

    expect(warning?.code).toBe(NO_TRUST);
    expect(warning?.message).toContain('forwarded');
    expect(warning?.message).not.toContain('x-forwarded-for');
    expect(warning?.message).toContain(`set trustedProxies to ${setting}`);
    expect(warning?.message).toMatch(/^[\x20-\x7e]{1,400}$/);
  });

  test('is not suspected without a header, or when it is trusted', () => {
    expect(codes({}, [request(CLIENT), request(CLIENT, { 'x-real-ip': '1.2.3.4' })])).toEqual([]);
    expect(codes(BEHIND, [request(PROXY, xff(CLIENT)), request(PROXY, xff('unknown'))])).toEqual([]);
  });

  test('is said once per watch', () => {
    const facts = request(PROXY, xff(CLIENT));

    expect([codes({}, [facts, facts]), codes({}, [facts])]).toEqual([[NO_TRUST], [NO_TRUST]]);
  });
});

describe('clients that share one address', () => {
  test(`are noticed at request ${REQUESTS_WATCHED}, and once`, () => {
    const all = times(REQUESTS_WATCHED * 3, (at) => request(PROXY, xff(someone(at))));

    expect(codes({}, all.slice(0, REQUESTS_WATCHED - 1))).toEqual([NO_TRUST]);
    expect(codes({}, all.slice(0, REQUESTS_WATCHED))).toEqual([NO_TRUST, SHARED]);
    expect(codes({}, all)).toEqual([NO_TRUST, SHARED]);
  });

  const hint = (options: ClientAddressOptions, make: (at: number) => AddressFacts): string => {
    const said = warnings(options, times(REQUESTS_WATCHED, make)).filter(({ code }) => code === SHARED);
    return said.map(({ message }) => message).join();
  };

  test('the message says under what they were counted, and why', () => {
    const untrusted = hint({}, (at) => request(PROXY, xff(someone(at))));
    const tooMany = hint({ trustedProxies: { hops: 2 } }, (at) => request(PROXY, xff(someone(at))));
    const tooFew = hint({ trustedProxies: { hops: 1 } }, (at) =>
      request(PROXY, xff(`${someone(at)}, 10.0.0.2`)),
    );
    const odd = hint(BEHIND, (at) => request(PROXY, xff(`${someone(at)}, unknown`)));
    const long = hint(BEHIND, (at) => request(PROXY, xff(`${someone(at)}${', 10.0.0.2'.repeat(32)}`)));
    const other = hint(BEHIND, (at) => request(PROXY, { 'x-real-ip': someone(at) }));

    expect(untrusted).toBe(
      '1000 requests name at least 16 different clients in x-forwarded-for, but were all counted under 10.0.0.1: if this is your proxy, add it to trustedProxies.',
    );
    expect(tooMany).toContain(
      'counted under 10.0.0.1: the header has fewer entries than trustedProxies.hops',
    );
    expect(tooFew).toContain(
      'counted under 10.0.0.2: if this is a proxy of yours too, add it to trustedProxies or raise hops',
    );
    expect(odd).toContain('counted under 10.0.0.1: the entries that your proxy appends are no addresses');
    expect(long).toContain('counted under 10.0.0.2: every entry is a trusted proxy');
    expect(other).toContain(
      'clients in x-real-ip, but were all counted under 10.0.0.1: the proxy does not send',
    );
  });

  test.each([
    ['x-forwarded-for', (client: string) => client],
    ['forwarded', (client: string) => `for="${client}";proto=http, for=10.0.0.9`],
    ['x-real-ip', (client: string) => client],
    ['cf-connecting-ip', (client: string) => client],
    ['true-client-ip', (client: string) => client],
  ])('clients may be named in %s', (name, value) => {
    const all = times(REQUESTS_WATCHED, (at) => request(PROXY, { [name]: value(someone(at)) }));

    expect(codes({}, all)).toContain(SHARED);
  });

  test('two different clients are enough, however late the second comes', () => {
    const one = times(REQUESTS_WATCHED * 2, () => request(PROXY, xff(CLIENT)));

    expect(codes({}, one)).toEqual([NO_TRUST]);
    expect(codes({}, [...one, request(PROXY, xff('198.51.100.1'))])).toEqual([NO_TRUST, SHARED]);
  });

  test('one client that changes its port is one client', () => {
    const all = times(REQUESTS_WATCHED * 2, (at) => request(PROXY, xff(`${CLIENT}:${at}`)));

    expect(codes({}, all)).toEqual([NO_TRUST]);
  });

  test('requests that name nobody are not counted, wherever they come from', () => {
    const probes = times(REQUESTS_WATCHED, (at) => request(`198.51.100.${at % 256}`));
    const named = times(REQUESTS_WATCHED, (at) => request(PROXY, xff(someone(at))));
    const junk = times(REQUESTS_WATCHED, (at) => request(PROXY, xff(`unknown-${at}`)));

    expect(codes({}, [...probes, ...named.slice(1)])).toEqual([NO_TRUST]);
    expect(codes({}, [...probes, ...named])).toEqual([NO_TRUST, SHARED]);
    expect(codes({}, junk)).toEqual([NO_TRUST]);
  });

  test('several instances of a proxy share too; the message counts them', () => {
    const instances = (count: number): readonly AddressFacts[] =>
      times(REQUESTS_WATCHED, (at) => request(`10.0.0.${at % count}`, xff(someone(at))));

    const said = warnings({}, instances(MAX_SHARED_ADDRESSES));

    expect(said.map(({ code }) => code)).toEqual([NO_TRUST, SHARED]);
    expect(said[1]?.message).toContain(' and 7 more: ');
    expect(codes({}, instances(MAX_SHARED_ADDRESSES + 1))).toEqual([NO_TRUST]);
  });

  test('as many addresses as clients are not shared', () => {
    const pairs = times(REQUESTS_WATCHED * 2, (at) => request(`10.0.0.${at % 4}`, xff(someone(at % 7))));

    expect(codes({}, pairs)).toEqual([NO_TRUST]);
    expect(codes({}, [...pairs, request(PROXY, xff(someone(7)))])).toEqual([NO_TRUST, SHARED]);
  });

  test('one request that was counted under the client it names shows that all is well', () => {
    const liars = times(REQUESTS_WATCHED * 2, (at) => request(PROXY, xff(`${someone(at)}, 198.51.100.66`)));

    expect(codes(BEHIND, [...liars.slice(0, 9), request(PROXY, xff(CLIENT)), ...liars])).toEqual([]);
    expect(codes(BEHIND, [request(PROXY, xff('64:ff9b::cb00:7107')), ...liars])).toEqual([]);
    expect(codes(BEHIND, liars)).toEqual([SHARED]);
  });

  test('a peer that names itself proves nothing', () => {
    const all = times(REQUESTS_WATCHED, (at) => request(PROXY, xff(at === 0 ? PROXY : someone(at))));

    expect(codes({}, all)).toEqual([NO_TRUST, SHARED]);
  });

  test('without any address there is nothing to share', () => {
    const all = times(REQUESTS_WATCHED * 2, (at) => request(undefined, xff(someone(at))));

    expect(codes({}, all)).toEqual([NO_TRUST]);
  });

  test('headers are no longer read once it is clear', () => {
    const headerLines = vi.fn<(name: string) => readonly string[]>(() => [CLIENT]);
    const clients = clientAddress(BEHIND);
    const watch = watchProxies();
    const client = clients({ peer: PROXY, headerLines });
    watch(client, { peer: PROXY, headerLines });
    headerLines.mockClear();

    for (let at = 0; at < 10; at += 1) watch(client, { peer: PROXY, headerLines });

    expect(headerLines).not.toHaveBeenCalled();
  });
});

describe('where a warning goes', () => {
  const facts = request(PROXY, xff(CLIENT));
  const client = clientAddress()(facts);

  test('to the console, with its code, when nobody listens', () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
    const watch = watchProxies();
    watch(client, facts);
    watch(client, facts);

    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(/^spillgate: PROXY_NOT_TRUSTED: 10\.0\.0\.1 sent /)],
    ]);
  });

  test('a listener that throws or rejects fails no request, is not asked again, and is reported', async () => {
    const report = vi.spyOn(console, 'error').mockReturnValue(undefined);
    const failure = new Error('full disk');
    const throwing = watchProxies(() => {
      throw failure;
    });
    const rejecting = watchProxies(async () => Promise.reject(failure));
    for (const watch of [throwing, rejecting, throwing, rejecting]) watch(client, facts);
    await new Promise((resolve) => setImmediate(resolve));

    expect(report.mock.calls.map(([, error]: readonly unknown[]) => error)).toEqual([failure, failure]);
  });
});

test('a request that is known to be direct is not searched for what proxies write', () => {
  const headerLines = vi.fn<(name: string) => readonly string[]>(() => []);
  const clientOf = clientAddress();
  const watch = watchProxies();
  const look = (isDirect: boolean): void => {
    const facts = { peer: '192.0.2.1', headerLines, isDirect };
    watch(clientOf(facts), facts);
  };

  look(true);
  look(true);
  expect(headerLines).not.toHaveBeenCalled();

  look(false);
  expect(headerLines).toHaveBeenCalledWith('x-forwarded-for');
  expect(headerLines).toHaveBeenCalledWith('true-client-ip');
});
