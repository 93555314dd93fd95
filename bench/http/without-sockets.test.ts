import { expect, test } from 'vitest';
import { cpuUsWithoutSockets } from './without-sockets.ts';

test('a handler gets whole requests of one client, and a request takes time', async () => {
  const seen = new Set<string>();

  const us = await cpuUsWithoutSockets((request, response) => {
    seen.add(`${request.method} ${request.url} ${request.headers.host} ${request.socket.remoteAddress}`);
    response.setHeader('x', 'y');
    response.end('hello');
  }, 20);

  expect([...seen]).toEqual(['GET / localhost 127.0.0.1']);
  expect(us).toBeGreaterThan(0);
});

test('a request that is refused or never answered is a mistake', async () => {
  await expect(
    cpuUsWithoutSockets((_, response) => {
      response.statusCode = 429;
      response.end();
    }, 20),
  ).rejects.toThrow('429');
  await expect(cpuUsWithoutSockets(() => undefined, 20)).rejects.toThrow('no end');
});
