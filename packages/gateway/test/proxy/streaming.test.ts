import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { expect, onTestFinished, test } from 'vitest';
import { leave } from './http2-client.ts';
import { listen } from './rig.ts';
import { ProxyProcess } from './proxy-process.ts';
import { untilSteady } from './local-server.ts';

const GIB = 2 ** 30;
const MIB = 2 ** 20;
const CHUNK = Buffer.alloc(MIB, 'x');
/** A gigabyte takes its time on a machine that is busy with something else. */
const DEADLINE_MS = 120_000;
/** What a process may grow by while any amount flows through it. */
const MAX_GROWTH = 64 * MIB;

interface Sink {
  write(chunk: Buffer): boolean;
  end(): void;
  once(event: 'drain', listener: () => void): unknown;
}

async function pour(sink: Sink, bytes: number): Promise<void> {
  for (let sent = 0; sent < bytes; sent += CHUNK.length) {
    if (!sink.write(CHUNK)) await new Promise<void>((resolve) => sink.once('drain', resolve));
  }
  sink.end();
}

async function count(source: AsyncIterable<unknown>): Promise<number> {
  let bytes = 0;
  for await (const chunk of source) bytes += (chunk as Buffer).length;
  return bytes;
}

/** Sends as much as `?bytes=` asks for, and answers a body with its length. */
async function start(): Promise<ProxyProcess> {
  const server = createServer((incoming, response) => {
    const bytes = Number(new URL(incoming.url ?? '/', 'http://a').searchParams.get('bytes') ?? 0);
    if (bytes > 0) void pour(response, bytes);
    else void count(incoming).then((length) => response.end(String(length)));
  });
  const port = await listen(server);
  const proxy = await ProxyProcess.start(`http://127.0.0.1:${port}`);
  // Code and buffers that any traffic needs are not growth.
  await download(proxy, 32 * MIB);
  await upload(proxy, 32 * MIB);
  return proxy;
}

async function download({ port }: ProxyProcess, bytes: number): Promise<number> {
  const outgoing = httpRequest({ port, path: `/?bytes=${bytes}` }).end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return count(response);
}

async function upload({ port }: ProxyProcess, bytes: number): Promise<string> {
  const outgoing = httpRequest({ port, method: 'POST', path: '/' });
  const [[response]] = (await Promise.all([once(outgoing, 'response'), pour(outgoing, bytes)])) as [
    [IncomingMessage],
    void,
  ];
  response.setEncoding('utf8');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}

async function growth(proxy: ProxyProcess, run: () => Promise<void>): Promise<number> {
  const before = await proxy.usage('reset');
  await run();
  return (await proxy.usage('look')).peak - before.rss;
}

test(
  'a gigabyte in either direction flows through, and does not stay',
  async () => {
    const proxy = await start();

    const down = await growth(proxy, async () => {
      expect(await download(proxy, GIB)).toBe(GIB);
    });
    const up = await growth(proxy, async () => {
      expect(await upload(proxy, GIB)).toBe(String(GIB));
    });

    expect(down).toBeLessThan(MAX_GROWTH);
    expect(up).toBeLessThan(MAX_GROWTH);
  },
  DEADLINE_MS,
);

test('clients that do not read hold back the upstream, not fill the gateway', async () => {
  const proxy = await start();

  const grown = await growth(proxy, async () => {
    const waiting = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const outgoing = httpRequest({ port: proxy.port, path: `/?bytes=${GIB}`, agent: false }).end();
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
        onTestFinished(() => void response.destroy());
        return response;
      }),
    );
    await untilSteady(() => waiting.reduce((sum, { socket }) => sum + socket.bytesRead, 0));
    expect(waiting.every(({ complete }) => !complete)).toBe(true);
  });

  expect(grown).toBeLessThan(MAX_GROWTH);
});

test('HTTP/2 streams are held back one by one', async () => {
  const proxy = await start();
  const session = connectHttp2(`http://127.0.0.1:${proxy.port}`);
  onTestFinished(async () => leave(session));

  const grown = await growth(proxy, async () => {
    const stream = session.request({ ':path': `/?bytes=${64 * MIB}` });
    expect(await count(stream)).toBe(64 * MIB);
    const upstream = session.request({ ':path': '/', ':method': 'POST' });
    const [text] = await Promise.all([
      (async () => {
        let answer = '';
        for await (const chunk of upstream.setEncoding('utf8')) answer += String(chunk);
        return answer;
      })(),
      pour(upstream, 64 * MIB),
    ]);
    expect(text).toBe(String(64 * MIB));
  });

  expect(grown).toBeLessThan(MAX_GROWTH);
});
