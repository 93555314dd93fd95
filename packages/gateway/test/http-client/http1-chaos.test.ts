// Servers that fail in every way at random: each request has one end, and no request ever gets the answer of another.
// (A second answer that arrives after the next request went out is beyond every client of HTTP/1.1: it looks like the
// answer to that.)
import * as fc from 'fast-check';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { startRawOrigin } from '../proxy/raw-origin.ts';
import { Asker, poolTo, send } from './asking.ts';

const BEHAVIOURS = [
  'length',
  'chunks',
  'dripping',
  'untilClose',
  'lastAnswer',
  'extra',
  'second',
  'closesAfter',
  'half',
  'nothing',
  'reset',
  'nonsense',
  'badChunk',
  'informs',
] as const;
type Behaviour = (typeof BEHAVIOURS)[number];

/** Answers with the path, as the path asks for. */
function answer(socket: Socket, path: string): void {
  const behaviour = /^\/(\w+)/.exec(path)?.[1] as Behaviour;
  const whole = `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`;
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const size = path.length.toString(16);
  const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';
  const say: Record<Behaviour, () => void> = {
    length: () => socket.write(whole),
    chunks: () => socket.write(`${chunked}${size}\r\n${path}\r\n0\r\nX-T: 1\r\n\r\n`),
    dripping: () => {
      for (const byte of whole) socket.write(byte);
    },
    untilClose: () => socket.end(`HTTP/1.1 200 OK\r\n\r\n${path}`),
    lastAnswer: () => socket.end(whole.replace('\r\n', '\r\nConnection: close\r\n')),
    extra: () => socket.write(`${whole}evil`),
    second: () => socket.write(whole + evil),
    closesAfter: () => socket.end(whole),
    half: () => socket.end(whole.slice(0, -1)),
    nothing: () => socket.destroy(),
    reset: () => {
      socket.write(whole.slice(0, 30));
      setImmediate(() => socket.resetAndDestroy());
    },
    nonsense: () => socket.write('nonsense\r\n\r\n'),
    badChunk: () => socket.write(`${chunked}${size}\r\n${path}evil\r\n0\r\n\r\n`),
    informs: () => socket.write(`HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n${whole}`),
  };
  say[behaviour]();
}

const WHOLE: ReadonlySet<string> = new Set<Behaviour>([
  'length',
  'chunks',
  'dripping',
  'untilClose',
  'lastAnswer',
  'informs',
]);

test('each request gets its own whole answer, a part of it, or an error, and the pool is as good as new afterwards', async () => {
  const origin = await startRawOrigin((socket, text) => {
    const last = text.slice(Math.max(0, text.lastIndexOf(' HTTP/1.1\r\n') - 200));
    if (!last.endsWith('\r\n\r\n')) return;
    const path = /(\/\w+\/\d+) HTTP\/1\.1\r\n(?![^]* HTTP\/1\.1)/.exec(last)?.[1];
    if (path !== undefined && !socket.destroyed) answer(socket, path);
  });
  let next = 0;
  const plan = fc.record({
    behaviour: fc.constantFrom(...BEHAVIOURS),
    hasBody: fc.boolean(),
    givesUp: fc.constantFrom(false, false, false, true),
    waits: fc.boolean(),
  });

  await fc.assert(
    fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 25 }), async (plans) => {
      const pool = poolTo(origin.url, { maxConnections: 3 });
      const asked = plans.map(async ({ behaviour, hasBody, givesUp, waits }) => {
        if (waits) await new Promise((resolve) => setImmediate(resolve));
        next += 1;
        const path = `/${behaviour}/${next}`;
        const body = hasBody ? Readable.from([Buffer.from('body')]) : undefined;
        const asker = send(pool, { path, method: hasBody ? 'POST' : 'GET', body }, new Asker());
        if (givesUp) setImmediate(() => asker.control?.abort(new Error('given up')));
        await asker.done;
        return { asker, path, behaviour, givesUp };
      });

      for (const { asker, path, givesUp } of await Promise.all(asked)) {
        expect(asker.ends).toBe(1);
        if (asker.complete) expect(asker.body).toBe(path);
        else expect(path.startsWith(asker.body) || `${path}evil`.startsWith(asker.body)).toBe(true);
        if (givesUp && !asker.complete) expect(asker.error).toBeDefined();
      }
      const after = send(pool, { path: '/length/0' });
      expect(await after.done).toMatchObject({ body: '/length/0', complete: true });
      await pool.close();
    }),
    { numRuns: 60 },
  );
});

test.each(BEHAVIOURS)(
  'on a connection of its own, a server that answers with %s is told apart',
  async (behaviour) => {
    const origin = await startRawOrigin((socket, text) => {
      const path = /(\/\w+\/\d+) HTTP/.exec(text)?.[1];
      if (path !== undefined && text.endsWith('\r\n\r\n')) answer(socket, path);
    });

    const asker = await send(poolTo(origin.url), { path: `/${behaviour}/1` }).done;

    const complete = WHOLE.has(behaviour) || ['extra', 'second', 'closesAfter'].includes(behaviour);
    expect(asker.complete).toBe(complete);
    if (complete) expect(asker.body).toBe(`/${behaviour}/1`);
  },
);
