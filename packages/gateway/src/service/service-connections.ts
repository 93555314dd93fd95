import type { ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';

/** A connection past its age may finish what it has begun, for so long. */
const AGE_GRACE_MS = 10_000;

interface ServiceConnection {
  readonly socket: Socket;
  session: ServerHttp2Session | undefined;
  /** Calls in flight. */
  calls: number;
  /** The next answer is its last. */
  ending: boolean;
}

/** What TLS and HTTP/2 wrap around a socket still knows these two. */
export interface SocketEnds {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** The open connections of the service: how old they are, and how they end without cutting off a call. */
export class ServiceConnections {
  private readonly open = new Map<string, ServiceConnection>();

  /** `maxAgeMs`: 0 is forever. */
  add(socket: Socket, maxAgeMs: number): void {
    const connection: ServiceConnection = { socket, session: undefined, calls: 0, ending: false };
    const id = idOf(socket);
    this.open.set(id, connection);
    const timers: NodeJS.Timeout[] = [];
    if (maxAgeMs > 0) {
      timers.push(setTimeout(() => end(connection), maxAgeMs).unref());
      timers.push(setTimeout(() => socket.destroy(), maxAgeMs + AGE_GRACE_MS).unref());
    }
    socket.once('close', () => {
      for (const timer of timers) clearTimeout(timer);
      this.open.delete(id);
    });
    // 'close' follows.
    socket.on('error', () => undefined);
  }

  speaksHttp2(session: ServerHttp2Session): void {
    const connection = this.open.get(idOf(session.socket));
    if (connection === undefined) return;
    connection.session = session;
    if (connection.ending) session.close();
  }

  /** Until the returned function is called. */
  began(socket: SocketEnds): () => void {
    const connection = this.open.get(idOf(socket));
    if (connection === undefined) return () => undefined;
    connection.calls += 1;
    return () => {
      connection.calls -= 1;
      if (connection.ending && connection.calls === 0) connection.socket.end();
    };
  }

  isEnding(socket: SocketEnds): boolean {
    return this.open.get(idOf(socket))?.ending ?? true;
  }

  /** All of them, behind what is in flight. */
  endAll(): void {
    for (const connection of this.open.values()) end(connection);
  }

  destroyAll(): void {
    for (const { socket } of this.open.values()) socket.destroy();
  }
}

function end(connection: ServiceConnection): void {
  connection.ending = true;
  // HTTP/2 says so with a GOAWAY, and closes behind its last stream.
  if (connection.session !== undefined) connection.session.close();
  else if (connection.calls === 0) connection.socket.end();
}

function idOf({ remoteAddress = '', remotePort = 0 }: SocketEnds): string {
  return `${remoteAddress} ${remotePort}`;
}
