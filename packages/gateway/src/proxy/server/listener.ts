import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import type { Log } from '../../telemetry/log.ts';

/** Where clients connect. It outlives the server behind it, which may be replaced while the port stays open. */
export class TcpListener {
  /** As the configuration names it. */
  readonly configured: string;
  /** Connections so far. */
  accepted = 0;
  private readonly server: Server;
  private take: ((socket: Socket) => void) | undefined;
  /** Connections accepted before there was a server for them. */
  private readonly early = new Set<Socket>();

  private constructor(configured: string, server: Server) {
    this.configured = configured;
    this.server = server;
    server.on('connection', (socket) => this.arrived(socket));
  }

  /** Listens, and lets those who come wait until `serve` is called. Rejects with the system's error. */
  static async open(configured: string, log: Log): Promise<TcpListener> {
    // A client that closed its sending side still gets its answer.
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    const port = new TcpListener(configured, server);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(parseAddress(configured), () => {
        server.off('error', reject);
        // A connection that cannot be accepted (too many open files) must not end the process.
        server.on('error', (error) => log.error({ err: error }, 'a connection was not accepted'));
        resolve();
      });
    });
    return port;
  }

  address(): AddressInfo {
    const address = this.server.address();
    if (address === null || typeof address === 'string')
      throw new Error('the proxy does not listen on a port');
    return address;
  }

  /** From now on connections go there. */
  serve(take: (socket: Socket) => void): void {
    this.take = take;
    for (const socket of this.early) {
      socket.off('error', ignore);
      if (!socket.destroyed) take(socket);
    }
    this.early.clear();
  }

  /** More are closed without a look; `dropped` hears of it. */
  bound(maxConnections: number): void {
    this.server.maxConnections = maxConnections;
  }

  onDrop(dropped: () => void): void {
    this.server.on('drop', dropped);
  }

  get isOpen(): boolean {
    return this.server.listening;
  }

  /** Closes the port; what is open goes on. */
  stopAccepting(): void {
    if (this.isOpen) this.server.close();
  }

  /** Nobody will serve it. */
  close(): void {
    this.stopAccepting();
    for (const socket of this.early) socket.destroy();
  }

  private arrived(socket: Socket): void {
    this.accepted += 1;
    if (this.take !== undefined) {
      this.take(socket);
      return;
    }
    this.early.add(socket);
    socket.on('error', ignore);
    socket.once('close', () => this.early.delete(socket));
  }
}

/** `:8080`, `127.0.0.1:8080` or `[::1]:8080`; without a host all addresses. */
function parseAddress(text: string): { readonly host: string | undefined; readonly port: number } {
  const { host, port } = splitHostPort(text);
  return { host: host === '' ? undefined : host, port };
}

function ignore(): void {
  // A connection that breaks before its first request concerns nobody; 'close' follows.
}
