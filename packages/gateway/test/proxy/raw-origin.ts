// A backend that answers with exact bytes.
import { createServer, type Socket } from 'node:net';
import { listen } from './rig.ts';

export interface RawOrigin {
  readonly url: string;
  /** What arrived, by connection. */
  readonly received: string[];
  readonly sockets: Socket[];
}

/** `answer` is called for every piece that arrives, with everything that arrived so far on the connection. */
export async function startRawOrigin(answer: (socket: Socket, text: string) => void): Promise<RawOrigin> {
  const received: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const at = received.push('') - 1;
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      received[at] += chunk.toString('latin1');
      answer(socket, received[at] ?? '');
    });
  });
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}`, received, sockets };
}

/** Answers every whole request without a body with these bytes. */
export async function startParrot(bytes: string, close = false): Promise<RawOrigin> {
  return startRawOrigin((socket, text) => {
    if (!text.endsWith('\r\n\r\n')) return;
    socket.write(bytes, 'latin1');
    if (close) socket.destroySoon();
  });
}
