import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import {
  createUpstreams,
  type ConfiguredUpstreams,
} from '../../../src/proxy/upstreams/configured-upstreams.ts';
import type { Upstream } from '../../../src/proxy/upstreams/pooled-upstream.ts';
import { textOf } from '../../http-client/asking.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { listen, until, type LocalServer } from '../local-server.ts';

async function serve(listener: RequestListener): Promise<LocalServer & { readonly url: string }> {
  const server = await listen(createServer(listener));
  return { ...server, url: `http://127.0.0.1:${server.port}` };
}

function open(backend: Config['backend'], log = keptLog()): ConfiguredUpstreams {
  const upstreams = createUpstreams(backend, { log, lateMs: 50 });
  onTestFinished(async () => upstreams.close({ force: true }));
  return upstreams;
}

function next(upstreams: ConfiguredUpstreams): Upstream {
  const upstream = upstreams.next();
  if (upstream === undefined) throw new Error('no upstream is healthy');
  return upstream;
}

/** One that nobody listens on. */
async function freePort(): Promise<{ readonly port: number }> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return { port };
}

async function get({ pool }: Upstream): Promise<string> {
  return textOf(pool);
}

test('requests go round the configured servers by weight', async () => {
  const a = await serve((_request, response) => response.end('a'));
  const b = await serve((_request, response) => response.end('b'));
  const upstreams = open(backendOf({ upstreams: [{ url: a.url, weight: 2 }, { url: b.url }] }));

  const answers = [];
  for (let turn = 0; turn < 6; turn += 1) answers.push(await get(next(upstreams)));

  expect(answers.join('')).toBe('abaaba');
});

test('there are never more connections than max_conns, and what waits beyond max_pending_requests is told so at once', async () => {
  const held: ServerResponse[] = [];
  const server = await serve((_request, response) => held.push(response));
  const upstream = next(open(backendOf({ url: server.url, max_conns: 2, max_pending_requests: 3 })));

  const answers = Array.from({ length: 9 }, async () => get(upstream).catch((failure: unknown) => failure));
  await until(() => held.length === 2);
  const refused = await Promise.all(answers.slice(5));
  for (let done = 0; done < 5; done += 1) {
    await until(() => held.length > done);
    held[done]?.end('done');
  }

  expect(refused.map((failure) => failure instanceof Error && 'code' in failure && failure.code)).toEqual(
    Array.from({ length: 4 }, () => 'QUEUE_FULL'),
  );
  expect(await Promise.all(answers.slice(0, 5))).toEqual(Array.from({ length: 5 }, () => 'done'));
  expect(server.accepted()).toBe(2);
  expect(
    await Promise.all([
      get(upstream).catch(() => 'refused'),
      until(() => held.length === 6).then(() => held[5]?.end('again')),
    ]),
  ).toContain('again');
});

test('with no queue at all, a free connection is still used again and again', async () => {
  const server = await serve((_request, response) => response.end('ok'));
  const upstream = next(open(backendOf({ url: server.url, max_conns: 1, max_pending_requests: 0 })));

  for (let turn = 0; turn < 5; turn += 1) expect(await get(upstream)).toBe('ok');

  expect(server.accepted()).toBe(1);
});

test('an unused connection is closed after idle_conn_timeout', async () => {
  const server = await serve((_request, response) => response.end('ok'));
  const upstream = next(open(backendOf({ url: server.url, idle_conn_timeout: '100ms' })));

  await get(upstream);
  expect(server.sockets.size).toBe(1);
  await until(() => server.sockets.size === 0);

  expect(await get(upstream)).toBe('ok');
});

test('a server that cannot be reached is passed over while another one can', async () => {
  const dead = await serve(() => {});
  const alive = await serve((_request, response) => response.end('alive'));
  const upstreams = open(backendOf({ upstreams: [{ url: 'http://127.0.0.1:1' }, { url: alive.url }] }));

  const first = await get(next(upstreams)).catch((failure: unknown) => String(failure));
  const others = [];
  for (let turn = 0; turn < 4; turn += 1) others.push(await get(next(upstreams)));

  expect(first).toContain('ECONNREFUSED');
  expect(others).toEqual(['alive', 'alive', 'alive', 'alive']);
  expect(upstreams.health()[0]).toMatchObject({
    healthy: true,
    lastError: expect.stringContaining('ECONNREFUSED'),
  });
  expect(dead.accepted()).toBe(0);
});

