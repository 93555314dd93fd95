import type { Socket } from 'node:net';
import type { HttpServer } from './http-server.ts';
import type { OverheadBudgets } from './overhead-budget.ts';

/** How long a connection is watched before the next one comes. */
const WATCHED_MS = 20;
/** The same if it was as bad as the one before. */
const PAUSE_MS = 100;
/** Connections of one address that may wait. */
const MAX_WAITING = 100;

export interface SuspectConnection {
  readonly socket: Socket;
  readonly front: Pick<HttpServer, 'accept' | 'chargeFrames'>;
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
      connection.front.accept(connection.socket);
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

  private hand(address: string, { socket, front }: SuspectConnection): void {
    const handedAtMs = performance.now();
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

function ignore(): void {
  // A connection that breaks before its first request concerns nobody; 'close' follows.
}
