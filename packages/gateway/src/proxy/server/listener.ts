import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { splitHostPort } from 'spillgate/internal';
import type { Config } from '../../config/config.ts';
import { type Log, ThrottledWarning } from '../../telemetry/log.ts';
import type { ConnectionBound, TrafficListener } from '../../telemetry/traffic.ts';
import { CountByKey } from '../context.ts';
import { readingRules } from '../request/read-request.ts';
import type { HttpServer } from './http-server.ts';
import type { OverheadBudgets } from './overhead-budget.ts';

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

export interface ConnectionLimitsParts {
  readonly config: () => Config;
  readonly traffic: TrafficListener;
  readonly log: Log;
}

/**
 * Counts the open connections of all clients and of each, and closes those that are too many before anything is read of
 * them.
 */
export class ConnectionLimits {
  private readonly parts: ConnectionLimitsParts;
  private open = 0;
  private readonly byAddress = new CountByKey();
  private readonly warnings: Readonly<Record<ConnectionBound, ThrottledWarning>>;

  constructor(parts: ConnectionLimitsParts) {
    this.parts = parts;
    this.warnings = {
      max_connections: new ThrottledWarning(
        parts.log,
        'server.max_connections is reached: connections are closed',
      ),
      max_overhead_per_address: new ThrottledWarning(
        parts.log,
        'server.max_overhead_per_address is used up: too many new connections of this address wait, and further ones are closed',
      ),
      max_connections_per_address: new ThrottledWarning(
        parts.log,
        'server.max_connections_per_address is reached: connections of this address are closed. If it is a load balancer, name it in server.client_address.trusted_proxies',
      ),
    };
  }

  /** Counts a connection until it closes; one too many is closed at once. */
  admits(socket: Socket): boolean {
    const config = this.parts.config();
    if (this.open >= config.server.max_connections) {
      this.refused('max_connections');
      socket.destroy();
      return false;
    }
    const rules = readingRules(config);
    const address = rules.keyOfPeer(socket.remoteAddress);
    const ofAddress = address === undefined ? 0 : this.byAddress.of(address);
    const max = config.server.max_connections_per_address;
    // A proxy has many connections, and many clients behind each of them.
    if (max > 0 && ofAddress >= max && !rules.trustsPeer(socket.remoteAddress)) {
      this.refused('max_connections_per_address', address);
      socket.destroy();
      return false;
    }
    this.open += 1;
    if (address !== undefined) this.byAddress.add(address);
    socket.once('close', () => this.left(address));
    return true;
  }

  /** Also told of connections that are closed elsewhere. */
  refused(bound: ConnectionBound, address?: string): void {
    this.parts.traffic.count('connectionsRefused', bound);
    this.warnings[bound].warn(address === undefined ? {} : { address });
  }

  private left(address: string | undefined): void {
    this.open -= 1;
    if (address !== undefined) this.byAddress.remove(address);
  }
}

/** How long a connection is watched before the next one comes. */
const WATCHED_MS = 20;
/** The same if it was as bad as the one before. */
const PAUSE_MS = 100;
/** Connections of one address that may wait. */
const MAX_WAITING = 100;

export interface SuspectConnection {
  readonly socket: Socket;
  /** Asked when its turn has come: what served others when it began to wait may be gone by then. */
  readonly front: () => Pick<HttpServer, 'accept' | 'chargeFrames'>;
}

/**
 * New connections of addresses that have just used up their budget: one after the other, so that a client that is cut
 * off and connects again costs little, and another one with the same address still gets its turn. Those of all others
 * are served at once.
 */
export class SuspectConnections {
  private readonly budgets: Pick<OverheadBudgets, 'usedUpForMs'>;
  private readonly refused: (address: string) => void;
  private readonly lines = new Map<string, SuspectConnection[]>();

  constructor(budgets: Pick<OverheadBudgets, 'usedUpForMs'>, refused: (address: string) => void) {
    this.budgets = budgets;
    this.refused = refused;
  }

  serve(address: string | undefined, connection: SuspectConnection): void {
    const line = address === undefined ? undefined : this.lines.get(address);
    if (address === undefined || (line === undefined && this.budgets.usedUpForMs(address) === undefined)) {
      connection.front().accept(connection.socket);
    } else if (line === undefined) {
      this.lines.set(address, []);
      this.hand(address, connection);
    } else if (line.length >= MAX_WAITING) {
      this.refused(address);
      connection.socket.destroy();
    } else {
      // It is not read, and without a listener an error of it would end the process.
      connection.socket.on('error', ignore);
      line.push(connection);
    }
  }

  /** Closes those that wait. */
  close(): void {
    for (const { socket } of [...this.lines.values()].flat()) socket.destroy();
    this.lines.clear();
  }

  private hand(address: string, { socket, front: frontOf }: SuspectConnection): void {
    const handedAtMs = performance.now();
    const front = frontOf();
    front.accept(socket);
    setTimeout(() => {
      front.chargeFrames();
      const usedUpForMs = this.budgets.usedUpForMs(address);
      const wasBad = usedUpForMs !== undefined && performance.now() - usedUpForMs >= handedAtMs;
      if (wasBad) setTimeout(() => this.next(address), PAUSE_MS).unref();
      else this.next(address);
    }, WATCHED_MS).unref();
  }

  private next(address: string): void {
    const line = this.lines.get(address) ?? [];
    const waiting = line.findIndex(({ socket }) => !socket.destroyed);
    const [connection] = line.splice(0, waiting + 1).slice(-1);
    if (waiting === -1 || connection === undefined) {
      this.lines.delete(address);
      return;
    }
    connection.socket.off('error', ignore);
    this.hand(address, connection);
  }
}
