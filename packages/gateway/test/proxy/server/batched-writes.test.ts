import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { writeTogether } from '../../../src/proxy/exchange.ts';
import { eventually, startOrigin, startRig } from '../rig.ts';

test('what departs in one turn leaves at its end, in order', async () => {
  const left: number[] = [];
  for (const at of [1, 2, 3]) writeTogether({ depart: () => left.push(at) });

  const duringTheTurn = [...left];
  await endOfTurn();

  expect(duringTheTurn).toEqual([]);
  expect(left).toEqual([1, 2, 3]);
});

test('at most 32 wait for each other', async () => {
  const left: number[] = [];
  const leftAfter: number[] = [];
  for (let at = 0; at < 70; at += 1) {
    writeTogether({ depart: () => left.push(at) });
    leftAfter.push(left.length);
  }

  await endOfTurn();

  expect([leftAfter[30], leftAfter[31], leftAfter[62], leftAfter[63]]).toEqual([0, 32, 32, 64]);
  expect(left).toEqual(Array.from({ length: 70 }, (_, at) => at));
});

test('who comes while others leave is not forgotten', async () => {
  const left: string[] = [];
  writeTogether({
    depart: () => {
      left.push('first');
      writeTogether({ depart: () => left.push('second') });
    },
  });

  await endOfTurn();
  await endOfTurn();

  expect(left).toEqual(['first', 'second']);
});

test('a client that never reads is cut off also behind answers that were whole at once', async () => {
  const origin = await startOrigin((_, response) => response.end(Buffer.alloc(60_000)));
  const { port, finished } = await startRig({ origin, config: { server: { write_timeout: '200ms' } } });
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  socket.pause();

  // More than the system keeps for a client, in fewer requests than it may send ahead.
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(250));
  await eventually(() => finished.some(({ outcome }) => outcome !== 'forwarded'));
  socket.destroy();

  expect(finished.length).toBeGreaterThan(1);
  expect(finished.at(-1)).toMatchObject({ outcome: 'aborted', reason: 'WRITE_TIMEOUT' });
});

async function endOfTurn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
