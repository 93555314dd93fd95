// A server of HTTP/2 made of our own connections, without the service behind it.
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { FrameConnection } from '../../../src/service/http2/connection.ts';
import { nodeCall } from '../../../src/service/http2/node-call.ts';
import type { ServiceStream } from '../../../src/service/http2/stream.ts';

export interface StreamServer {
  readonly port: number;
  /** Mistakes of ours. */
  readonly failures: readonly unknown[];
}

/** Ends with the test. */
export async function serveStreams(
  serve: (stream: ServiceStream, socket: Socket) => void,
): Promise<StreamServer> {
  const failures: unknown[] = [];
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const failed = (failure: unknown): void => void failures.push(failure);
    void new FrameConnection(socket, { open: (stream) => serve(stream, socket), failed });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, failures };
}

/** Sends back the body, and in a header what it got as headers. */
export function echo(stream: ServiceStream, socket: Socket): void {
  const { request, response } = nodeCall(stream, socket);
  response.writeHead(200, { 'x-got': encodeURIComponent(JSON.stringify(request.headers)) });
  request.pipe(response);
}
