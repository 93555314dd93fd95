import { connect, type Socket } from 'node:net';

import { answerLength } from '../http/load.ts';

const CONNECTIONS = 32;
const TICK_MS = 2;

interface PacedLoad {
  readonly port: number;
  /** Undefined: as many as there can be. */
  readonly perSecond?: number;
  /** Who asks, for each request. */
  readonly keyOf: (number: number) => string;
}

/** Sends requests over kept-alive connections at a steady rate, for a time or until there were so many. */
export async function sendPaced(
  { port, perSecond, keyOf }: PacedLoad,
  { forMs = Infinity, requests = Infinity }: { readonly forMs?: number; readonly requests?: number },
): Promise<number> {
  const startedMs = performance.now();
  const lanes = Array.from({ length: CONNECTIONS }, () => new Lane(port));
  let sent = 0;
  const isOver = (): boolean => sent >= requests || performance.now() - startedMs >= forMs;
  while (!isOver()) {
    const due = perSecond === undefined ? Infinity : ((performance.now() - startedMs) * perSecond) / 1000;
    const idle = lanes.filter((lane) => lane.idle);
    for (const lane of idle) {
      if (sent >= due || isOver()) break;
      lane.ask(keyOf(sent));
      sent += 1;
    }
    await (perSecond === undefined ? Promise.race(lanes.map((lane) => lane.answered)) : tick());
  }
  await Promise.all(lanes.map((lane) => lane.answered));
  for (const lane of lanes) lane.close();
  return sent;
}

function tick(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, TICK_MS);
  });
}

class Lane {
  idle = true;
  answered: Promise<void> = Promise.resolve();
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #done: () => void = () => undefined;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.once('error', (failure) => {
      throw failure;
    });
  }

  ask(key: string): void {
    this.idle = false;
    this.answered = new Promise((resolve) => {
      this.#done = resolve;
    });
    this.#socket.write(`GET /items HTTP/1.1\r\nHost: shop.example.com\r\nX-Key: ${key}\r\n\r\n`);
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const length = answerLength(this.#received, undefined);
    if (length === undefined || this.#received.length < length) return;
    this.#received = this.#received.subarray(length);
    this.idle = true;
    this.#done();
  }
}
