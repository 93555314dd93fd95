// How bytes flow between a server and whoever asks: in time, at the pace of the slower one, and never more than
// announced.
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { listen, until } from '../proxy/local-server.ts';
import { startRawOrigin } from '../proxy/raw-origin.ts';
import { Asker, ask, poolTo, send } from './asking.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

test('a server that does not answer in time is a timeout, and so is one that falls silent; a slow reader is not', async () => {
  const origin = await startRawOrigin((socket, text) => {
    if (text.includes('/half')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
  });
  const pool = poolTo(origin.url);
  const reader = new Asker();
  reader.slow = true;

  const silent = ask(pool, { headersTimeoutMs: 50 });
  const half = ask(pool, { path: '/half', bodyTimeoutMs: 50 });
  send(pool, { path: '/half', bodyTimeoutMs: 50 }, reader);

  expect((await silent).error).toMatchObject({ code: 'HEADERS_TIMEOUT' });
  expect((await half).error).toMatchObject({ code: 'BODY_TIMEOUT' });
  expect((await half).body).toBe('half');
  await pause(150);
  expect(reader.ends).toBe(0);
  reader.control?.resume();
  expect((await reader.done).error).toMatchObject({ code: 'BODY_TIMEOUT' });
});

test('bytes that keep coming are no silence', async () => {
  const origin = await startRawOrigin((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n');
    let sent = 0;
    const drip = setInterval(() => {
      socket.write('x');
      sent += 1;
      if (sent === 10) clearInterval(drip);
    }, 120);
  });

  const slow = await ask(poolTo(origin.url), { bodyTimeoutMs: 1000 });

  expect(slow).toMatchObject({ body: 'xxxxxxxxxx', complete: true });
});

test('a reader that does not read stops the server, and nothing is lost when it goes on', async () => {
  const BYTES = 50_000_000;
  let taken = 0;
  const local = await listen(
    createHttpServer((_, response) => {
      response.setHeader('Content-Length', BYTES);
      const chunk = Buffer.alloc(50_000);
      const write = (): void => {
        while (taken < BYTES) {
          taken += chunk.length;
          if (!response.write(chunk)) {
            response.once('drain', write);
            return;
          }
        }
        response.end();
      };
      write();
    }),
  );
  const reader = new Asker();
  reader.slow = true;
  send(poolTo(`http://127.0.0.1:${local.port}`), {}, reader);
  await until(() => reader.status === 200);
  await pause(200);

  // One read, and no other.
  expect(reader.bytes).toBeLessThanOrEqual(65_536);
  expect(taken).toBeLessThan(BYTES / 2);
  while (!reader.complete) {
    reader.control?.resume();
    if (reader.bytes > BYTES / 100) reader.slow = false;
    await pause(1);
  }
  expect(reader.bytes).toBe(BYTES);
});

test('a server that does not read stops the body, and gets all of it when it goes on', async () => {
  let socket: Socket | undefined;
  const received: Buffer[] = [];
  const local = await listen(
    createServer((accepted) => {
      socket = accepted.pause();
      accepted.on('data', (chunk) => {
        received.push(chunk);
        if (chunk.toString('latin1').endsWith('0\r\n\r\n')) accepted.write(OK);
      });
      accepted.pause();
    }),
  );
  let given = 0;
  const chunk = Buffer.alloc(65_536, 'x');
  const TOTAL = 400;
  const body = new Readable({
    read() {
      given += 1;
      this.push(given > TOTAL ? null : chunk);
    },
  });
  const asker = send(poolTo(`http://127.0.0.1:${local.port}`), { method: 'POST', body });
  await until(() => socket !== undefined && given > 1);
  await pause(200);

  expect(given).toBeLessThan(TOTAL);
  socket?.resume();

  expect((await asker.done).body).toBe('ok');
  const text = Buffer.concat(received).toString('latin1');
  expect(text.match(/^10000\r$/gm)).toHaveLength(TOTAL);
});

test('a body that breaks off never looks whole to the server', async () => {
  const origin = await startRawOrigin(() => undefined);
  const pool = poolTo(origin.url);
  const body = new PassThrough();
  const asker = send(pool, { method: 'POST', body });
  body.write('half');
  await until(() => origin.received[0]?.includes('half') === true);

  body.destroy(new Error('gone'));
  await asker.done;
  await until(() => origin.sockets[0]?.readableEnded === true);

  expect(asker.error?.message).toBe('gone');
  expect(origin.received[0]).toMatch(/transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n$/);
});

test.each([
  ['longer', 'abcdef'],
  ['shorter', 'abc'],
])('a body that is %s than announced is not sent to its end', async (_, text) => {
  const origin = await startRawOrigin(() => undefined);
  const pool = poolTo(origin.url);

  const asker = await ask(pool, {
    method: 'POST',
    headers: ['Content-Length', '5'],
    body: Readable.from([Buffer.from(text)]),
  });

  expect(asker.error).toMatchObject({ code: 'BAD_REQUEST' });
  expect(origin.received.join('')).not.toContain('abcdef');
});
