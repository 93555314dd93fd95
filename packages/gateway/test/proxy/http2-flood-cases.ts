// Floods of HTTP/2, and a client beside them.
import { connect, type ClientHttp2Session } from 'node:http2';
import { onTestFinished } from 'vitest';
import { ask, leave } from './http2-client.ts';
import {
  END_HEADERS,
  END_STREAM,
  frame,
  headersFrame,
  hpack,
  PSEUDO,
  replaced,
  TYPE,
} from './http2-frames.ts';
import { ProxyProcess } from './proxy-process.ts';
import { startOrigin } from './rig.ts';

const ENHANCE_YOUR_CALM = 11;
/** What the protocol library says when its own bounds are met. */
const INTERNAL_ERROR = 2;
const CANCEL = Buffer.from([0, 0, 0, 8]);
const ZERO_WINDOW = Buffer.from([0, 4, 0, 0, 0, 0]);
const POST = replaced(':method', 'POST');

const many = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));
const streamId = (at: number): number => 2 * at + 1;
const opening = (settings: Buffer, ...frames: readonly Buffer[]): Buffer =>
  Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(TYPE.settings, 0, 0, settings),
    ...frames,
  ]);
const plain = (...frames: readonly Buffer[]): Buffer => opening(Buffer.alloc(0), ...frames);

/** Each stream with what follows it, 100 to a packet. */
const streams = (count: number, next: (id: number) => Buffer): readonly Buffer[] =>
  Array.from({ length: count / 100 }, (_, packet) =>
    many(100, (at) => {
      const id = streamId(100 * packet + at);
      return Buffer.concat([headersFrame(id, PSEUDO), next(id)]);
    }),
  );

export const FLOODS = [
  {
    name: 'requests that are broken off at once',
    opening: plain(),
    pieces: streams(100_000, (id) => frame(TYPE.reset, 0, id, CANCEL)),
    endless: false,
    codes: [ENHANCE_YOUR_CALM],
  },
  {
    name: 'requests that we are made to break off',
    opening: plain(),
    pieces: streams(100_000, (id) => frame(TYPE.windowUpdate, 0, id, Buffer.alloc(4))),
    endless: false,
    codes: [INTERNAL_ERROR],
  },
  {
    name: 'CONTINUATION without an end',
    opening: plain(frame(TYPE.headers, END_STREAM, 1, hpack(PSEUDO))),
    pieces: [many(100, () => frame(TYPE.continuation, 0, 1, hpack([['x', 'a'.repeat(50)]])))],
    endless: true,
    codes: [INTERNAL_ERROR],
  },
  {
    name: 'DATA of one byte on one stream',
    opening: plain(headersFrame(1, POST, END_HEADERS)),
    pieces: [many(1000, () => frame(TYPE.data, 0, 1, Buffer.from('x')))],
    endless: true,
    codes: [ENHANCE_YOUR_CALM],
  },
  {
    name: 'DATA of one byte on many streams',
    opening: plain(many(60, (at) => headersFrame(streamId(at), POST, END_HEADERS))),
    pieces: [many(6000, (at) => frame(TYPE.data, 0, streamId(at % 60), Buffer.from('x')))],
    endless: true,
    codes: [ENHANCE_YOUR_CALM],
  },
  {
    name: 'DATA of no bytes',
    opening: plain(headersFrame(1, POST, END_HEADERS)),
    pieces: [many(1000, () => frame(TYPE.data, 0, 1))],
    endless: true,
    codes: [INTERNAL_ERROR],
  },
  {
    name: 'PING',
    opening: plain(),
    pieces: [many(1000, () => frame(TYPE.ping, 0, 0, Buffer.alloc(8)))],
    endless: true,
    codes: [INTERNAL_ERROR, ENHANCE_YOUR_CALM],
  },
  {
    name: 'SETTINGS',
    opening: plain(),
    pieces: [many(1000, () => frame(TYPE.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, 100])))],
    endless: true,
    codes: [INTERNAL_ERROR, ENHANCE_YOUR_CALM],
  },
  {
    name: 'PRIORITY',
    opening: plain(),
    pieces: [many(1000, () => frame(TYPE.priority, 0, 1, Buffer.from([0, 0, 0, 3, 1])))],
    endless: true,
    codes: [ENHANCE_YOUR_CALM],
  },
];

const MIB = 2 ** 20;

/** Opens streams for large responses and takes nothing of them. */
export const NOTHING_TAKEN = opening(
  ZERO_WINDOW,
  many(30, (at) => headersFrame(streamId(at), replaced(':path', '/big'))),
);

export interface Beside {
  readonly proxy: ProxyProcess;
  readonly client: ClientHttp2Session;
}

/** A proxy in a process of its own, and a client that it serves. */
export async function startBeside(): Promise<Beside> {
  const origin = await startOrigin(({ url }, response) => {
    if (url === '/other') response.end('ok');
    if (url === '/big') response.end('x'.repeat(MIB));
  });
  const proxy = await ProxyProcess.start(origin.url);
  const client = connect(`http://127.0.0.1:${proxy.port}`);
  onTestFinished(async () => leave(client));
  return { proxy, client };
}

/** How long each request took until the moment; every one is answered, and there is at least one. */
export async function latencies(
  client: ClientHttp2Session,
  until: Promise<unknown>,
): Promise<readonly number[]> {
  const state = { over: false };
  void until.finally(() => (state.over = true));
  const all: number[] = [];
  while (!state.over || all.length === 0) {
    const startedAt = performance.now();
    const { body } = await ask(client, { ':path': '/other' });
    if (body !== 'ok') throw new Error(`an answer was ${body}`);
    all.push(performance.now() - startedAt);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return all;
}
