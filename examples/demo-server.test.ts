import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { virtualClock, type VirtualClock } from 'spillgate/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createDemoServer } from './demo/create-demo-server.ts';

describe('the demo server', () => {
  let clock: VirtualClock;
  let waits: number[];
  let server: Server;
  let url: string;

  beforeEach(async () => {
    clock = virtualClock();
    waits = [];
    server = createDemoServer({ clock, sleep: async (ms) => waits.push(ms) });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${portOf(server)}`;
  });

  afterEach(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });

  async function get(path: string): Promise<Response> {
    return fetch(url + path);
  }

  async function statuses(path: string, count: number): Promise<number[]> {
    const found: number[] = [];
    for (let request = 0; request < count; request += 1) found.push((await get(path)).status);
    return found;
  }

  test.each([
    ['/api', 5],
    ['/login', 3],
    ['/upload?cost=3', 3],
    ['/queue', 5],
    ['/both', 3],
  ])('admits as many as the policy says on %s, then answers 429', async (path, admitted) => {
    const found = await statuses(path, admitted + 2);

    expect(found).toEqual([...Array.from({ length: admitted }, () => 200), 429, 429]);
  });

  test('says in its headers what is left and when the limit is as new', async () => {
    const { headers } = await get('/api');

    expect(Object.fromEntries(headers)).toMatchObject({
      ratelimit: '"api";r=4;t=2',
      'x-ratelimit-limit': '5',
      'x-ratelimit-remaining': '4',
      'x-ratelimit-reset': '2',
    });
    expect(headers.has('retry-after')).toBe(false);
  });

  test('explains a denial in a problem body', async () => {
    await statuses('/api', 5);
    clock.advance(300);

    const denied = await get('/api');

    expect(Object.fromEntries(denied.headers)).toMatchObject({
      'content-type': 'application/problem+json',
      ratelimit: '"api";r=0;t=10',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '10',
      'retry-after': '2',
    });
    expect(await denied.json()).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      detail: 'The policy "api" admits this request again in 2 s.',
      retryAfterMs: 1700,
      'violated-policies': ['api'],
    });
  });

  test.each(['/api', '/login', '/upload?cost=7', '/queue', '/both'])(
    'admits a client on %s that obeyed Retry-After',
    async (path) => {
      for (let round = 0; round < 3; round += 1) {
        let response = await get(path);
        while (response.status === 200) response = await get(path);
        const retryAfter = Number(response.headers.get('retry-after'));
        expect(retryAfter).toBeGreaterThanOrEqual(1);

        clock.advance(`${retryAfter}s`);

        expect((await get(path)).status).toBe(200);
      }
    },
  );

  test('lets queued requests wait for their turn', async () => {
    await statuses('/queue', 3);

    expect(waits).toEqual([500, 1000]);
  });

  test('charges both limits or neither', async () => {
    await statuses('/both', 3);

    const denied = await get('/both');

    expect(denied.status).toBe(429);
    expect(denied.headers.get('ratelimit')).toContain('"day";r=997;');
    expect(await denied.json()).toMatchObject({ 'violated-policies': ['minute'] });
  });

  test('spends nothing for a cost of 0', async () => {
    expect(await statuses('/upload?cost=0', 20)).not.toContain(429);
    expect((await get('/upload?cost=10')).status).toBe(200);
  });

  test.each(['abc', '-1', '1.5', '1e1', '', '11', '99999999999'])('answers 400 to cost=%s', async (cost) => {
    const response = await get(`/upload?cost=${cost}`);

    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      detail: 'cost has to be a whole number from 0 to 10; 0 only looks.',
    });
  });

  test.each(['/nothing', '//', '/api/', '/%', '/constructor'])('answers 404 to %s', async (path) => {
    const response = await get(path);

    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      detail: `There is no ${path} here. Try /api, /login, /upload, /queue, /both.`,
    });
  });

  test('explains itself at /', async () => {
    const text = await (await get('/')).text();

    expect(text).toContain(`curl -i ${url}/api`);
  });
});

describe('the program', () => {
  test('says where it runs and what to try, and closes on a signal', async () => {
    const { program, output, exitCode } = start('0');
    while (!output().includes('Ctrl-C')) await once(program.stdout, 'data');
    const [url = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(output()) ?? [];
    const response = await fetch(`${url}/api`);

    program.kill('SIGTERM');

    expect(response.status).toBe(200);
    expect(await exitCode).toBe(0);
    expect(output()).toMatch(/Closed on SIGTERM\.\n$/);
  });

  test('says what to do when the port is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');

    const { output, exitCode } = start(String(portOf(other)));

    expect(await exitCode).toBe(1);
    expect(output()).toBe(
      `Port ${portOf(other)} is taken. Stop what runs there, or let the demo find a free port: PORT=0\n`,
    );
    other.close();
  });

  test.each(['abc', '70000', '-1'])('refuses PORT=%s', async (port) => {
    const { output, exitCode } = start(port);

    expect(await exitCode).toBe(1);
    expect(output()).toBe(`PORT is "${port}"; expected 0 (any free port) to 65535, such as PORT=8081\n`);
  });
});

interface Started {
  readonly program: ChildProcessByStdio<null, Readable, Readable>;
  /** What it has printed so far. */
  readonly output: () => string;
  readonly exitCode: Promise<unknown>;
}

function start(port: string): Started {
  const program = spawn(process.execPath, [fileURLToPath(new URL('build/demo-server.js', import.meta.url))], {
    env: { ...process.env, PORT: port },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [program.stdout, program.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      printed += chunk.toString('utf8');
    });
  }
  return {
    program,
    output: () => printed,
    exitCode: once(program, 'close').then(([code]: unknown[]) => code),
  };
}

function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen');
  return address.port;
}
