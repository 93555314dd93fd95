// How clients share the streams of a pool.
import { createServer, type ServerHttp2Stream } from 'node:http2';
import { expect, test } from 'vitest';
import { listen, until } from '../proxy/local-server.ts';
import { http2PoolTo, send } from './asking.ts';

interface HeldStream {
  readonly path: string;
  end(): void;
}

/** A server that takes so many requests at a time on a connection, and answers none. */
async function startHolding(maxConcurrentStreams: number) {
  const held: HeldStream[] = [];
  const server = createServer({ settings: { maxConcurrentStreams } });
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => undefined);
    held.push({
      path: headers[':path'] ?? '',
      end: () => {
        stream.respond({ ':status': 200 });
        stream.end('ok');
      },
    });
  });
  const { port } = await listen(server);
  return { origin: `http://127.0.0.1:${port}`, held };
}

const pathsOf = (held: readonly HeldStream[]): readonly string[] => held.map(({ path }) => path);

test('no client has more than its share of the streams, and others are served at once', async () => {
  const { origin, held } = await startHolding(4);
  const pool = http2PoolTo(origin, { maxConnections: 1, sharePerClient: 0.5 });
  // Before the first connection nobody knows how many streams there are.
  send(pool, { path: '/first' });
  await until(() => held.length === 1);
  held[0]?.end();

  const greedy = Array.from({ length: 6 }, (_, at) => send(pool, { path: `/greedy${at}`, client: 'a' }));
  send(pool, { path: '/other', client: 'b' });
  send(pool, { path: '/unknown' });
  await until(() => held.length === 5);

  expect(pathsOf(held).slice(1).toSorted()).toEqual(['/greedy0', '/greedy1', '/other', '/unknown']);
  for (let done = 0; done < 6; done += 1) {
    await until(() => held.some(({ path }) => path === `/greedy${done}`));
    held.find(({ path }) => path === `/greedy${done}`)?.end();
  }
  expect((await Promise.all(greedy.map(async ({ done }) => done))).every(({ complete }) => complete)).toBe(
    true,
  );
});

test('clients that wait are served by turns, however many requests each of them has', async () => {
  const { origin, held } = await startHolding(1);
  const pool = http2PoolTo(origin, { maxConnections: 1 });
  send(pool, { path: '/first' });
  await until(() => held.length === 1);
  for (let at = 0; at < 3; at += 1) send(pool, { path: `/a${at}`, client: 'a' });
  for (let at = 0; at < 2; at += 1) send(pool, { path: `/b${at}`, client: 'b' });
  send(pool, { path: '/c0', client: 'c' });

  for (let done = 0; done < 7; done += 1) {
    await until(() => held.length > done);
    held[done]?.end();
  }

  expect(pathsOf(held)).toEqual(['/first', '/a0', '/b0', '/c0', '/a1', '/b1', '/a2']);
});

test('a client that fills its half of the queue is refused, and others still wait in it', async () => {
  const { origin, held } = await startHolding(2);
  const pool = http2PoolTo(origin, { maxConnections: 1, maxPending: 4, sharePerClient: 0.5 });
  send(pool, { path: '/first' });
  await until(() => held.length === 1);

  const greedy = Array.from({ length: 10 }, () => send(pool, { path: '/greedy', client: 'a' }));
  await until(() => held.length === 2);
  const other = send(pool, { path: '/other', client: 'b' });
  held[0]?.end();
  await until(() => held.length === 3);

  expect(greedy.filter(({ error }) => error?.code === 'QUEUE_FULL')).toHaveLength(7);
  expect(other.error).toBeUndefined();
  expect(pathsOf(held)).toEqual(['/first', '/greedy', '/other']);
});
