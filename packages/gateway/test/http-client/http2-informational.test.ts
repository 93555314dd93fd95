import { createServer } from 'node:http2';
import { expect, test } from 'vitest';
import { headerLines } from '../../src/http-client/fetch-whole.ts';
import { listen } from '../proxy/local-server.ts';
import { Asker, http2PoolTo, send } from './asking.ts';

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
  const pool = http2PoolTo(`http://127.0.0.1:${port}`);
  const told: unknown[] = [];
  class Listener extends Asker {
    override onHeaders(status: number, headers: readonly string[]): boolean {
      told.push([status, headerLines(headers, 'link')[0]]);
      return super.onHeaders(status, headers);
    }
  }

  const answered = await send(pool, {}, new Listener()).done;
  const silent = await send(pool, { path: '/silent', headersTimeoutMs: 1000 }, new Listener()).done;

  const hint = [103, '</a>; rel=preload'];
  expect(told).toEqual([hint, [102, undefined], [200, undefined], hint]);
  expect(answered.complete).toBe(true);
  expect(silent.error).toMatchObject({ code: 'HEADERS_TIMEOUT' });
});
