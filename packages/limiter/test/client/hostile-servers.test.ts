import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createRawServer, type AddressInfo, type Server } from 'node:net';
import * as fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { politeFetch, type Fetch, type PoliteFetchOptions } from '../../src/client/index.ts';
import { runs } from '../../../../test/runs.ts';

const NOW_US = 1_767_225_600_000_000;

/** Every wait is over at once, and remembered. */
function client(options: PoliteFetchOptions = {}): {
  readonly fetch: ReturnType<typeof politeFetch>;
  readonly waits: number[];
} {
  const waits: number[] = [];
  const sleep = async (ms: number): Promise<void> => void waits.push(ms);
  return { fetch: politeFetch({ sleep, clock: () => NOW_US, random: () => 0, ...options }), waits };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function start(handle: RequestListener): Promise<string> {
  const server = createServer(handle);
  onTestFinished(() => server.closeAllConnections());
  return listen(server);
}

/** A server that writes these bytes to whoever connects. */
async function startRaw(text: string): Promise<string> {
  return listen(
    createRawServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end(text, 'latin1'));
    }),
  );
}

/** When the client has closed the connection, politely or not. */
function end({ socket }: IncomingMessage): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

const IGNORED: readonly string[] = ['1e99', '-5', '+5', '0x5', '5;x', '5, 6', 'Infinity', 'tomorrow', '"5"'];

test.each(IGNORED)('a Retry-After of %s is as none: the refusal is handed on', async (text) => {
  let requests = 0;
  const url = await start((_, response) => {
    requests += 1;
    response.writeHead(429, { 'Retry-After': text }).end();
  });
  const { fetch, waits } = client();

  expect((await fetch(url)).status).toBe(429);
  expect([requests, ...waits]).toEqual([1]);
});

test.each(['9'.repeat(30), '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT'])(
  'a Retry-After of %s is not waited for',
  async (text) => {
    const url = await start((_, response) => response.writeHead(429, { 'Retry-After': text }).end());
    const { fetch, waits } = client({ pace: true, maxWaitMs: 86_400_000 });

    expect((await fetch(url)).status).toBe(429);
    expect((await fetch(url)).status).toBe(429);
    expect(waits).toEqual([]);
  },
);

test.each(['0', 'Thu, 01 Jan 1970 00:00:00 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT'])(
  'a server that says "at once" with %s is asked a few times, not in a loop',
  async (text) => {
    let requests = 0;
    const url = await start((_, response) => {
      requests += 1;
      response.writeHead(503, { 'Retry-After': text }).end();
    });
    const { fetch, waits } = client();

    expect((await fetch(url)).status).toBe(503);
    expect(requests).toBe(4);
    expect(waits).toEqual([100, 200, 400]);
  },
);

test('the same header twice is not taken for one', async () => {
  const url = await startRaw(
    'HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n',
  );
  const { fetch, waits } = client();

  expect((await fetch(url)).status).toBe(429);
  expect(waits).toEqual([]);
});

test('fields split over several lines are one list', async () => {
  const url = await startRaw(
    'HTTP/1.1 429 Too Many Requests\r\nRateLimit: "a";r=0;t=3\r\nRateLimit: "b";r=0;t=7\r\nContent-Length: 0\r\n\r\n',
  );
  const { fetch, waits } = client({ maxRetries: 1 });

  expect((await fetch(url)).status).toBe(429);
  expect(waits).toEqual([7000]);
});

test('headers of a megabyte fail as they do without us, or are ignored where they get through', async () => {
  const megabyte = 'x'.repeat(2 ** 20);
  const url = await startRaw(`HTTP/1.1 429 Too Many Requests\r\nRetry-After: ${megabyte}\r\n\r\n`);
  const lenient = new Map([
    ['retry-after', '1'.repeat(2 ** 20)],
    ['ratelimit', `"a";r=0;t=1${' '.repeat(2 ** 20)}`],
    ['date', megabyte],
  ]);
  const through = async (): Promise<Response> => {
    const response = new Response(null, { status: 429 });
    Object.defineProperty(response, 'headers', {
      value: { get: (name: string) => lenient.get(name) ?? null },
    });
    return response;
  };

  await expect(client().fetch(url)).rejects.toThrow(TypeError);
  expect((await client({ fetch: through, pace: true }).fetch(url)).status).toBe(429);
});

test('a server that contradicts itself costs at most the retries', async () => {
  let requests = 0;
  const url = await start((_, response) => {
    requests += 1;
    response
      .writeHead(requests % 2 === 0 ? 503 : 429, {
        'Retry-After': String(requests % 3),
        RateLimit: `"api";r=${requests % 2 === 0 ? 999_999_999_999_999 : 0};t=999999999999999`,
        'RateLimit-Policy': '"api";q=0;w=1',
        'X-RateLimit-Remaining': '-1',
      })
      .end();
  });
  const { fetch, waits } = client({ maxRetries: 7 });

  expect((await fetch(url)).status).toBe(503);
  expect(requests).toBe(8);
  expect(waits).toEqual([1000, 2000, 400, 1000, 2000, 3200, 6400]);
});

