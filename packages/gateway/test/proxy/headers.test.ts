import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { passedOn } from './passed-on.ts';
import { ADMITTED, exchange, startOrigin, startRig } from './rig.ts';
import { addLimitHeaders, readUpstreamHead } from '../../src/proxy/forward/headers.ts';
import { runs } from '../../../../test/runs.ts';

interface Sent {
  readonly config?: object;
  readonly peer?: string;
  readonly host?: string;
}

/** What the backend gets of these headers, by lower-case name. */
function forwarded(
  lines: readonly (readonly [string, string])[],
  { config, peer = '198.51.100.9', host = 'a.example' }: Sent = {},
) {
  return passedOn({ config, peer, rawHeaders: ['Host', host, ...lines.flat()] }).headers;
}

const TRUSTED = {
  config: { server: { client_address: { trusted_proxies: ['10.0.0.0/8'] } } },
  peer: '10.0.0.1',
};

test('who asked is what the socket says, whatever a stranger claims', () => {
  const headers = forwarded([
    ['X-Forwarded-For', '1.2.3.4'],
    ['X-Forwarded-Proto', 'https'],
    ['X-Forwarded-Host', 'evil'],
    ['X-Forwarded-Prefix', '/evil'],
    ['Forwarded', 'for=1.2.3.4'],
  ]);

  expect(headers).toMatchObject({
    'x-forwarded-for': ['198.51.100.9'],
    'x-forwarded-proto': ['http'],
    'x-forwarded-host': ['a.example'],
  });
  expect(headers['forwarded']).toBeUndefined();
  expect(headers['x-forwarded-prefix']).toBeUndefined();
});

const ELSEWHERE: readonly (readonly [string, string])[] = [
  ['X-Original-URL', '/admin'],
  ['X-Rewrite-Url', '/admin'],
  ['x-http-method-override', 'DELETE'],
  ['X-HTTP-Method', 'DELETE'],
  ['X-Method-Override', 'DELETE'],
];

test('nobody can make a backend see another path or method than the rules saw', () => {
  const names = Object.keys(forwarded([...ELSEWHERE, ['X-Kept', 'yes']]));

  expect(names).toContain('x-kept');
  expect(names.filter((name) => ELSEWHERE.some(([header]) => header.toLowerCase() === name))).toEqual([]);
});

test('a setting says which headers are removed, even from a trusted proxy', () => {
  const removed = { backend: { remove_request_headers: ['X-Debug'] } };
  const lines = [...ELSEWHERE, ['x-debug', '1']] as const;

  expect(forwarded(lines, { config: removed })['x-debug']).toBeUndefined();
  expect(forwarded(lines, { config: removed })['x-original-url']).toEqual(['/admin']);
  expect(forwarded(lines, TRUSTED)['x-original-url']).toBeUndefined();
});

test('what a trusted proxy says is continued', () => {
  const headers = forwarded(
    [
      ['X-Forwarded-For', '6.6.6.6'],
      ['X-Forwarded-For', '203.0.113.7'],
      ['X-Forwarded-Proto', 'https'],
      ['X-Forwarded-Host', 'www.example'],
      ['X-Forwarded-Port', '443'],
    ],
    TRUSTED,
  );

  expect(headers).toMatchObject({
    'x-forwarded-for': ['6.6.6.6, 203.0.113.7, 10.0.0.1'],
    'x-forwarded-proto': ['https'],
    'x-forwarded-host': ['www.example'],
    'x-forwarded-port': ['443'],
  });
});

test('a trusted proxy that says only the protocol is believed', () => {
  expect(forwarded([['X-Forwarded-Proto', 'https']], TRUSTED)).toMatchObject({
    'x-forwarded-for': ['10.0.0.1'],
    'x-forwarded-proto': ['https'],
  });
});

test('trust in a number of hops counts as trust in the peer', () => {
  const config = { server: { client_address: { trusted_hops: 2 } } };

  expect(forwarded([['X-Forwarded-For', '1.1.1.1, 2.2.2.2']], { config })).toMatchObject({
    'x-forwarded-for': ['1.1.1.1, 2.2.2.2, 198.51.100.9'],
  });
});

