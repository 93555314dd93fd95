import type { AddressInfo, Server, Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface LocalServer {
  readonly port: number;
  readonly sockets: ReadonlySet<Socket>;
  /** How many connections were ever opened. */
  accepted(): number;
}

/** Lets a server listen on 127.0.0.1 until the test has finished; its connections end with it. */
export async function listen(server: Server, host = '127.0.0.1'): Promise<LocalServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on('connection', (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, host, resolve);
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });
  const { port } = server.address() as AddressInfo;
  return { port, sockets, accepted: () => accepted };
}

const POLL_MS = 5;
/** The real one, also where a test has put a clock of its own in its place. */
const afterMs = setTimeout;
/** So many equal looks in a row are rest. */
const STEADY_LOOKS = 20;

/** Waits until something holds; a test that waits in vain fails by its deadline. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await look();
}

/** Waits until a number has stopped changing. */
export async function untilSteady(read: () => number): Promise<void> {
  let last = read();
  for (let equal = 0; equal < STEADY_LOOKS;) {
    await look();
    const now = read();
    equal = now === last ? equal + 1 : 0;
    last = now;
  }
}

/**
 * Lets arrive what is on its way between sockets of this process: each turn of the loop reads all of them. For what
 * must not happen; what has to happen is waited for.
 */
export async function letArrive(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

async function look(): Promise<void> {
  await new Promise((resolve) => {
    afterMs(resolve, POLL_MS);
  });
}
