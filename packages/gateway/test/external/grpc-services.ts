// gRPC services of plain HTTP/2 frames: what no library would let them say can be said.
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';

export interface GrpcTestService {
  readonly address: string;
  readonly calls: () => number;
  close(): Promise<void>;
}

/** `drop` ends all connections without a word. */
export type GrpcReply = (stream: ServerHttp2Stream, drop: () => void) => void;

export function frame(message: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed, 0);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Frames, and how the call ends. */
export function grpcReply(
  body: Uint8Array,
  trailers: Readonly<Record<string, string>> = { 'grpc-status': '0' },
  headers: Readonly<Record<string, string>> = {},
): GrpcReply {
  return (stream) => {
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc+proto', ...headers },
      { waitForTrailers: true },
    );
    stream.on('wantTrailers', () => stream.sendTrailers({ ...trailers }));
    stream.end(body);
  };
}

export async function startGrpc(reply: GrpcReply): Promise<GrpcTestService> {
  let calls = 0;
  // Destroying a session from within its stream corrupts the memory of Node 20; a socket may go at any time.
  const sockets = new Set<Socket>();
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('session', (session) => session.on('error', () => undefined));
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    stream.resume();
    stream.on('end', () => {
      calls += 1;
      reply(stream, drop);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    calls: () => calls,
    close: async () => {
      drop();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