test('Forwarded is written where it is asked for, and continued only where it is the source', () => {
  const config = { backend: { forwarded_headers: ['forwarded'] } };
  const source = {
    server: { client_address: { trusted_proxies: ['10.0.0.0/8'], source: 'forwarded' } },
    ...config,
  };

  expect(forwarded([['Forwarded', 'for=1.2.3.4']], { config })['forwarded']).toEqual([
    'for=198.51.100.9;host="a.example";proto=http',
  ]);
  expect(forwarded([], { config, peer: '2001:db8::1' })['forwarded']).toEqual([
    'for="[2001:db8::1]";host="a.example";proto=http',
  ]);
  expect(
    forwarded([['Forwarded', 'for=1.2.3.4']], { config: source, peer: '10.0.0.1' })['forwarded'],
  ).toEqual(['for=1.2.3.4, for=10.0.0.1;host="a.example";proto=http']);
  expect(
    forwarded([['X-Forwarded-For', '1.2.3.4']], { config: source, peer: '10.0.0.1' })['x-forwarded-for'],
  ).toBeUndefined();
});

test('IPv4 peers of a socket for both families are spelled as IPv4', () => {
  expect(forwarded([], { peer: '::ffff:192.0.2.1' })['x-forwarded-for']).toEqual(['192.0.2.1']);
});

test('Connection removes what belongs to one hop, and nothing that says who asks for what', () => {
  const config = { rate_limit: { average: 1, key_strategy: { type: 'header', header_name: 'X-Tenant-Id' } } };
  const headers = forwarded(
    [
      ['Connection', 'X-Forwarded-For, X-Tenant-Id, Authorization, X-Hop, x-request-id'],
      ['connection', 'Via, Host , Cookie,Keep-Alive,,traceparent'],
      ['X-Tenant-Id', 'acme'],
      ['Authorization', 'Bearer x'],
      ['Cookie', 'c=1'],
      ['X-Hop', 'gone'],
      ['Keep-Alive', 'timeout=5'],
      ['TE', 'trailers'],
      ['Proxy-Authorization', 'Basic x'],
      ['Upgrade', 'h2c'],
      ['HTTP2-Settings', 'AAMAAABk'],
      ['traceparent', '00-1-2-3'],
    ],
    { config },
  );

  expect(Object.keys(headers).toSorted()).toEqual([
    'authorization',
    'cookie',
    'host',
    'traceparent',
    'via',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-request-id',
    'x-tenant-id',
  ]);
});

test('Host is the one that was asked for, or the upstream its own', () => {
  expect(forwarded([])['host']).toEqual(['a.example']);
  expect(forwarded([], { config: { backend: { preserve_host: false } } })['host']).toBeUndefined();
});

const name = fc.oneof(
  fc.constantFrom(
    'Connection',
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'Via',
    'X-Request-Id',
    'Forwarded',
    'TE',
    'Keep-Alive',
    'X-A',
    'x-b',
    'Upgrade',
  ),
  fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,10}$/),
);
const value = fc.oneof(
  fc.stringMatching(/^[!-~]{0,20}$/),
  name,
  fc.tuple(name, name).map((names) => names.join(', ')),
);
const FRAMING = /^(?:host|content-length|transfer-encoding|expect)$/i;

test('whatever headers are sent, the backend gets our own exactly once, and none of the hop', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 30 }), (sent) => {
      const lines = sent.filter(([header]) => !FRAMING.test(header));
      const headers = forwarded(lines);

      expect(headers['x-forwarded-for']).toEqual(['198.51.100.9']);
      expect(headers['x-forwarded-proto']).toEqual(['http']);
      expect(headers['x-forwarded-host']).toEqual(['a.example']);
      expect(headers['x-request-id']).toEqual(['the-id']);
      expect(headers['host']).toEqual(['a.example']);
      expect(headers['via']).toHaveLength(1);
      expect(headers['via']?.[0]).toMatch(/(?:^|, )1\.1 spillgate-test$/);
      for (const hop of ['connection', 'te', 'keep-alive', 'upgrade', 'trailer', 'forwarded'])
        expect(headers[hop]).toBeUndefined();
      const kept = lines.filter(([header]) => headers[header.toLowerCase()]?.length !== undefined);
      for (const [header, text] of kept) {
        if (!/^(?:x-forwarded-.*|via|x-request-id|forwarded)$/i.test(header))
          expect(headers[header.toLowerCase()]).toContain(text);
      }
    }),
    { numRuns: runs(500) },
  );
});