test('a body of a refusal that never ends does not hold the retry up, and its connection is closed', async () => {
  let requests = 0;
  const closed: Promise<unknown>[] = [];
  const url = await start((request: IncomingMessage, response) => {
    requests += 1;
    if (requests > 1) {
      response.end('welcome');
      return;
    }
    closed.push(end(request));
    response.writeHead(429, { 'Retry-After': '1' }).write('la');
  });

  const response = await client().fetch(url);

  expect(await response.text()).toBe('welcome');
  await Promise.all(closed);
  expect(closed).toHaveLength(1);
});

test('a body of a refusal without end is cut off while the wait still lasts', async () => {
  let closed: Promise<unknown> | undefined;
  const url = await start((request, response) => {
    if (closed !== undefined) {
      response.end('welcome');
      return;
    }
    closed = end(request);
    response.writeHead(429, { 'Retry-After': '1' });
    const flood = (): void => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', flood);
    flood();
  });
  // The wait is over when the server has seen the end of its body.
  const response = await client({ sleep: async () => closed }).fetch(url);

  expect(await response.text()).toBe('welcome');
});

test('the connection of a refusal is used again', async () => {
  const sockets = new Set<unknown>();
  let requests = 0;
  const url = await start((request, response) => {
    requests += 1;
    sockets.add(request.socket);
    if (requests < 4) response.writeHead(429, { 'Retry-After': '1' });
    response.end('x'.repeat(30_000));
  });
  const bodies: Promise<void>[] = [];
  const watchedFetch: Fetch = async (...given) => {
    const response = await fetch(...given);
    let flush: (() => void) | undefined;
    bodies.push(new Promise((resolve) => void (flush = resolve)));
    return new Response(
      response.body?.pipeThrough(new TransformStream({ flush: () => void setImmediate(() => flush?.()) })),
      response,
    );
  };

  // The wait is over when the refusal has been read to its end: in the next turn of the event loop its connection is
  // free.
  const response = await client({ fetch: watchedFetch, sleep: async () => bodies.at(-1) }).fetch(url);
  await response.text();

  expect(requests).toBe(4);
  expect(sockets.size).toBe(1);
});

test('a refusal that breaks off is still a refusal', async () => {
  let closed: Promise<unknown> | undefined;
  const url = await start((request, response) => {
    if (closed !== undefined) {
      response.end('welcome');
      return;
    }
    closed = end(request);
    response.writeHead(429, { 'Retry-After': '1', 'Content-Length': '100' });
    response.write('la', () => response.destroy());
  });

  const response = await client({ sleep: async () => closed }).fetch(url);

  expect(await response.text()).toBe('welcome');
});

test('whatever a server says, a call ends within its bounds and with its last answer', async () => {
  const names = [
    'retry-after',
    'ratelimit',
    'ratelimit-policy',
    'x-ratelimit-remaining',
    'x-ratelimit-reset',
    'date',
    'age',
  ];
  const values = fc.oneof(
    fc.constantFrom('0', '1', '60', '"a";r=0;t=1', '"a";r=1;t=60', '"a";q=1;w=1', '4102444800'),
    fc.integer().map(String),
    fc.string({ unit: 'grapheme-ascii' }),
  );
  const answers = fc.array(
    fc.record({
      status: fc.constantFrom(200, 403, 429, 503),
      headers: fc.dictionary(fc.constantFrom(...names), values),
    }),
    { minLength: 1, maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(answers, fc.boolean(), fc.nat(5), async (script, pace, maxRetries) => {
      let nowUs = NOW_US;
      let requests = 0;
      let last: Response | undefined;
      const fetch = politeFetch({
        pace,
        maxRetries,
        maxWaitMs: 10_000,
        clock: () => nowUs,
        sleep: async (ms) => {
          nowUs += Math.ceil(ms * 1000);
        },
        fetch: async () => {
          const { status, headers } = script[requests % script.length] ?? { status: 200, headers: {} };
          requests += 1;
          last = new Response('body', { status, headers });
          return last;
        },
      });
      for (let call = 0; call < 3; call += 1) {
        const [startUs, before] = [nowUs, requests];
        const response = await fetch('https://example.com/');

        expect(response).toBe(last);
        expect(await response.text()).toBe('body');
        expect(requests - before).toBeLessThanOrEqual(1 + maxRetries);
        expect(nowUs - startUs).toBeLessThanOrEqual(10_000_010);
      }
    }),
    { numRuns: runs(1000) },
  );
});
