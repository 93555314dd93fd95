import { createServer } from 'node:http2';
import type { Dispatcher } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createUpstreams } from '../../../src/proxy/upstreams/configured-upstreams.ts';
import { backendOf, keptLog } from '../gateway-settings.ts';
import { listen, until } from '../local-server.ts';

test('informational responses are told before the response, and the clock for its headers goes on', async () => {
  const server = createServer();
  server.on('stream', (stream, { ':path': path }) => {
    stream.on('error', () => undefined);
    stream.additionalHeaders({ ':status': 103, link: '</a>; rel=preload' });
    if (path === '/silent') return;
    stream.additionalHeaders({ ':status': 102 });
    stream.respond({ ':status': 200 });
    stream.end('ok');
  });
  const { port } = await listen(server);
  const backend = backendOf({ url: `http://127.0.0.1:${port}` });
  const upstreams = createUpstreams(backend, { log: keptLog() });
  onTestFinished(async () => upstreams.close({ force: true }));
  const dispatcher = upstreams.next()?.http2;
  const told: unknown[] = [];
  const ends: unknown[] = [];
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: () => undefined,
    onResponseStart: (_, status, { link }) => void told.push([status, link]),
    onResponseEnd: () => void ends.push('end'),
    onResponseError: (_, error) => void ends.push(error.name),
  };

  dispatcher?.dispatch({ path: '/', method: 'GET' }, handler);
  await until(() => ends.length === 1);
  dispatcher?.dispatch({ path: '/silent', method: 'GET', headersTimeout: 50 }, handler);
  await until(() => ends.length === 2);

  const hint = [103, '</a>; rel=preload'];
  expect(told).toEqual([hint, [102, undefined], [200, undefined], hint]);
  expect(ends).toEqual(['end', 'HeadersTimeoutError']);
});
