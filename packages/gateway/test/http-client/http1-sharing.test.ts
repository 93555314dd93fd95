// How clients share the connections of a pool.
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { until } from '../proxy/local-server.ts';
import { poolTo, send, startHolding, type Asker, type CountingPool } from './asking.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

test('no client holds more connections than its share, and others are served at once', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 4, maxConnectionsPerClient: 2 });

  const greedy = Array.from({ length: 10 }, (_, at) => send(pool, { path: `/greedy${at}`, client: 'a' }));
  const other = send(pool, { path: '/other', client: 'b' });
  const unknown = send(pool, { path: '/unknown' });
  await until(() => held.length === 4);
  expect(held.map(({ path }) => path).toSorted()).toEqual(['/greedy0', '/greedy1', '/other', '/unknown']);
  const find = (path: string) => held.find((one) => one.path === path)?.socket;
  for (const path of ['/other', '/unknown']) find(path)?.write(OK);
  await Promise.all([other.done, unknown.done]);

  // Two connections are free now, and stay so.
  expect((await answeredAtOnce(pool, held, 'c')).complete).toBe(true);
  expect(held.filter(({ path }) => path.startsWith('/greedy'))).toHaveLength(2);
  for (let done = 0; done < 10; done += 1) {
    await until(() => find(`/greedy${done}`) !== undefined);
    find(`/greedy${done}`)?.write(OK);
  }
  expect((await Promise.all(greedy.map(async ({ done }) => done))).every(({ complete }) => complete)).toBe(
    true,
  );
});

test('clients that wait are served by turns, however many requests each of them has', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 1 });
  for (let at = 0; at < 4; at += 1) send(pool, { path: `/a${at}`, client: 'a' });
  for (let at = 0; at < 2; at += 1) send(pool, { path: `/b${at}`, client: 'b' });
  send(pool, { path: '/c0', client: 'c' });

  for (let done = 0; done < 7; done += 1) {
    await until(() => held.length > done);
    held[done]?.socket.write(OK);
  }

  expect(held.map(({ path }) => path)).toEqual(['/a0', '/b0', '/c0', '/a1', '/b1', '/a2', '/a3']);
});

test('a client that fills its half of the queue is refused, and others still wait in it', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 2, maxPending: 6, maxConnectionsPerClient: 1 });

  const greedy = Array.from({ length: 10 }, () => send(pool, { client: 'a' }));
  await until(() => held.length === 1);
  const other = send(pool, { path: '/other', client: 'b' });
  await until(() => held.length === 2);

  expect(greedy.filter(({ error }) => error?.code === 'QUEUE_FULL')).toHaveLength(6);
  expect(other.error).toBeUndefined();
});

test('a request that is given up while its client is over its share leaves the queue', async () => {
  const { origin, held } = await startHolding();
  const pool = poolTo(origin.url, { maxConnections: 4, maxConnectionsPerClient: 1 });
  send(pool, { path: '/first', client: 'a' });
  const second = send(pool, { path: '/second', client: 'a' });
  const third = send(pool, { path: '/third', client: 'a' });
  await until(() => held.length === 1);

  second.control?.abort(new Error('enough'));
  held[0]?.socket.write(OK);
  await until(() => held.length === 2);
  held[1]?.socket.write(OK);

  expect((await second.done).error?.message).toBe('enough');
  expect((await third.done).complete).toBe(true);
  expect(held.map(({ path }) => path)).toEqual(['/first', '/third']);
});

/** Answers one more request of this client as soon as it is there. */
async function answeredAtOnce(
  pool: CountingPool,
  held: readonly { readonly socket: Socket; readonly path: string }[],
  client: string,
): Promise<Asker> {
  const asker = send(pool, { path: `/${client}`, client });
  await until(() => held.some(({ path }) => path === `/${client}`));
  held.find(({ path }) => path === `/${client}`)?.socket.write(OK);
  return asker.done;
}