test('health checks leave a failing server out, and take it back when it is well again', async () => {
  let status = 200;
  const server = await serve((asked, response) => {
    response.writeHead(asked.url === '/health' ? status : 200).end();
  });
  const log = keptLog();
  const health_check = { enabled: true, path: '/health', interval: '100ms', timeout: '50ms' };
  const upstreams = open(
    backendOf({
      url: server.url,
      health_check: { ...health_check, unhealthy_threshold: 2, healthy_threshold: 2 },
    }),
    log,
  );
  expect(upstreams.next()).toBeDefined();

  status = 503;
  await until(() => upstreams.next() === undefined);
  expect(upstreams.health()).toEqual([
    { origin: server.url, healthy: false, inFlight: 0, lastError: '/health answered 503' },
  ]);
  status = 204;
  await until(() => upstreams.next() !== undefined);

  expect(log.lines.map((line) => line.replace(/ \{.*/, ''))).toEqual([
    'warn upstream is unhealthy and left out',
    'info upstream is healthy again',
  ]);
});

test('a server that a health check reaches again has no error any more, even if nobody has asked it since', async () => {
  const { port } = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const health_check = { enabled: true, interval: '100ms', timeout: '50ms', unhealthy_threshold: 100 };
  const upstreams = open(backendOf({ url, health_check }));
  await expect(get(next(upstreams))).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(upstreams.health()[0]?.lastError).toContain('ECONNREFUSED');

  const server = createServer((_request, response) => response.end()).listen(port, '127.0.0.1');
  onTestFinished(() => server.close().closeAllConnections());

  await until(() => upstreams.health()[0]?.lastError === undefined);
  expect(upstreams.health()[0]).toMatchObject({ healthy: true, lastError: undefined });
});

test('a server that does not answer health checks in time is unhealthy', async () => {
  const server = await serve(() => {});
  const upstreams = open(
    backendOf({
      url: server.url,
      health_check: { enabled: true, interval: '100ms', timeout: '20ms', unhealthy_threshold: 1 },
    }),
  );

  await until(() => upstreams.next() === undefined);

  expect(upstreams.health()[0]?.lastError).toMatch(/timeout/i);
});

test('health checks end with the upstreams', async () => {
  const asked = { '/ended': 0, '/other': 0 };
  const server = await serve(({ url }, response) => {
    asked[url === '/ended' ? '/ended' : '/other'] += 1;
    response.end();
  });
  const checked = (path: string): ConfiguredUpstreams =>
    open(
      backendOf({
        url: server.url,
        health_check: { enabled: true, path, interval: '100ms', timeout: '50ms' },
      }),
    );
  const ended = checked('/ended');
  await until(() => asked['/ended'] === 2);

  await ended.close();
  await until(() => server.sockets.size === 0);
  const atClose = asked['/ended'];
  // Others ask three times meanwhile.
  checked('/other');
  await until(() => asked['/other'] === 3);

  expect(asked['/ended']).toBe(atClose);
});

test('closing lets what has begun go on, even what comes a little late, and takes nothing new', async () => {
  const held: ServerResponse[] = [];
  const server = await serve((_request, response) => held.push(response));
  const upstreams = open(backendOf({ url: server.url }));
  const upstream = next(upstreams);
  const endFirst = upstream.begin();
  const endSecond = upstream.begin();
  const first = get(upstream);
  await until(() => held.length === 1);

  let closed = false;
  const closing = upstreams.close().finally(() => {
    closed = true;
  });
  // In the same turn: how long a late one is taken is counted in real time.
  expect(upstreams.next()).toBe(upstream);
  const second = get(upstream);
  await until(() => held.length === 2);
  for (const response of held) response.end('whole');

  expect(await Promise.all([first, second])).toEqual(['whole', 'whole']);
  await until(() => upstreams.next() === undefined);
  expect(closed).toBe(false);
  endFirst();
  endFirst();
  endSecond();
  await closing;
  await until(() => server.sockets.size === 0);
});

test('closing by force ends requests under way', async () => {
  const server = await serve(() => {});
  const upstreams = open(backendOf({ url: server.url }));
  const upstream = next(upstreams);
  upstream.begin();
  const answer = get(upstream).catch((failure: unknown) => String(failure));
  await until(() => server.sockets.size === 1);

  await upstreams.close({ force: true });

  expect(await answer).toMatch(/destroyed|closed/i);
  await until(() => server.sockets.size === 0);
});

test('upstreams fit a configuration that says the same, and no other', () => {
  const written = { url: 'http://127.0.0.1:1', max_conns: 7 };
  const upstreams = open(backendOf(written));

  expect(upstreams.fits(backendOf(written))).toBe(true);
  expect(upstreams.fits(backendOf({ ...written, preserve_host: false }))).toBe(true);
  expect(upstreams.fits(backendOf({ ...written, max_conns: 8 }))).toBe(false);
  expect(upstreams.fits(backendOf({ ...written, transport: { dial_timeout: '1s' } }))).toBe(false);
  expect(upstreams.fits(backendOf({ ...written, transport: { tls: { ca_file: '/nowhere' } } }))).toBe(false);
});

test('a close that waits is cut short by one with force', async () => {
  const server = await serve(() => {});
  const upstreams = open(backendOf({ url: server.url }));
  const upstream = next(upstreams);
  upstream.begin();
  const answer = get(upstream).catch(() => 'cut');
  await until(() => server.sockets.size === 1);

  const waiting = upstreams.close();
  await upstreams.close({ force: true });
  await waiting;

  expect(await answer).toBe('cut');
});

test('a close with force does not wait for a connection that is just being opened', async () => {
  const upstreams = open(backendOf({ url: 'http://127.0.0.1:1', transport: { backend_protocol: 'h2' } }));
  const answer = get(next(upstreams)).catch(() => 'cut');

  await upstreams.close({ force: true });

  expect(await answer).toBe('cut');
});

test('a backend that a ruling names is used if the policy allows it, and a refusal is logged, but not every one', async () => {
  const server = await serve((_request, response) => response.end('tenant'));
  const log = keptLog();
  const url_policy = { allowed_hosts: ['127.0.0.1'] };
  const upstreams = open(backendOf({ url: 'http://127.0.0.1:1', url_policy }), log);

  const named = upstreams.named?.(server.url);
  for (let turn = 0; turn < 5; turn += 1) expect(upstreams.named?.('http://169.254.169.254')).toBeUndefined();

  expect(named === undefined ? undefined : await get(named)).toBe('tenant');
  expect(log.lines).toEqual([expect.stringMatching(/^warn backend_url is not followed.*"host"/)]);
  expect(upstreams.fits(backendOf({ url: 'http://127.0.0.1:1' }))).toBe(false);
});