test('an id of the client is kept if it is one, and every answer carries it', async () => {
  const origin = await startOrigin((_, response) => response.end('ok'));
  const { port, finished } = await startRig({ origin });
  const ask = async (...ids: string[]) => {
    const lines = ids.map((id) => `X-Request-Id: ${id}\r\n`).join('');
    const client = await exchange(port, `GET / HTTP/1.1\r\nHost: a\r\n${lines}\r\n`);
    return /^X-Request-Id: (.*)\r$/im.exec(client.text)?.[1];
  };

  expect(await ask('abc-123')).toBe('abc-123');
  expect(await ask('a b')).toMatch(/^[\da-f-]{36}$/);
  expect(await ask('x'.repeat(65))).toMatch(/^[\da-f-]{36}$/);
  expect(await ask('<script>')).toMatch(/^[\da-f-]{36}$/);
  expect(await ask('a', 'b')).toMatch(/^[\da-f-]{36}$/);
  expect(await ask()).toMatch(/^[\da-f-]{36}$/);
  expect(origin.requests.map((request) => request.header('x-request-id'))).toEqual(
    finished.map(({ id }) => id),
  );
});

test('a request that comes back is not sent round again', async () => {
  const origin = await startOrigin();
  const rig = await startRig({ origin });
  await exchange(rig.port, 'GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 fred\r\n\r\n');
  const via = origin.requests[0]?.header('via') ?? '';
  expect(via).toMatch(/^1\.0 fred, 1\.1 spillgate-[\da-f]{12}$/);

  const client = await exchange(rig.port, `GET / HTTP/1.1\r\nHost: a\r\nVia: ${via}\r\n\r\n`);

  expect(client.statuses).toEqual([508]);
  expect(client.text).toContain('LOOP_DETECTED');
  expect(rig.asked).toHaveLength(1);
});

test('traceparent passes untouched, unless something traces', async () => {
  const origin = await startOrigin();
  const plain = await startRig({ origin });
  const traced = await startRig({
    origin,
    tracer: () => ({ traceId: 'the-trace', headers: [['traceparent', 'ours']], end: () => undefined }),
  });
  const bytes = 'GET / HTTP/1.1\r\nHost: a\r\ntraceparent: theirs\r\ntracestate: s=1\r\n\r\n';

  await exchange(plain.port, bytes);
  await exchange(traced.port, bytes);

  expect(origin.requests[0]?.header('traceparent')).toBe('theirs');
  expect(origin.requests[0]?.header('tracestate')).toBe('s=1');
  expect(origin.requests[1]?.header('traceparent')).toBe('ours');
  expect(origin.requests[1]?.header('tracestate')).toBeUndefined();
  expect(traced.finished).toMatchObject([{ traceId: 'the-trace' }]);
});

test('a response loses what belongs to one hop, and gains what the limits are', async () => {
  const origin = await startOrigin((_, response) => {
    response.writeHead(200, [
      'Connection',
      'X-Hop, close',
      'X-Hop',
      'gone',
      'X-Request-Id',
      'theirs',
      'Content-Length',
      '2',
      'RateLimit',
      '"theirs";r=1',
      'X-Kept',
      'yes',
      'Proxy-Authenticate',
      'Basic',
    ]);
    response.end('ok');
  });
  const { port } = await startRig({
    origin,
    rule: () => ({
      ...ADMITTED,
      headers: [
        ['RateLimit', '"ours";r=2'],
        ['X-RateLimit-Limit', '9'],
      ],
    }),
  });

  const { text } = await exchange(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');

  expect(text).not.toMatch(/x-hop|theirs\r|proxy-auth/i);
  expect(text).toMatch(/^Connection: keep-alive\r$/m);
  expect(text).toMatch(/^RateLimit: "theirs";r=1, "ours";r=2\r$/m);
  expect(text).toMatch(/^X-RateLimit-Limit: 9\r$/m);
  expect(text).toMatch(/^X-Kept: yes\r$/m);
  expect(text.match(/x-request-id/gi)).toHaveLength(1);
});

test('limits of the upstream are told before ours, and lists are joined', () => {
  const head = readUpstreamHead(
    ['ratelimit-policy', 'a;q=1', 'X-RateLimit-Remaining', '1', 'x-ratelimit-limit', '5'],
    'x-request-id',
  );

  addLimitHeaders(head, [
    ['RateLimit-Policy', 'b;q=2'],
    ['X-RateLimit-Limit', '100'],
    ['X-RateLimit-Remaining', '99'],
  ]);

  expect(head.headers).toEqual([
    'X-RateLimit-Remaining',
    '1',
    'x-ratelimit-limit',
    '5',
    'RateLimit-Policy',
    'a;q=1, b;q=2',
  ]);
});
