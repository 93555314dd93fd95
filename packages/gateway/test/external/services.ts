// Services that answer as they are told, over real sockets.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface Asked {
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

export interface TestService {
  readonly url: string;
  readonly asked: Asked[];
  /** The most that were under way at once. */
  readonly peak: () => number;
  close(): Promise<void>;
}

export type Reply = (response: ServerResponse, asked: Asked) => void | Promise<void>;

export const PLAN = { average: 100, burst: 50, period: '1s' };

export function json(
  value: unknown,
  headers: Readonly<Record<string, string | string[]>> = {},
  status = 200,
): Reply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof value === 'string' || value instanceof Uint8Array ? value : JSON.stringify(value));
  };
}

export async function startService(reply: Reply): Promise<TestService> {
  const asked: Asked[] = [];
  const sockets = new Set<Socket>();
  let underWay = 0;
  let peak = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    underWay += 1;
    peak = Math.max(peak, underWay);
    response.on('close', () => {
      underWay -= 1;
    });
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one = { body: Buffer.concat(chunks).toString(), headers: request.headers };
      asked.push(one);
      void reply(response, one);
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/limits`,
    asked,
    peak: () => peak,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
