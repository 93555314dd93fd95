import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { listen } from '../local-server.ts';
import type { HttpServer } from './tunnel-gateway.ts';

/** An upstream that speaks bytes: `answer` is what it says to the handshake. */
export async function rawUpstream(
  answer: string,
): Promise<{ url: string; received(): string; sockets: Socket[] }> {
  let received = '';
  const sockets: Socket[] = [];
  const { port } = await listen(
    createServer({ allowHalfOpen: true }, (socket) => {
      sockets.push(socket);
      let answered = false;
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1');
        if (answered || !received.includes('\r\n\r\n')) return;
        answered = true;
        socket.write(answer);
      });
    }),
  );
  return { url: `http://127.0.0.1:${port}`, received: () => received, sockets };
}

export function isOver(socket: Socket | undefined): boolean {
  return socket !== undefined && (socket.destroyed || socket.readableEnded);
}

/** The code that a side was told at the end. */
export async function closeCode(socket: WebSocket): Promise<number> {
  return new Promise((resolve) => {
    socket.once('close', resolve);
  });
}

/** The next client of a server, and what it asked for. */
export async function nextClient(
  server: WebSocketServer,
): Promise<{ socket: WebSocket; request: IncomingMessage }> {
  return new Promise((resolve) => {
    server.once('connection', (socket, request) => resolve({ socket, request }));
  });
}

export async function echoServer(
  options = {},
  http = createHttpServer(),
): Promise<{ url: string; server: WebSocketServer }> {
  const server = new WebSocketServer({ server: http, ...options });
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
  });
  const { port } = await listen(http);
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}`, server };
}

export async function openClient(
  front: HttpServer,
  options: ConstructorParameters<typeof WebSocket>[2] = {},
): Promise<WebSocket> {
  const client = new WebSocket(`ws://127.0.0.1:${front.port}/chat`, options);
  onTestFinished(() => client.terminate());
  client.on('error', () => {});
  await once(client, 'open');
  return client;
}

/** The status that a client gets instead of a WebSocket. */
export async function statusOf(
  front: HttpServer,
  headers: Record<string, string> = {},
): Promise<number | undefined> {
  const client = new WebSocket(`ws://127.0.0.1:${front.port}/`, { headers });
  client.on('error', () => {});
  return new Promise((resolve) => {
    client.once('unexpected-response', (_request, response) => {
      resolve(response.statusCode);
      response.destroy();
    });
    client.once('open', () => {
      resolve(101);
      client.terminate();
    });
  });
}
